"""Push and pop on a stack that the input describes."""

from __future__ import annotations

import numpy as np

from lengthwise.tasks.chomsky import NOT_REGULAR, PROTOCOL, SUITE
from lengthwise.tasks.contract import Examples, Symmetry, Task, no_evidence, real_places

_POP, _PUSH = 2, 3


class StackManipulation(Task):
    """What is left on a stack after pushes and pops."""

    name = "stack_manipulation"
    answer_format = "sequence"
    variable_answers = True
    definition = (
        "s uniform over 1…l-1 (1 at l = 1); s uniform bits, the stack from its bottom to its top, then l-s uniform "
        "actions POP, PUSH0, PUSH1. POP on an empty stack does nothing. The answer is the stack in the end, from its "
        "top to its bottom; it may be empty."
    )
    worked = (("0 1 PUSH0 POP", "1 0"), ("1 POP POP PUSH1 PUSH0", "0 1"), ("1 1 POP POP", ""))
    prediction = NOT_REGULAR
    symmetry = Symmetry("exchange 0 and 1, PUSH0 and PUSH1", "exchange 0 and 1")
    evidence_meaning = "none: each answer symbol has its own position"
    source = f"stack_manipulation of {SUITE}"
    deviations = f"actions have names (published: 2, 3, 4); {PROTOCOL}"

    def __init__(self) -> None:
        self.symbols = ("0", "1", "POP", "PUSH0", "PUSH1")
        self.answer_symbols = self.symbols[:2]

    def sample(self, lengths: np.ndarray, generator: np.random.Generator, split: str) -> Examples:
        real = real_places(lengths)
        stacked = np.where(lengths > 1, generator.integers(1, np.maximum(lengths, 2)), 1)
        bits = generator.integers(0, 2, size=real.shape)
        actions = generator.integers(_POP, _PUSH + 2, size=real.shape)
        in_stack = np.arange(real.shape[1]) < stacked[:, None]
        inputs = np.where(in_stack, bits, actions) * real
        answers, counts = _run(inputs, real)
        return Examples(inputs, lengths, answers, counts, no_evidence(lengths))

    def baselines(self, length: int) -> dict[str, float]:
        known = {
            "uniform": 0.5,
            "position_only": 0.5,
            "previous_only": 0.5,
        }  # all bits on the stack are independent
        return self.beside_measured(known, length)


def _run(inputs: np.ndarray, real: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(B, n) stacks from their tops, and (B,) heights, after the symbols (B, n); a bit is a push of itself."""
    size, places = inputs.shape
    rows = np.arange(size)
    stack = np.zeros((size, places + 1), dtype=np.int64)
    height = np.zeros(size, dtype=np.int64)
    pops, bits = (inputs == _POP) & real, np.where(inputs >= _PUSH, inputs - _PUSH, inputs)
    steps = np.where(pops, -1, real)
    for place in range(places):
        stack[rows, height] = bits[:, place]  # above the top nothing counts, so a pop may write there
        height = np.maximum(height + steps[:, place], 0)
    from_top = height[:, None] - 1 - np.arange(places)
    return np.take_along_axis(stack, np.maximum(from_top, 0), axis=1) * (from_top >= 0), height
