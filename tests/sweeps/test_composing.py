"""Cells composed together are what Hydra composes one by one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hydra import compose as hydra_compose
from hydra import initialize_config_dir

from lengthwise import outside
from lengthwise.composing import Composer
from lengthwise.config import CONFIG_NAME, check, register_schema
from lengthwise.errors import ConfigError
from lengthwise.paths import conf_dir

CELLS = [
    [],
    ["pe=rotary", "seed=1"],
    ["pe=rotary", "seed=2", "model.heads=8"],
    ["pe=rotary", "pe.base=500", "data.lengths=[4,5]"],
    ["model.width=16", "size=base"],
    ["size=base", "norm=post", "model.width=16", "model.width=32"],
    ["study=length_generalization", "trainer.max_steps=7", "seed=3"],
    ["++data_seed=5", "run.label=x${seed}", "seed=4"],
    ["+callbacks.mine._target_=a.b.C", "~callbacks.mine._target_", "seed=2"],
    ["debug=fast", "trainer.max_steps=9"],
]


def by_hydra(words: list[str]) -> dict[str, Any]:
    register_schema()
    with initialize_config_dir(str(conf_dir()), version_base="1.3"):
        return check(hydra_compose(CONFIG_NAME, overrides=words))


@pytest.fixture(scope="module")
def composer() -> Composer:
    return Composer()


@pytest.mark.parametrize("words", CELLS, ids=" ".join)
def test_as_hydra_does(composer: Composer, words: list[str]) -> None:
    expected = by_hydra(words)
    assert composer(words) == expected
    composer([*words, "seed=99", "model.heads=1"])  # what one cell sets does not reach the next
    assert composer(words) == expected


@pytest.mark.parametrize(
    ("word", "says"),
    [
        ("pe=rotray", "Did you mean rotary?"),
        ("+modle.width=8", "Did you mean model.width?"),
        ("model.heads=many", "model.heads"),
        ("model.wdth=3", "Did you mean model.width?"),
        ("seed=0,1", "several values are a sweep"),
        ("seed=range(0,3)", "several values are a sweep"),
        ("pe=[rotary,alibi]", "takes one option, not a list"),
        ("seed", "key=value"),
    ],
)
def test_what_is_wrong_is_named(composer: Composer, word: str, says: str) -> None:
    with pytest.raises(ConfigError, match=r"(?s).*") as caught:
        composer(["norm=pre", word])
    assert says in str(caught.value)


def test_axes(composer: Composer) -> None:
    axes = composer.axes(
        ["pe=glob(*a*,exclude=[s*,t*,l*])", "seed=range(0,3)", "norm=pre,post", "data.lengths=[4,5]"]
    )
    assert axes["pe=glob(*a*,exclude=[s*,t*,l*])"] == [
        "pe=abacus",
        "pe=alibi",
        "pe=binary",
        "pe=rotary",
        "pe=unit_interval",
    ]
    assert axes["seed=range(0,3)"] == ["seed=0", "seed=1", "seed=2"]
    assert axes["norm=pre,post"] == ["norm=pre", "norm=post"]
    assert axes["data.lengths=[4,5]"] is None
    with pytest.raises(ConfigError, match="listed values"):
        composer.axes(["optimizer.lr=interval(0,1)"])


def test_folders_of_ones_own_are_searched(tmp_path: Path) -> None:
    (tmp_path / "pe").mkdir()
    (tmp_path / "pe" / "mine.yaml").write_text(
        "_target_: lengthwise.nn.position.none.NoPosition\n_partial_: true\n"
    )
    with outside.restored():
        composer = Composer(search=[str(tmp_path)])
        assert composer(["pe=mine"])["pe"]["_target_"].endswith("NoPosition")
        assert composer.axes(["pe=glob(mi*)"]) == {"pe=glob(mi*)": ["pe=mine"]}
    with pytest.raises(ConfigError, match="mine"):
        Composer()(["pe=mine"])
