"""Options that an encoding got later leave the names of older runs alone."""

from __future__ import annotations

import copy

import pytest

from lengthwise.components import check_components
from lengthwise.composing import compose
from lengthwise.errors import ConfigError
from lengthwise.evaluate import _apply
from lengthwise.runs.identity import INTRODUCED, run_hash

LATER = {
    "rotary": ["fraction", "layout", "scaling", "factor", "original_length", "fast_turns", "slow_turns"],
    "alibi": ["sides"],
}


@pytest.mark.parametrize(("pe", "name"), [("rotary", "2abe331904"), ("alibi", "fc6e5bd300")])
def test_runs_from_before_the_options_keep_their_names(pe: str, name: str) -> None:
    """The names are those of stored results, made before."""
    config = compose([f"pe={pe}"])
    assert run_hash(config) == name
    for option in LATER[pe]:
        without = copy.deepcopy(config)
        assert without["pe"].pop(option) == INTRODUCED[f"pe.{option}"]
        assert run_hash(without) == name
    assert all(f"pe.{option}" in INTRODUCED for option in LATER[pe])


@pytest.mark.parametrize(
    "overrides",
    [
        ["pe.fraction=0.5"],
        ["pe.layout=half"],
        ["pe.scaling=linear", "pe.factor=2"],
        ["pe=alibi", "pe.sides=separate"],
    ],
)
def test_another_value_is_another_run(overrides: list[str]) -> None:
    assert run_hash(compose(overrides)) not in ("2abe331904", "fc6e5bd300")


def test_a_run_from_before_can_be_tested_with_them() -> None:
    old = compose(["pe=rotary"])
    for option in LATER["rotary"]:
        del old["pe"][option]
    applied = _apply(old, {"pe.scaling": "ntk", "pe.factor": 4})
    assert applied["pe"] == {**old["pe"], "scaling": "ntk", "factor": 4}
    check_components(applied)
    with pytest.raises(ConfigError, match=r"pe\.sides=separate: Rotary has no such option"):
        check_components(_apply(old, {"pe.sides": "separate"}))
    with pytest.raises(ConfigError, match=r"pe\.bse=3: Rotary takes"):
        _apply(old, {"pe.bse": 3})
