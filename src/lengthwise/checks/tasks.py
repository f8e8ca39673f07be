"""What a task must do: legal lengths, keyed and vectorised examples, answers in its own format, honest baselines."""

from __future__ import annotations

import json
import sys
from functools import partial
from types import FrameType
from typing import Any

import numpy as np

from lengthwise.batch import IGNORE
from lengthwise.build import build_task
from lengthwise.checks.verdicts import NotApplicable, Report
from lengthwise.evaluation.properties import PropertyError
from lengthwise.keyed import philox
from lengthwise.tasks import Layout, Task, test_items
from lengthwise.tasks.contract import ANSWER_FORMATS, BLIND, Examples, Symmetry, best_blind
from lengthwise.tasks.layout import READOUTS, SHAPES

_FEW, _MANY = 64, 1024
_KNOWN = (*BLIND, "window")


def check_task(report: Report, config: dict[str, Any]) -> None:
    """Add the rows of the task in `config`."""
    found: list[Task] = []

    def builds() -> None:
        found.append(build_task(config))

    if not report.add("builds", builds):
        return
    task, lengths = found[0], _lengths(found[0], config["data"]["lengths"])
    report.add("declared facts", partial(_facts, task))
    report.add("lengths", partial(_legal_lengths, task, lengths))
    report.add("examples", partial(_examples, task, lengths))
    report.add("keyed", partial(_keyed, task, lengths))
    report.add("vectorised", partial(_vectorised, task, lengths))
    report.add("twins", partial(_twins, task, lengths))
    report.add("test items", partial(_test_items, task, lengths))
    report.add("baselines", partial(_baselines, task, lengths))
    report.add("layouts", partial(_layouts, task, lengths))


def _lengths(task: Task, trained: list[int]) -> list[int]:
    """A few legal ones: the trained, and longer."""
    return sorted({*trained, *(n for n in (20, 30, 50) if _is_legal(task, n))})


def _is_legal(task: Task, length: int) -> bool:
    try:
        task.check_length(length)
    except ValueError:
        return False
    return True


def _draw(task: Task, lengths: list[int], count: int, *, seed: int = 0) -> Examples:
    return task.generate(np.resize(np.array(lengths), count), philox("check", seed), "train")


def _facts(task: Task) -> str:
    if task.answer_format not in ANSWER_FORMATS:
        raise PropertyError(
            f"answer_format={task.answer_format!r}: must be one of {', '.join(ANSWER_FORMATS)}"
        )
    for fact in ("name", "evidence_meaning", "source", "deviations"):
        if not isinstance(getattr(task, fact, None), str) or not getattr(task, fact):
            raise PropertyError(f"{fact} says nothing: write it down, as text")
    if not isinstance(getattr(task, "symmetry", None), Symmetry):
        raise PropertyError("symmetry must be a Symmetry(on_input, on_answer)")
    symbols, answers = tuple(task.symbols), tuple(task.answer_symbols)
    if len(set(symbols)) < len(symbols):
        raise PropertyError("two symbols have the same name")
    if not answers or not set(answers) <= set(symbols):
        raise PropertyError("answer_symbols must be some of the symbols")
    json.dumps(task.identity)
    return f"{len(symbols)} symbols, {len(answers)} of them in answers, one answer {task.answer_format}"


def _legal_lengths(task: Task, lengths: list[int]) -> str:
    wrong = [n for n in (task.min_length - 1, 0, -1) if n < task.min_length]
    wrong += [] if task.max_length is None else [task.max_length + 1]
    for length in wrong:
        if _is_legal(task, length):
            raise PropertyError(
                f"length {length} is outside {task.min_length}…{task.max_length}, but is accepted"
            )
    most = "" if task.max_length is None else f" to {task.max_length}"
    return f"from {task.min_length}{most}; looked at {', '.join(map(str, lengths))}"


def _examples(task: Task, lengths: list[int]) -> None:
    """Shapes, types, and that places past an example's own length hold nothing."""
    asked = np.resize(np.array(lengths), _FEW)
    drawn = _draw(task, lengths, _FEW)
    if len(drawn) != _FEW or not np.array_equal(drawn.lengths, asked):
        raise PropertyError("the examples are not one for each length asked for, in their order")
    for name in ("inputs", "lengths", "answers", "answer_lengths", "evidence"):
        if (kind := getattr(drawn, name).dtype) != np.int64:
            raise PropertyError(f"{name} is {kind}, must be int64")
    counts = np.array([task.answer_length(int(n)) for n in asked])
    short = drawn.answer_lengths <= counts if task.variable_answers else drawn.answer_lengths == counts
    if not short.all():
        raise PropertyError("answer_lengths is not what answer_length says")
    for name, rows, own in (
        ("inputs", drawn.inputs, drawn.lengths),
        ("answers", drawn.answers, drawn.answer_lengths),
    ):
        if rows.shape[1] < own.max():
            raise PropertyError(f"{name} has {rows.shape[1]} places, fewer than the longest example")
        real = np.arange(rows.shape[1]) < own[:, None]
        if rows[~real].any():
            raise PropertyError(f"{name} holds something else than 0 past an example's own length")
        allowed = task.answer_ids if name == "answers" else np.arange(len(task.symbols))
        if name == "answers" and task.partly_scored:
            allowed = np.append(allowed, IGNORE)
        if not np.isin(rows[real], allowed).all():
            raise PropertyError(f"{name} holds ids that are none of the task's")
    if ((drawn.evidence < -1) | (drawn.evidence >= drawn.lengths)).any():
        raise PropertyError("evidence is neither -1 nor a position of the input")
    if (task.feature_dim is None) != (drawn.features is None):
        raise PropertyError(f"feature_dim={task.feature_dim}, but the examples have other features")


def _same(one: Examples, other: Examples) -> bool:
    names = ("inputs", "lengths", "answers", "answer_lengths", "evidence", "features")
    pairs = [(getattr(one, name), getattr(other, name)) for name in names]
    return all((a is None and b is None) or np.array_equal(a, b) for a, b in pairs)


def _keyed(task: Task, lengths: list[int]) -> str:
    """The generator decides, and nothing else."""
    one, again, other = (_draw(task, lengths, _FEW, seed=seed) for seed in (0, 0, 1))
    if not _same(one, again):
        raise PropertyError("two calls with the same generator give other examples: draw from it alone")
    if _same(one, other):
        raise PropertyError("another generator gives the same examples")
    return "same generator, same examples"


def _vectorised(task: Task, lengths: list[int]) -> str:
    """The work that Python itself does hardly grows with the number of examples."""
    if task.fixed_items("test") is not None:
        raise NotApplicable("its data are finite")
    few, many = (_operations(task, lengths, count) for count in (_FEW, _MANY))
    growth = many / few
    if growth > _MANY / _FEW / 4:
        raise PropertyError(
            f"{_MANY // _FEW} times the examples take {growth:.0f} times the steps of Python: there is a loop over "
            "examples; use numpy's operations on whole arrays"
        )
    return f"{_MANY // _FEW} times the examples, {growth:.1f} times the steps of Python"


def _operations(task: Task, lengths: list[int], count: int) -> int:
    """Bytecode instructions of one call, those of numpy and of our own `generate` included."""
    steps = 0

    def trace(frame: FrameType, event: str, argument: Any) -> Any:
        nonlocal steps
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        steps += event == "opcode"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        _draw(task, lengths, count)
    finally:
        sys.settrace(before)
    return max(steps, 1)


def _twins(task: Task, lengths: list[int]) -> str:
    if not task.has_twins:
        raise NotApplicable("it declares none (has_twins)")
    drawn = _draw(task, lengths, _FEW)
    twin = task.twin(drawn)
    if twin is None:
        raise PropertyError("has_twins, but twin() gives None")
    if not np.array_equal(np.sort(drawn.inputs, axis=1), np.sort(twin.inputs, axis=1)):
        raise PropertyError("a twin has another bag of inputs")
    if (drawn.answers == twin.answers).all(axis=1).any():
        raise PropertyError("a twin has the same answer")
    return "same inputs, other answers"


def _test_items(task: Task, lengths: list[int]) -> str:
    few, many = test_items(task, lengths[-1], 8), test_items(task, lengths[-1], 16)
    if not _same(few, many.rows(slice(0, len(few)))):
        raise PropertyError("fewer test items are not the first of more")
    return "fewer are the first of more"


def _baselines(task: Task, lengths: list[int]) -> str:
    names: dict[str, None] = {}
    for length in lengths:
        given = task.baselines(length)
        if "uniform" not in given:
            raise PropertyError(f"length {length}: the baseline uniform is missing")
        for name, value in given.items():
            names[name] = None
            if name not in _KNOWN:
                raise PropertyError(f"{name} is no baseline; there are {', '.join(_KNOWN)}")
            if not 0.0 <= value <= 1.0:
                raise PropertyError(f"length {length}: baseline {name} is {value}, must be between 0 and 1")
        best_blind(given)
    return ", ".join(names)


def _layouts(task: Task, lengths: list[int]) -> str:
    """Every shape and readout either says why it is refused, or scores exactly the answers."""
    done = []
    for shape in SHAPES:
        for readout in READOUTS if shape == "encoder" else ("end",):
            try:
                layout = Layout(task, shape, readout)
            except ValueError:
                continue
            drawn = _draw(task, lengths, _FEW)
            batch = layout(drawn)
            scored = (batch.targets != IGNORE).sum(1).numpy()
            real = np.arange(drawn.answers.shape[1]) < drawn.answer_lengths[:, None]
            needed = (real & (drawn.answers != IGNORE)).sum(1) + layout.ends
            if (scored < needed).any() or ((scored > needed).any() and not task.variable_answers):
                raise PropertyError(f"{shape}, readout={readout}: not every answer symbol is scored")
            done.append(shape if readout == "end" else f"{shape} readout={readout}")
    if not done:
        raise PropertyError("no shape of model can be given it")
    return ", ".join(done)
