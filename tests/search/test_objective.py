"""What may be searched for: figures of the validation, never those of the test."""

from __future__ import annotations

from pathlib import Path

import pytest

from lengthwise.errors import ConfigError
from lengthwise.runs import RunFolder, Table
from lengthwise.sweeps.objective import choose_objective

WITH = {"evaluation": {"symmetry": True}}
WITHOUT = {"evaluation": {"symmetry": False}}


@pytest.mark.parametrize(
    ("name", "direction"),
    [
        ("val_loss", "minimize"),
        ("val_token_accuracy", "maximize"),
        ("val_exact_match", "maximize"),
        ("symmetry_uniform", "minimize"),
    ],
)
def test_the_better_direction_is_known(name: str, direction: str):
    assert choose_objective(name, None, WITH).direction == direction


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("last/token_accuracy/extrapolation", "beyond training.*Use val_token_accuracy"),
        ("best/exact_match/reach", "beyond training.*Use val_exact_match"),
        ("last/loss/in_distribution", "measured on the test.*Use val_loss"),
        ("val_los", "Did you mean val_loss"),
        ("val/loss", "Did you mean val_loss"),
        ("loss", "there are val_loss, val_token_accuracy, val_exact_match"),
        ("symmetry_uniform", "evaluation.symmetry=true"),
    ],
)
def test_other_figures_are_refused(name: str, says: str):
    with pytest.raises(ConfigError, match=says):
        choose_objective(name, None, WITHOUT)


def test_figures_at_trained_lengths_are_not_said_to_be_beyond_them():
    with pytest.raises(ConfigError) as refusal:
        choose_objective("last/loss/in_distribution", None, WITH)
    assert "beyond" not in str(refusal.value)


@pytest.mark.parametrize(
    ("name", "direction"), [("val_loss", "maximize"), ("val_token_accuracy", "minimize"), ("val_loss", "up")]
)
def test_the_wrong_direction_is_refused(name: str, direction: str):
    with pytest.raises(ConfigError, match=f"direction={direction}"):
        choose_objective(name, direction, WITH)


def test_only_a_symmetry_may_be_broken_on_purpose():
    assert choose_objective("symmetry_uniform", "maximize", WITH).direction == "maximize"


def test_points_are_the_finite_validations_up_to_the_trials_end(tmp_path: Path):
    folder = RunFolder(tmp_path)
    table = Table(folder.train_csv, ("step", "loss", "val_loss"))
    table.append(
        {"step": 0, "val_loss": 9.0},  # before training
        {"step": 10, "loss": 1.0},
        {"step": 20, "loss": 1.0, "val_loss": 0.5},
        {"step": 30, "val_loss": float("nan")},
        {"step": 40, "val_loss": 0.25},
        {"step": 50, "val_loss": 0.1},  # the run was extended later
    )
    objective = choose_objective("val_loss", None, WITH)
    assert objective.points(folder, 40) == [(20, 0.5), (40, 0.25)]
    assert objective.points(RunFolder(tmp_path / "nowhere"), 40) == []
