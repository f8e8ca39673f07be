"""Hydra's override grammar as a search space."""

from __future__ import annotations

import pytest
from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution

from lengthwise.errors import ConfigError
from lengthwise.sweeps.space import read_space


@pytest.mark.parametrize(
    ("text", "distribution"),
    [
        ("pe=rotary,alibi", CategoricalDistribution(["rotary", "alibi"])),
        ("model.heads=choice(1,2,4)", CategoricalDistribution(["1", "2", "4"])),
        ("model.bias=true,false", CategoricalDistribution(["True", "False"])),
        ("data.lengths=[4,5],[4,6]", CategoricalDistribution(["[4,5]", "[4,6]"])),
        ("optimizer.lr=interval(1e-4, 1e-2)", FloatDistribution(1e-4, 1e-2)),
        ("optimizer.lr=tag(log, interval(1e-4, 1e-2))", FloatDistribution(1e-4, 1e-2, log=True)),
        ("model.heads=int(interval(1, 8))", IntDistribution(1, 8)),
        ("model.width=int(tag(log, interval(16, 256)))", IntDistribution(16, 256, log=True)),
        ("model.layers=range(1,5)", IntDistribution(1, 4)),
        ("data.batch_size=range(16,65,16)", IntDistribution(16, 64, step=16)),
        ("data.batch_size=range(64,0,-16)", IntDistribution(16, 64, step=16)),
        ("model.dropout=range(0,0.5,0.1)", FloatDistribution(0.0, 0.4, step=0.1)),
    ],
)
def test_each_form_is_its_distribution(text: str, distribution: object):
    space = read_space([text])
    assert space.distributions() == {text.partition("=")[0]: distribution}


def test_what_is_not_searched_stays_and_hydras_own_is_left_out():
    space = read_space(
        [
            "hydra/sweeper=optuna",
            "pe=rotary,alibi",
            "seed=3",
            "hydra.sweeper.trials=4",
            "hydra/launcher=slurm",
            "norm=pre",
        ]
    )
    assert space.fixed == ("seed=3", "norm=pre")
    assert [dimension.key for dimension in space.dimensions] == ["pe"]


def test_the_command_line_comes_before_the_file():
    params = {"pe": "none,t5", "optimizer.lr": "interval(0.1, 0.2)", "seed": 3}
    space = read_space(["pe=rotary,alibi"], params)
    assert space.distributions() == {
        "pe": CategoricalDistribution(["rotary", "alibi"]),
        "optimizer.lr": FloatDistribution(0.1, 0.2),
    }
    assert space.fixed == ("seed=3",)


def test_a_point_is_what_one_types():
    space = read_space(
        ["pe=rotary,alibi", "+model.heads=int(interval(1,8))", "optimizer.lr=interval(1e-4,1e-2)"]
    )
    params = {"pe": "alibi", "+model.heads": 3, "optimizer.lr": 0.00123456789}
    assert space.point(params) == ["pe=alibi", "+model.heads=3", "optimizer.lr=0.00123457"]


def test_a_rounded_number_stays_within_its_interval():
    space = read_space(["optimizer.lr=interval(0.10000049, 0.2)"])
    assert space.point({"optimizer.lr": 0.10000049}) == ["optimizer.lr=0.10000049"]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("pe=rotary", "nothing is searched"),
        ("optimizer.lr=interval(2, 1)", "empty"),
        ("optimizer.lr=tag(log, interval(0, 1))", "above 0"),
        ("pe=tag(log, choice(rotary,alibi))", "takes an interval"),
        ("pe=tag(linear, choice(rotary,alibi))", "linear"),
        ("pe=glob(*)", "listed values"),
        ("~pe=rotary,alibi", "listed values"),
        ("pe=rotary,", "key=value"),
        ("model.layers=range(3,3)", "empty"),
    ],
)
def test_what_cannot_be_searched_is_refused(text: str, says: str):
    with pytest.raises(ConfigError, match=says):
        read_space([text])


def test_a_key_is_searched_once():
    with pytest.raises(ConfigError, match="pe is given twice"):
        read_space(["pe=rotary,alibi", "pe=none,t5"])


def test_a_grid_is_every_combination_of_listed_values():
    space = read_space(["pe=rotary,alibi", "model.layers=range(1,3)"])
    assert space.grid() == [
        {"pe": pe, "model.layers": layers} for pe in ("rotary", "alibi") for layers in (1, 2)
    ]
    with pytest.raises(ConfigError, match=r"optimizer\.lr is an interval"):
        read_space(["pe=rotary,alibi", "optimizer.lr=interval(0,1)"]).grid()


def test_probes_try_every_value_and_both_ends():
    space = read_space(["pe=rotary,alibi,t5", "optimizer.lr=interval(0,1)", "model.heads=int(interval(1,8))"])
    probes = space.probes()
    assert {probe["pe"] for probe in probes} == {"rotary", "alibi", "t5"}
    assert {0.0, 1.0} < {probe["optimizer.lr"] for probe in probes}  # and one that is no whole number
    assert {probe["model.heads"] for probe in probes} == {1, 8}
    assert len(probes) == 1 + 2 + 2 + 1
