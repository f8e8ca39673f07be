"""docs/adding-an-encoding.md, followed to the letter in an empty folder."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sysconfig
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
import yaml

from lengthwise import outside
from lengthwise.checks import Report
from lengthwise.checks.battery import check_model
from support.commandline import QUICK, SMALL, Result, in_process

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "adding-an-encoding.md").read_text(encoding="utf-8")
FILES = dict(re.findall(r"Save as `([^`]+)`[^`]*(?:`[^`]*`[^`]*)*?```\w+\n(.*?)```", PAGE, flags=re.S))
COMMANDS = [
    shlex.split(line)
    for block in re.findall(r"^```bash\n(.*?)```", PAGE, flags=re.S | re.M)
    for line in block.splitlines()
]
QUICKER = [
    *QUICK,
    *SMALL,
    "debug=none",
    "trainer.max_steps=2",
    "evaluation.count=16",
    "evaluation.symmetry=false",
]
QUICKER += ["data.validation_size=32"]


def written(folder: Path) -> Path:
    """`folder`, with the page's files in it."""
    for name, text in FILES.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")
    return folder


def follow(command: list[str], run: Callable[..., Result]) -> str:
    """What one command of the page prints."""
    done = run(*command)
    assert done.code == 0, f"{shlex.join(command)}\n{done.out}\n{done.err}"
    return done.out


def passes(checked: str) -> bool:
    return re.search(r"^\d+ ok, 0 FAILED, 0 not applicable$", checked, flags=re.M) is not None


def check_the_outcome(folder: Path, swept: str, reported: str) -> None:
    """It is trained once for each seed beside ours, and stands in the report."""
    assert "1 done already" in swept and "6 of 6 runs done" in swept
    assert re.search(r"^ *log_distance ", reported, flags=re.M)
    assert "log_distance" in (folder / "outputs" / "report.html").read_text(encoding="utf-8")
    configs = [yaml.safe_load(path.read_text()) for path in folder.glob("outputs/runs/*/config.yaml")]
    own = [config for config in configs if config["pe"]["_target_"] == "log_distance.LogDistance"]
    assert (len(configs), len(own)) == (6, 2)
    assert {config["run"]["components"] for config in own} == {str(folder / "my_conf")}


def test_the_page_has_its_files_and_commands() -> None:
    assert list(FILES) == ["my_conf/log_distance.py", "my_conf/pe/log_distance.yaml"]
    assert [command[:2] for command in COMMANDS] == [
        ["lengthwise", "check"],
        ["lengthwise", "train"],
        ["lengthwise", "train"],
        ["lengthwise", "report"],
    ]


def test_it_passes_the_check(tmp_path: Path) -> None:
    (_, *command) = COMMANDS[0]
    assert passes(follow(command, partial(in_process, written(tmp_path))))


def test_it_trains_beside_ours_and_is_reported(tmp_path: Path) -> None:
    """The other commands, with few steps."""
    folder, outputs = written(tmp_path), []
    for _, name, *arguments in COMMANDS[1:]:
        given = [word for word in arguments if not word.startswith("trainer.max_steps")]
        few = QUICKER if name == "train" else []
        outputs.append(follow([name, *given, *few], partial(in_process, folder)))
    check_the_outcome(folder, *outputs[1:])


@pytest.mark.slow
def test_the_page_works_as_typed(tmp_path: Path) -> None:
    """The commands themselves, by the installed script."""
    folder = written(tmp_path)
    script = Path(sysconfig.get_path("scripts")) / "lengthwise"
    clean = {key: value for key, value in os.environ.items() if not key.startswith(("PYTHON", "LENGTHWISE"))}

    def run(*command: str) -> Result:
        done = subprocess.run(
            [str(script), *command[1:]], cwd=folder, env=clean, capture_output=True, text=True, timeout=280
        )
        return Result(done.returncode, done.stdout, done.stderr)

    checked, _, *outputs = [follow(command, run) for command in COMMANDS]
    assert passes(checked)
    check_the_outcome(folder, *outputs)


def test_the_mistake_that_the_page_names_is_found(tmp_path: Path) -> None:
    """Control: a row fails, and the exit code says so."""
    file = written(tmp_path) / "my_conf" / "log_distance.py"
    assert "with `.clamp(min=0)` in place of `.abs()`" in PAGE
    source = file.read_text(encoding="utf-8")
    assert source.count(".abs()") == 1
    file.write_text(source.replace(".abs()", ".clamp(min=0)"), encoding="utf-8")
    node = {"_target_": "log_distance.LogDistance", "_partial_": True}
    report = Report("log_distance")
    with outside.restored():
        outside.use(file.parent)
        check_model(report, "pe", node)
    failed = {row.name: row.why for row in report.rows if row.verdict == "FAILED"}
    # What lies behind is all alike, too, so that fewer distances are told apart than declared.
    assert set(failed) == {"reversal", "declared facts"} and failed["reversal"].startswith("encoder")
