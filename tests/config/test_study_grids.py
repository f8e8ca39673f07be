"""A study's cells, and what the command line does to its axes."""

import re
from pathlib import Path

import pytest

from lengthwise.composing import Composer
from lengthwise.errors import ConfigError
from lengthwise.sweeping import parse, sweep_of
from lengthwise.sweeps.grid import expand
from lengthwise.sweeps.sweep import Sweep

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
    assert all("model.heads=1" in cell for cell in expand(GRIDS, {"model.heads": ["model.heads=1"]}))


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
    assert values["data.lengths=[4,5]"] is None and values["norm=pre"] is None


def test_a_study_with_ten_seeds(tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    sweep = sweep_of(parse(["study=length_generalization", "seed=range(0,10)", "pe=none,t5"]))
    assert sweep is not None
    assert len(sweep.entries) == 20
    assert {entry.cell.config["seed"] for entry in sweep.entries} == set(range(10))


def words_of(arguments: list[str]) -> list[list[str]]:
    sweep = sweep_of(parse(arguments))
    assert sweep is not None
    return [entry.cell.overrides for entry in sweep.entries]


@pytest.mark.parametrize(
    ("arguments", "key", "value"),
    [
        (["-m", "seed=range(5,6)", "pe=rotary,alibi"], "seed", 5),
        (["-m", "seed=choice(5)"], "seed", 5),
        (["-m", "pe=glob(rota*)", "seed=0,1"], "pe", "Rotary"),
        (["study=length_generalization", "data_seed=range(5,6)", "pe=none", "seed=0"], "data_seed", 5),
        (["study=length_generalization", "pe=choice(none)", "seed=0"], "pe", "NoPosition"),
    ],
    ids=str,
)
def test_an_axis_of_one_value_is_not_lost(arguments: list[str], key: str, value: object) -> None:
    sweep = sweep_of(parse(arguments))
    assert sweep is not None
    for entry in sweep.entries:
        found = entry.cell.config[key]
        assert (found["_target_"].rpartition(".")[2] if isinstance(found, dict) else found) == value


def own_study(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str) -> Sweep:
    folder = tmp_path / "experiments" / "mine"
    folder.mkdir(parents=True)
    (folder / "study.yaml").write_text(text)
    monkeypatch.chdir(tmp_path)
    sweep = sweep_of(parse(["study=mine"]))
    assert sweep is not None
    return sweep


def test_an_interpolation_in_a_grid_is_each_cells_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = "study:\n  grids: [{model.width: [16, 32], data.batch_size: '${model.width}'}]\n"
    sweep = own_study(tmp_path, monkeypatch, text)
    assert [entry.cell.config["data"]["batch_size"] for entry in sweep.entries] == [16, 32]


def test_the_study_shown_to_a_newcomer_is_what_it_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    readme = (Path(__file__).resolve().parents[2] / "README.md").read_text()
    (text,) = (block for block in re.findall(r"```yaml\n(.*?)```", readme, flags=re.S) if "grids" in block)
    sweep = own_study(tmp_path, monkeypatch, text)
    assert sweep.study == "mine"
    assert len(sweep.entries) == 2 * 3 + 2 * 3
    warm_up = {
        (
            entry.cell.config["norm"]["_target_"].rpartition(".")[2],
            entry.cell.config["schedule"]["warmup_steps"],
        )
        for entry in sweep.entries[6:]
    }
    assert warm_up == {("PreNorm", 0), ("PostNorm", 100)}


def test_a_key_that_a_study_does_not_have_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ConfigError, match="Did you mean grids"):
        own_study(tmp_path, monkeypatch, "study:\n  grid: [{seed: [0, 1]}]\n  grids: [{seed: 1}]\n")


@pytest.mark.parametrize("text", ["it's", "null", "1e3", "a b, c", "ü", "[x]", "true"])
def test_a_text_in_a_grid_stays_that_text(text: str) -> None:
    ((word,),) = expand([{"run.label": text}], {})
    assert Composer()([word])["run"]["label"] == text


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["-m", "seed=0,1", "seed=2,3"], "seed is given more than once"),
        (["-m", "seed=0,1", "seed=5"], "seed is given more than once"),
        (["-m", "pe=none,rotary,none"], "none is listed more than once"),
        (["study=length_generalization,equivariance"], "one study at a time"),
        (["-m", "seed=0,1", "hydra.sweep.dir=elsewhere"], "not used here"),
        (["-m", "wandb=offline,disabled"], "run.label of its own"),
        (["-m", "run.label=ü,ö"], "quoted"),
    ],
    ids=str,
)
def test_what_would_be_ignored_is_refused(arguments: list[str], says: str) -> None:
    with pytest.raises(ConfigError) as caught:
        sweep_of(parse(arguments))
    assert says in str(caught.value)
