"""Every study of experiments/: what its files say belongs together."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import yaml

from lengthwise.commands import DEMO_STUDIES
from lengthwise.composing import compose
from lengthwise.report.labels import labels_of
from lengthwise.report.study import named_choices
from lengthwise.runs import scientific, variant_hash
from lengthwise.sweeping import parse, sweep_of

ROOT = Path(__file__).resolve().parents[2]
STUDIES = sorted(path.parent for path in (ROOT / "experiments").glob("*/study.yaml"))
SHOWN = re.compile(r"<!-- results: (.+?) -->\n(.*?)<!-- end of results -->", flags=re.S)

each_study = pytest.mark.parametrize("folder", STUDIES, ids=lambda path: path.name)


@cache
def configs(name: str) -> dict[str, dict[str, Any]]:
    """The study's runs, name to configuration."""
    sweep = sweep_of(parse([f"study={name}"]))
    assert sweep is not None
    return {entry.cell.name: entry.cell.config for entry in sweep.entries}


def labels(name: str) -> set[str]:
    study = compose([f"study={name}"])["study"]
    variants = {variant_hash(config): config for config in configs(name).values()}
    return set(labels_of(variants, named_choices(study)).values())


def test_the_demo_runs_every_study() -> None:
    assert sorted(DEMO_STUDIES) == [path.name for path in STUDIES]


@each_study
def test_its_contrasts_name_its_variants_and_lengths_it_tests(folder: Path) -> None:
    config = compose([f"study={folder.name}"])
    for contrast in config["study"].get("contrasts", []):
        assert {contrast["a"], contrast["b"]} <= labels(folder.name)
        assert (
            contrast.get("at_length", config["evaluation"]["lengths"][0]) in config["evaluation"]["lengths"]
        )


def test_norm_placement_tells_its_three_cells_apart() -> None:
    assert labels("norm_placement") == {
        "learned norm=post warmup_steps=0",
        "learned norm=post warmup_steps=50",
        "learned norm=pre warmup_steps=0",
    }


@each_study
def test_what_is_tested_is_tested_on_enough_sequences(folder: Path) -> None:
    assert compose([f"study={folder.name}"])["evaluation"]["count"] >= 1024


def test_head_count_compares_equally_many_parameters() -> None:
    from lengthwise.build import build_parts

    by_heads = {config["model"]["heads"]: config for config in configs("head_count").values()}
    counts = {
        heads: sum(p.numel() for p in build_parts(config)[2].parameters())
        for heads, config in by_heads.items()
    }
    assert len(counts) == 4 and len(set(counts.values())) == 1


@each_study
def test_its_stored_results_are_those_of_its_runs(folder: Path) -> None:
    runs = pd.read_csv(folder / "results" / "runs.csv")
    cells = configs(folder.name)
    assert set(runs["run"]) == set(cells)
    assert set(runs["state"]) == {"done"}
    for name, config in cells.items():
        stored = yaml.safe_load((folder / "results" / "configs" / f"{name}.yaml").read_text(encoding="utf-8"))
        assert scientific(stored) == scientific(config)


@each_study
def test_its_readme_says_question_design_and_command(folder: Path) -> None:
    text = (folder / "README.md").read_text(encoding="utf-8")
    for words in ("**Question.**", "**Design.**", "**Expected.**", "**Caveats.**", "**Results.**"):
        assert words in text, words
    assert f"python train.py study={folder.name}" in text
    assert f"python report.py study={folder.name} export=experiments/{folder.name}/results" in text
    runs = re.findall(rf"study={folder.name} +# (\d+) runs", text)
    assert runs == [str(len(configs(folder.name)))]


@pytest.mark.parametrize(
    "readme",
    [ROOT / "README.md", *(folder / "README.md" for folder in STUDIES)],
    ids=lambda path: path.parent.name,
)
def test_results_shown_are_the_stored_ones(readme: Path) -> None:
    blocks = SHOWN.findall(readme.read_text(encoding="utf-8"))
    assert blocks
    for path, text in blocks:
        stored = (ROOT / path).read_text(encoding="utf-8")
        assert text.strip() and text.strip() == stored.strip().partition("\n")[2].strip()
