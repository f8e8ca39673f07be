"""A study's cells, and what the command line does to its axes."""

import pytest

from lengthwise.composing import Composer
from lengthwise.errors import ConfigError
from lengthwise.sweeping import parse, sweep_of
from lengthwise.sweeps.grid import expand

GRIDS = [{"pe": ["none", "t5"], "seed": [0, 1], "norm": "pre"}]


def test_all_combinations_of_each_grid_once() -> None:
    cells = expand([*GRIDS, *GRIDS], {})
    assert cells == [[f"pe={pe}", f"seed={seed}", "norm=pre"] for pe in ("none", "t5") for seed in (0, 1)]


def test_the_command_line_replaces_an_axis_by_one_value_or_several() -> None:
    assert len(expand(GRIDS, {"pe": ["pe=rotary"]})) == 2
    many = expand(GRIDS, {"seed": [f"seed={n}" for n in range(10)]})
    assert len(many) == 20 and ["pe=t5", "seed=9", "norm=pre"] in many


def test_several_values_of_a_new_key_are_a_further_axis() -> None:
    cells = expand(GRIDS, {"model.heads": ["model.heads=1", "model.heads=2"]})
    assert len(cells) == 8
    assert expand(GRIDS, {"model.heads": ["model.heads=1"]}) == expand(
        GRIDS, {}
    )  # said beside, for every cell


def test_keys_joined_by_a_comma_vary_together() -> None:
    grid = {"pe,model.heads": [["rotary", 4], ["alibi", 8]], "seed": [0, 1]}
    assert expand([grid], {}) == [
        ["pe=rotary", "model.heads=4", "seed=0"],
        ["pe=rotary", "model.heads=4", "seed=1"],
        ["pe=alibi", "model.heads=8", "seed=0"],
        ["pe=alibi", "model.heads=8", "seed=1"],
    ]
    replaced = expand([grid], {"pe": ["pe=none"], "seed": ["seed=7"]})
    assert [sorted(cell) for cell in replaced] == [
        ["model.heads=4", "pe=none", "seed=7"],
        ["model.heads=8", "pe=none", "seed=7"],
    ]
    with pytest.raises(ConfigError, match="needs 2 values"):
        expand([{"pe,model.heads": [["rotary", 4], ["alibi"]]}], {})


def test_empty_axes_and_other_grids_are_refused() -> None:
    with pytest.raises(ConfigError, match="no values"):
        expand([{"pe": []}], {})
    with pytest.raises(ConfigError, match="maps keys"):
        expand(["pe"], {})  # type: ignore[list-item]


def test_lists_and_ranges_of_the_command_line() -> None:
    values = Composer().axes(["seed=range(0,3)", "pe=none,t5", "data.lengths=[4,5]", "norm=pre"])
    assert values["seed=range(0,3)"] == ["seed=0", "seed=1", "seed=2"]
    assert values["pe=none,t5"] == ["pe=none", "pe=t5"]
    assert values["data.lengths=[4,5]"] == ["data.lengths=[4,5]"]


def test_a_study_with_ten_seeds(tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    sweep = sweep_of(parse(["study=length_generalization", "seed=range(0,10)", "pe=none,t5"]))
    assert sweep is not None
    assert len(sweep.entries) == 20
    assert {entry.cell.config["seed"] for entry in sweep.entries} == set(range(10))
