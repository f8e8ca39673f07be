"""What the README says is what happens."""

from __future__ import annotations

import re
import shlex
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from lengthwise import cli
from lengthwise.composing import compose
from lengthwise.config import GROUPS, options
from lengthwise.sweeping import parse, sweep_of
from support.commandline import QUICK

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", README, flags=re.S)


def typed(script: str) -> list[list[str]]:
    """The arguments of every `python <script>.py …` in the README, in text or code."""
    found = re.findall(rf"python {script}\.py ([^`\n#]+)", README)
    return [shlex.split(arguments) for arguments in found]


@pytest.fixture
def call(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., int]:
    monkeypatch.chdir(tmp_path)

    def run(command: str, *arguments: str) -> int:
        monkeypatch.setattr(sys, "argv", [command])
        return getattr(cli, command)(list(arguments))

    return run


def test_every_command_is_found() -> None:
    assert len(typed("train")) >= 4
    assert len(typed("evaluate")) >= 2
    assert len(typed("report")) >= 1


@pytest.mark.parametrize("arguments", typed("train"), ids=" ".join)
def test_train_commands_run(
    call: Callable[..., int], arguments: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    if "study=mine" in arguments or "--help" in arguments:
        pytest.skip("stands for a file of the reader's own, or is tested elsewhere")
    monkeypatch.setattr(sys, "argv", ["train.py"])
    if "-m" in arguments:
        sweep = sweep_of(parse(arguments))
        assert sweep is not None and len(sweep.entries) == 8
    elif any(text.startswith("study=") for text in arguments):
        sweep = sweep_of(parse(arguments))
        assert sweep is not None and len(sweep.entries) == (60 if "seed=range(0,10)" in arguments else 18)
    else:
        assert call("train", *arguments, *QUICK) == 0


def test_evaluate_and_report_commands_run(call: Callable[..., int], tmp_path: Path) -> None:
    assert call("train", "pe=learned", "norm=pre", *QUICK) == 0
    (run,) = (tmp_path / "outputs" / "runs").iterdir()
    for arguments in typed("evaluate"):
        named = next(text for text in arguments if text.startswith("run="))
        shown = named.removeprefix("run=")
        mine = str(run.relative_to(tmp_path)) if "/" in shown else run.name[-10:-4]
        assert len(shown.rpartition("-")[2]) in (6, 10)
        assert (
            call(
                "evaluate",
                f"run={mine}",
                *(text for text in arguments if text != named),
                "evaluation.count=16",
            )
            == 0
        )
    assert call("report", "export=results") == 0
    assert (tmp_path / "outputs" / "report.html").stat().st_size > 100_000
    assert (tmp_path / "results" / "summary.md").is_file()


def test_the_keys_in_the_text_exist(call: Callable[..., int]) -> None:
    (line,) = re.findall(r"Any number is a key: `([^`]+)`", README)
    config = compose(line.split())
    assert config["data"]["lengths"] == list(range(4, 21))


def test_the_library_example_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (example,) = blocks("python")
    small = example.replace('"trainer.max_steps=50"', ", ".join(f'"{text}"' for text in QUICK))
    assert small != example
    exec(compile(small, "README.md", "exec"), {})


def test_the_slots_are_those_of_conf() -> None:
    rows = re.findall(r"^\| `(.+?)` \| (.+?) \|$", README, flags=re.M)
    listed: dict[str, list[str]] = {}
    for slots, choices in rows:
        names = slots.split("`, `")
        for name, part in zip(names, choices.split(";"), strict=len(names) > 1):
            listed[name] = [text.strip() for text in part.split(",")]
    slots = {name: found for name, found in listed.items() if name in GROUPS}
    assert len(slots) >= 14
    for name, found in slots.items():
        assert sorted(found) == options(name), name
