"""`assert_equivariant` says what is so of any module, and says no where it is not."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
import torch
from torch import nn

import lengthwise
from lengthwise import assert_equivariant, assert_not_equivariant
from lengthwise.evaluation.equivariance import GROUPS, TOLERANCES
from lengthwise.keyed import philox
from lengthwise.tasks import Layout, Reverse, WordOrder
from lengthwise.tasks.items import test_items as items_of

SHAPE = (3, 7, 8)


class PerToken(nn.Module):
    """Every token by itself."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.map = nn.Linear(8, 5)

    def forward(self, x):
        return self.map(x).tanh()


class Summed(PerToken):
    """The set as a whole."""

    def forward(self, x):
        return super().forward(x).sum(1)


class RunningSum(PerToken):
    def forward(self, x):
        return super().forward(x).cumsum(1)


class Convolution(PerToken):
    """Its neighbours on a ring, with equal weights to both sides or not."""

    def __init__(self, left: float, right: float) -> None:
        super().__init__()
        self.left, self.right = left, right

    def forward(self, x):
        y = super().forward(x)
        return y + self.left * y.roll(1, 1) + self.right * y.roll(-1, 1)


def equivariant(*arguments, **options):
    """What both assertions say, which must be opposites."""
    answers = []
    for check in (assert_equivariant, assert_not_equivariant):
        try:
            check(*arguments, **options)
            answers.append(True)
        except AssertionError:
            answers.append(False)
    assert answers[0] != answers[1]
    return answers[0]


@pytest.mark.parametrize("group", GROUPS)
def test_permutations_of_axis_1(group):
    assert equivariant(PerToken(), shape=SHAPE, group=group)
    assert not equivariant(RunningSum(), shape=SHAPE, group=group)


def test_groups_are_told_apart():
    asymmetric, even = Convolution(0.3, 0.7), Convolution(0.5, 0.5)
    for module in (asymmetric, even):
        assert equivariant(module, shape=SHAPE, group="cyclic_shift")
        assert not equivariant(module, shape=SHAPE, group="permutation")
    assert equivariant(even, shape=SHAPE, group="reversal")
    assert not equivariant(asymmetric, shape=SHAPE, group="reversal")


def test_invariance_is_another_action_on_the_output():
    assert equivariant(Summed(), shape=SHAPE, output="invariant")
    assert not equivariant(PerToken(), shape=SHAPE, output="invariant")


def rotate(x, generator):
    """A rotation in the plane of the first two numbers."""
    angle = torch.tensor(generator.uniform(0.5, 2.5), dtype=x.dtype)
    turn = torch.eye(x.shape[-1], dtype=x.dtype)
    c, s = angle.cos(), angle.sin()
    turn[:2, :2] = torch.tensor([[c, -s], [s, c]])
    return x @ turn


class Norms(PerToken):
    def forward(self, x):
        return x * x.norm(dim=-1, keepdim=True)


def test_a_group_of_ones_own():
    """The output's action draws what the input's drew."""
    assert equivariant(Norms(), shape=SHAPE, group=rotate)
    assert not equivariant(Norms(), shape=SHAPE, group=rotate, output="invariant")
    assert not equivariant(PerToken(), shape=SHAPE, group=rotate, output="invariant")

    def doubled(x, generator):
        return x * 2.0 ** generator.integers(1, 4)

    def by_the_square(y, generator):
        return y * 4.0 ** generator.integers(1, 4)

    assert equivariant(Norms(), shape=SHAPE, group=doubled, output=by_the_square)
    assert not equivariant(Norms(), shape=SHAPE, group=doubled)


class Constant(PerToken):
    def __init__(self, strength: float) -> None:
        super().__init__()
        self.strength = strength

    def forward(self, x):
        return 1 + self.strength * x.cumsum(1)


@pytest.mark.parametrize("check", (assert_equivariant, assert_not_equivariant))
def test_a_constant_is_never_certified(check):
    with pytest.raises(AssertionError, match="collapsed"):
        check(Constant(0.0), shape=SHAPE)


def test_near_collapse_does_not_pass_for_symmetry():
    """Relative to ‖f(x)‖ the error is 1e-10; to ‖f(x) − f(x′)‖ it is of order 1."""
    with pytest.raises(AssertionError, match=r"of ‖f\(x\)‖ and .* of ‖f\(x\) − f\(x′\)‖") as raised:
        assert_equivariant(Constant(1e-10), shape=SHAPE, dtypes=["float64"])
    assert "is not equivariant" in str(raised.value)
    found = assert_not_equivariant(Constant(1e-10), shape=SHAPE)
    assert found.error < 1e-9 < 1e-1 < found.difference


def test_both_errors_must_be_within_the_tolerance():
    class Offset(RunningSum):
        def forward(self, x):
            return 1000 * PerToken.forward(self, x) + super().forward(x)

    assert_equivariant(Offset(), shape=SHAPE, tolerance=0.1)
    with pytest.raises(AssertionError, match="tolerance 1e-09"):
        assert_equivariant(Offset(), shape=SHAPE, dtypes=["float64"])


def test_tolerances_are_one_a_dtype():
    assert TOLERANCES["float64"] == 1e-9 < TOLERANCES["float32"]
    with pytest.raises(AssertionError, match=r"float32.*tolerance 1e-12"):
        assert_equivariant(
            Summed(), shape=SHAPE, output="invariant", tolerance={"float32": 1e-12, "float64": 1e-9}
        )
    found = assert_equivariant(Summed(), shape=SHAPE, output="invariant", dtypes=["float32"])
    assert 0 < found.error < 1e-5


def test_holds_false_is_the_negative_control():
    assert_equivariant(RunningSum(), shape=SHAPE, holds=False)
    with pytest.raises(AssertionError, match="does not break permutation"):
        assert_equivariant(PerToken(), shape=SHAPE, holds=False)


def test_between_the_two_neither_is_asserted():
    class Slightly(RunningSum):
        def forward(self, x):
            return PerToken.forward(self, x) + 1e-6 * super().forward(x)

    for check in (assert_equivariant, assert_not_equivariant):
        with pytest.raises(AssertionError):
            check(Slightly(), shape=SHAPE, dtypes=["float64"])


def test_an_example_of_symbols():
    class Counted(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embedding = nn.Embedding(9, 4)

        def forward(self, tokens):
            return self.embedding(tokens).mean(1)

    tokens = torch.arange(12).view(2, 6) % 9
    assert equivariant(Counted(), tokens, output="invariant")


def test_torchs_own_layers():
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
    assert equivariant(layer, shape=SHAPE)
    attention = nn.MultiheadAttention(8, 2, batch_first=True)
    assert equivariant(attention, shape=SHAPE, call=lambda module, x: module(x, x, x)[0])
    mask = torch.ones(7, 7, dtype=torch.bool).triu(1)
    assert not equivariant(
        attention, shape=SHAPE, call=lambda module, x: module(x, x, x, attn_mask=mask, need_weights=False)[0]
    )
    recurrent = nn.GRU(8, 4, batch_first=True)
    assert not equivariant(recurrent, shape=SHAPE, call=lambda module, x: module(x)[0])


def test_our_transformer(build):
    layout = Layout(WordOrder(), "encoder", "front")
    examples = layout.task.generate(np.array([5, 9, 7]), philox("equivariance tests"))
    batch = layout(examples)
    assert not batch.key_mask.all()  # pads stay where they are
    assert equivariant(build(layout, "none"), batch)
    assert not equivariant(build(layout, "rotary"), batch)
    assert equivariant(build(layout, "alibi"), batch, group="reversal")
    assert not equivariant(build(layout, "rotary"), batch, group="reversal")
    assert equivariant(build(layout, "rotary"), batch, group="translation", output="invariant")
    assert not equivariant(build(layout, "learned"), batch, group="translation", output="invariant")


def test_the_source_of_an_encoder_decoder(build):
    layout = Layout(Reverse(symbols=8), "encoder_decoder")
    batch = layout(items_of(layout.task, 6, 4))
    assert equivariant(build(layout, "none"), batch, output="invariant")
    assert not equivariant(build(layout, "sinusoidal"), batch, output="invariant")


def test_the_module_is_left_as_it_was():
    module = nn.Sequential(PerToken(), nn.Dropout(0.5)).train()
    module[0].eval()
    before = {name: value.clone() for name, value in module.state_dict().items()}
    assert_equivariant(module, shape=SHAPE)  # dropout is off
    assert module.training and not module[0].training and module[1].training
    for name, value in module.state_dict().items():
        assert value.dtype == torch.float32 and torch.equal(value, before[name])


def test_a_module_that_draws_draws_the_same_each_time():
    class Noisy(PerToken):
        def forward(self, x):
            return super().forward(x) * torch.rand(1).to(x)

    module = Noisy()
    torch.manual_seed(3)
    expected = torch.rand(1)
    torch.manual_seed(3)
    assert_equivariant(module, shape=SHAPE)
    assert torch.equal(torch.rand(1), expected)  # and the caller's generator is where it was


@pytest.mark.parametrize(
    "options, message",
    [
        ({}, "either an example input or the shape"),
        ({"shape": SHAPE, "group": "rotation"}, "group 'rotation' is unknown"),
        ({"shape": SHAPE, "output": "equal"}, "output 'equal' is unknown"),
        ({"shape": (3, 1, 8)}, "at least two entries"),
        ({"shape": SHAPE, "dtypes": ["float16"]}, "dtype 'float16'"),
        ({"shape": SHAPE, "draws": 0}, "draws=0"),
        ({"shape": SHAPE, "dtypes": ()}, "names none"),
        ({"shape": SHAPE, "tolerance": {"float16": 1e-2}}, "dtype 'float16'"),
        ({"shape": SHAPE, "tolerance": -1.0}, "at least 0"),
        ({"shape": SHAPE, "tolerance": float("nan")}, "at least 0"),
    ],
)
def test_arguments_that_do_not_fit_are_named(options, message):
    with pytest.raises(ValueError, match=message):
        assert_equivariant(PerToken(), **options)


@pytest.mark.parametrize("check", (assert_equivariant, assert_not_equivariant))
def test_a_group_that_moves_nothing_is_no_test(check, build):
    with pytest.raises(ValueError, match="leaves this x as it is in each of 8 draws"):
        check(RunningSum(), torch.ones(SHAPE), other=torch.rand(SHAPE))
    with pytest.raises(ValueError, match="leaves this x as it is"):
        check(RunningSum(), shape=SHAPE, group=lambda x, generator: x)
    layout = Layout(WordOrder(), "encoder", "front")
    batch = layout(items_of(layout.task, 5, 2))
    same = replace(batch, tokens=torch.full_like(batch.tokens, 2))
    with pytest.raises(ValueError, match="leaves this x as it is"):
        check(build(layout, "rotary"), same, other=batch)


def test_a_group_may_work_in_place():
    def doubled(x, generator):
        return x.mul_(2.0)

    assert equivariant(nn.ReLU(), shape=SHAPE, group=doubled)
    assert not equivariant(torch.exp, shape=SHAPE, group=doubled)


def test_complex_outputs_count_whole():
    """Its real part follows any permutation, its imaginary part none."""

    class Half(PerToken):
        def forward(self, x):
            return torch.complex(x, x.cumsum(1))

    assert not equivariant(Half(), shape=SHAPE)
    assert equivariant(lambda x: torch.complex(x, x.exp()), shape=SHAPE)
    assert equivariant(lambda x: torch.fft.fft(x, dim=2), torch.randn(SHAPE, dtype=torch.complex64))


def test_complex_parameters_stay_complex():
    class Turned(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.turn = nn.Parameter(torch.polar(torch.ones(8), torch.arange(8.0)))
            assert self.turn.is_complex()

        def forward(self, x):
            assert self.turn.dtype == (torch.complex64 if x.dtype == torch.float32 else torch.complex128)
            return x * self.turn

    assert equivariant(Turned(), shape=SHAPE)


def test_functions_are_taken_as_they_are():
    assert equivariant(torch.relu, shape=SHAPE)
    assert not equivariant(lambda x: x.cumsum(1), shape=SHAPE)
    assert equivariant(Summed().map.forward, shape=SHAPE)  # a method: its module is what is cast
    with pytest.raises(AssertionError, match="cumulated is not equivariant"):

        def cumulated(x):
            return x.cumsum(1)

        assert_equivariant(cumulated, shape=SHAPE)
    with pytest.raises(ValueError, match="neither a module nor a function"):
        assert_equivariant(3, shape=SHAPE)


def test_the_tolerance_counts_for_both_assertions():
    class Slightly(RunningSum):
        def forward(self, x):
            return PerToken.forward(self, x) + 1e-3 * super().forward(x)

    assert_not_equivariant(Slightly(), shape=SHAPE)
    for check in (assert_not_equivariant, partial(assert_equivariant, holds=False)):
        with pytest.raises(AssertionError, match="does not break"):
            check(Slightly(), shape=SHAPE, tolerance=0.5)
        assert check(Slightly(), shape=SHAPE, tolerance={"float64": 1e-8}).dtype == "float64"
        assert check(Slightly(), shape=SHAPE, dtypes="float32").dtype == "float32"


def test_a_tolerance_for_one_dtype_leaves_the_other_its_own():
    assert_equivariant(PerToken(), shape=SHAPE, tolerance={"float64": 1e-9})
    with pytest.raises(AssertionError, match=r"float64.*tolerance 1e-09"):
        assert_equivariant(RunningSum(), shape=SHAPE, tolerance={"float32": 10.0})


def test_a_pooled_output_cannot_be_moved():
    with pytest.raises(ValueError, match='use output="invariant"'):
        assert_equivariant(Summed(), shape=SHAPE)


def test_it_needs_neither_hydra_nor_lightning():
    code = (
        "import sys\n"
        "for name in ('hydra', 'omegaconf', 'pytorch_lightning', 'wandb', 'pandas'): sys.modules[name] = None\n"
        "import torch, lengthwise\n"
        "lengthwise.assert_equivariant(torch.nn.Linear(4, 3), shape=(2, 5, 4))\n"
        "print('done')"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout.strip() == "done", done.stderr


def test_it_is_part_of_the_library():
    assert {"assert_equivariant", "assert_not_equivariant"} <= set(lengthwise.__all__)
    assert lengthwise.assert_equivariant is assert_equivariant
