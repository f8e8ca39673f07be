"""``lengthwise check``: our own components pass; each row is seen to fail by something that lacks its property."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
import torch

from lengthwise.checks import Report, battery, check_component
from lengthwise.checks.battery import check_model
from lengthwise.checks.options import check_options
from lengthwise.checks.tasks import check_task
from lengthwise.checks.training import check_training
from lengthwise.components import locate
from lengthwise.composing import compose
from lengthwise.evaluation.position_codes import Subject
from lengthwise.evaluation.scorecard import measure
from lengthwise.nn import Encoder
from support import broken_components as broken
from support.commandline import in_process

MODEL_ROWS = [
    "hooks", "builds", "batch independence", "pad invariance", "causality", "not too strict", "equivariance",
    "reversal", "shift", "history independence", "path agreement", "low precision", "declared facts", "gradients",
    "initial values",
]  # fmt: skip
PARTS = [
    ("pe", "learned"), ("pe", "fire"), ("attention", "hard"), ("init", "normal"),
]  # fmt: skip


@pytest.fixture
def few_heads(monkeypatch: pytest.MonkeyPatch) -> None:
    """Four alone, for what does not turn on their number."""
    monkeypatch.setattr(battery, "HEADS", (4,))


def failures(report: Report) -> dict[str, str]:
    return {row.name: row.why for row in report.rows if row.verdict == "FAILED"}


@pytest.mark.slow
def test_the_command_prints_a_row_a_property(tmp_path: Path) -> None:
    result = in_process(tmp_path, "check", "pe=alibi", "pe.sides=separate")
    assert result.code == 0, result.out + result.err
    assert "sides=separate" in result.out and "0 FAILED" in result.out
    assert set(re.findall(r"^(\S.*?)  +ok\b", result.out, flags=re.M)) > {*MODEL_ROWS} - {"causality"}
    assert "refused (encoder, 1 head): sides=separate changes nothing without a second head" in " ".join(
        result.out.split()
    )
    assert "trains (decoder)      not applicable  refused: " in result.out
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(("slot", "option"), PARTS)
def test_our_parts_pass(slot: str, option: str, few_heads: None) -> None:
    """Without the training, which other tests cover."""
    node = compose([f"{slot}={option}"])[slot]
    report = Report("")
    report.add("options", lambda: check_options(slot, option, node, locate(slot, node["_target_"])))
    check_model(report, slot, node)
    assert failures(report) == {}


@pytest.mark.parametrize("option", ["word_order", "digits", "reverse", "above_mean"])
def test_our_tasks_pass(option: str) -> None:
    report = Report("")
    check_task(report, compose([f"task={option}"]))
    assert failures(report) == {}
    assert len(report.rows) == 10


@pytest.mark.parametrize("kind", broken.ENCODINGS, ids=lambda kind: kind.__name__)
def test_a_broken_encoding_fails_in_its_row(kind: type, few_heads: None) -> None:
    report = Report("")
    check_model(report, "pe", {"_target_": f"{kind.__module__}.{kind.__qualname__}", "_partial_": True})
    assert kind.row in failures(report), report.text()
    assert kind.says in failures(report)[kind.row]


@pytest.mark.parametrize("kind", broken.TASKS, ids=lambda kind: kind.__name__)
def test_a_broken_task_fails_in_its_row(kind: type) -> None:
    report = Report("")
    config = compose(["task=last"])
    config["task"] = {"_target_": f"{kind.__module__}.{kind.__qualname__}"}
    check_task(report, config)
    assert kind.row in failures(report), report.text()


def test_options_are_compared_with_the_signature() -> None:
    node = compose(["pe=alibi"])["pe"]
    with pytest.raises(AssertionError, match=r"share is False in alibi\.yaml and True in the class"):
        check_options("pe", "alibi", node, broken.OtherDefault)


def test_what_no_checkpoint_keeps_fails(tmp_path: Path) -> None:
    """Control of the resume row: a number that grows with each call in training."""
    report = Report("")
    target = f"{broken.Forgetful.__module__}.Forgetful"
    check_training(report, "pe", ["pe=none", f"pe._target_={target}", "data.lengths=[4]"])
    assert list(failures(report)) == ["resumes"], report.text()
    assert "something is kept that is in no checkpoint" in failures(report)["resumes"]


def test_the_exit_code_and_the_place_of_an_error(tmp_path: Path, few_heads: None) -> None:
    """An encoding that raises has its file and line named; what cannot be named at all is refused."""
    target = f"{broken.Raises.__module__}.Raises"
    report = Report("")
    check_model(report, "pe", {"_target_": target, "_partial_": True})
    assert "ZeroDivisionError: division by zero (broken_components.py, line " in failures(report)["causality"]
    run: Callable[..., object] = partial(in_process, tmp_path, "check")
    for words in ([], ["size=tiny"], ["pe=none,alibi"], ["pe=nothing"], ["pe"]):
        assert run(*words).code == 2, words  # type: ignore[attr-defined]


@pytest.mark.slow
def test_the_optimizer_is_trained_and_resumed() -> None:
    report = check_component(["optimizer=sgd", "data.lengths=[4]"])
    assert [row.name for row in report.rows] == [
        "options", "trains (encoder)", "trains (decoder)", "trains (encoder_decoder)", "resumes",
    ]  # fmt: skip
    assert failures(report) == {}
    assert torch.get_num_threads() == 1


WRONG_HOOKS = {
    broken.BiasOfOneHead: "hooks: bias returned (3, 3), wanted broadcastable to (B or 1, H, Nq, Nk) = (2, 4, 3, 3)",
    broken.OneTensor: "hooks: rotate returned one Tensor, wanted two tensors, queries and keys, (B, H, N, K) = ",
    broken.EmbedsNothing: "hooks: embed returned one NoneType, wanted (B, N, output_width) = (2, 3, 24)",
    broken.NoEncoding: "hooks: NoEncoding is no PositionEncoding (lengthwise.nn.position.contract)",
}


@pytest.mark.parametrize("kind", WRONG_HOOKS, ids=lambda kind: kind.__name__)
def test_what_a_hook_returns_is_the_one_failure(
    tmp_path: Path, kind: type, few_heads: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A row that says what was wanted; the others do not repeat it in torch's words."""
    (tmp_path / "conf" / "pe").mkdir(parents=True)
    target = f"{kind.__module__}.{kind.__qualname__}"
    (tmp_path / "conf" / "pe" / "wrong.yaml").write_text(f"_target_: {target}\n_partial_: true\n")
    result = in_process(tmp_path, "check", "pe=wrong", "--config-dir", "conf")
    said = " ".join(result.out.split())
    assert result.code == 1
    row, _, why = WRONG_HOOKS[kind].partition(": ")
    assert f"{row} FAILED {why}" in said, result.out
    assert "1 ok, 1 FAILED, 17 not applicable" in said, result.out
    assert "resumes not applicable hooks" in said


def test_what_is_no_encoding_is_one_message(tmp_path: Path) -> None:
    target = f"{broken.NoEncoding.__module__}.NoEncoding"
    words = ["pe=none", f"pe._target_={target}"]
    for more in ([], ["model=decoder"]):
        result = in_process(tmp_path, "train", *words, *more)
        assert result.code == 2 and result.err.count("\n") == 1
        assert "(pe=NoEncoding, " in result.err and "NoEncoding is no PositionEncoding" in result.err
    assert not (tmp_path / "outputs").exists()


def test_a_failed_training_gives_no_advice_about_resuming() -> None:
    """Only where every shape is refused something may be missing."""
    report = Report("")
    check_training(
        report, "pe", ["pe=none", f"pe._target_={broken.Raises.__module__}.Raises", "data.lengths=[4]"]
    )
    assert set(failures(report)) == {"trains (encoder)", "trains (decoder)"}, report.text()
    assert (report.rows[-1].name, report.rows[-1].why) == ("resumes", "trains (encoder)")
    report = Report("")  # control
    check_training(report, "pe", ["pe=abacus", "positions=sequential", "data.lengths=[4]"])
    assert list(failures(report)) == ["resumes"] and "give what it needs" in failures(report)["resumes"]


@pytest.mark.parametrize("declared", [None, 32])
def test_distinct_until_is_judged_as_the_scorecard_does(
    declared: int | None, few_heads: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A bias of the distance's logarithm: some hundred distances are told apart in bfloat16, not 4096."""
    kind = broken.Logarithm
    monkeypatch.setattr(kind, "distinct_until", declared)
    node = {"_target_": f"{kind.__module__}.Logarithm", "_partial_": True}
    report = Report("")
    check_model(report, "pe", node)
    subject = Subject.of(Encoder(8, width=128, layers=1, heads=4, position=kind))
    mismatches = [text for text in measure(subject).mismatches if text.startswith("distinct_until")]
    assert list(failures(report)) == (["declared facts"] if declared is None else []), report.text()
    if declared is None:
        assert len(mismatches) == 1 and failures(report)["declared facts"] == mismatches[0]
    else:
        assert mismatches == []
