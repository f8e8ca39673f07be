"""The scorecard that a run shows in W&B is the one that the command prints."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from lengthwise import compose
from lengthwise.build import build_parts
from lengthwise.wandb_results import scorecard_row, variant_scorecard
from support.commandline import in_process

SIZES = ["model.width=32", "model.heads=2", "model.layers=1"]
COSTS = {"parameters", "time", "time_low", "time_high", "memory", "cost_length"}


def row_of(*words: str) -> list[dict]:
    config = compose([*SIZES, *words])
    return scorecard_row(config, build_parts(config)[1])


@pytest.mark.parametrize("pe", ["sinusoidal", "alibi"])
def test_the_figures_are_those_of_the_command(tmp_path: Path, pe: str) -> None:
    (row,) = row_of(f"pe={pe}")
    printed = in_process(tmp_path, "scorecard", f"pe={pe}", *SIZES, "--json", "path=null")
    (card,) = json.loads(printed.out)["encodings"]
    known = {
        name: value for name, value in card["figures"].items() if value is not None and name not in COSTS
    }
    assert {name: row.get(name) for name in known} == known
    assert (row["encoding"], row["width"]) == (pe, 32)
    assert set(row["symmetries"].split()) == {name for name, holds in card["symmetries"].items() if holds}


def test_a_wide_model_is_measured_at_the_width_of_the_command() -> None:
    (row,) = row_of("pe=sinusoidal", "model.width=512")
    assert row["width"] == 128


@pytest.mark.parametrize(
    "words", [["model=encoder_decoder", "task=reverse"], ["attention=fixed", "pe=learned"]]
)
def test_there_is_none_where_the_command_has_none(words: list[str]) -> None:
    assert row_of(*words) == []


def test_it_is_measured_once_for_the_seeds_of_a_variant(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def rows(*words: str) -> list[dict]:
        config = compose([*SIZES, f"outputs={tmp_path}", *words])
        return variant_scorecard(config, build_parts(config)[1])

    first = rows("pe=alibi", "seed=3")
    assert first == [{**row_of("pe=alibi", "seed=3")[0], "init_seed": 3}]
    (file,) = (tmp_path / "wandb" / "cache" / "scorecards").iterdir()
    monkeypatch.setattr("lengthwise.wandb_results.scorecard_row", lambda *_: [{"encoding": "measured again"}])
    assert rows("pe=alibi", "seed=4") == first
    (other,) = rows("pe=alibi", "norm=post")
    assert other["encoding"] == "measured again", "control: another variant"
    file.write_text("half a fi")
    (anew,) = rows("pe=alibi", "seed=3")
    assert anew["encoding"] == "measured again"
