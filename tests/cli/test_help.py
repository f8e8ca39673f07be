"""``--help`` is quick and complete; ``--cfg job`` shows the configuration."""

from __future__ import annotations

import os
import re
import resource
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from lengthwise.composing import compose
from lengthwise.config import SLOTS
from lengthwise.paths import conf_dir, study_dirs
from support.commandline import Result

TRAIN = Path(__file__).resolve().parents[2] / "train.py"
HIDDEN = {"config", "study", "data", "trainer"}
"""Groups of one option, whose keys are listed one by one instead."""


def cpu_seconds(*command: str | Path) -> tuple[float, str]:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run([sys.executable, *command], check=True, capture_output=True, text=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, done.stdout


def test_help_takes_less_than_a_second() -> None:
    assert min(cpu_seconds(TRAIN, "--help")[0] for _ in range(3)) < 1.0


def imported(*arguments: str) -> set[str]:
    """Top-level packages that ``train.py`` has imported when it ends."""
    code = (
        "import atexit, runpy, sys\n"
        "atexit.register(lambda: print('\\nMODULES', *{name.partition('.')[0] for name in sys.modules}))\n"
        f"sys.argv = ['train.py', *{list(arguments)!r}]\n"
        f"runpy.run_path({str(TRAIN)!r}, run_name='__main__')\n"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout
    return set(out.rpartition("MODULES")[2].split())


def test_help_waits_for_nothing() -> None:
    heavy = {"torch", "hydra", "omegaconf", "numpy", "pandas", "pytorch_lightning", "wandb"}
    assert "lengthwise" in imported("--help")
    assert not heavy & imported("--help")
    assert "hydra" in imported("--cfg", "job")  # control: the question sees what is imported


@pytest.fixture(scope="module")
def text() -> str:
    return cpu_seconds(TRAIN, "--help")[1]


def options_in(text: str) -> dict[str, list[str]]:
    """Slot -> the options that the help lists, the default first."""
    found: dict[str, list[str]] = {}
    slot = ""
    for line in text[text.index("Slots") : text.index("Keys (")].splitlines()[1:]:
        if heading := re.fullmatch(r"  (\w+)", line):
            slot = heading.group(1)
            found[slot] = []
        elif option := re.match(r"   ([ *]) (\w+) ", line):
            found[slot].insert(0 if option.group(1) == "*" else len(found[slot]), option.group(2))
    return found


def test_help_shows_every_slot_with_its_options(text: str) -> None:
    shown = options_in(text)
    for folder in conf_dir().iterdir():
        if folder.is_dir() and folder.name not in (*HIDDEN, "hydra"):
            assert set(shown[folder.name]) == {path.stem for path in folder.glob("*.yaml")}, folder.name
    for path in (conf_dir() / "hydra" / "launcher").glob("*.yaml"):
        assert path.stem in text.partition("hydra/launcher=NAME")[2].partition(";")[0]
    assert set(SLOTS) <= set(shown)
    for path in (p for folder in study_dirs() for p in folder.glob("*/study.yaml")):
        assert path.parent.name in text


def test_the_option_marked_as_default_is_the_default(text: str) -> None:
    config = compose([])
    for slot in SLOTS:
        default = options_in(text)[slot][0]
        node = yaml.safe_load((conf_dir() / slot / f"{default}.yaml").read_text())
        assert config[slot]["_target_"] == node.get(slot, node)["_target_"]


def test_every_option_says_what_it_is(text: str) -> None:
    for slot, options in options_in(text).items():
        for option in options:
            assert re.search(rf"^   [ *] {option} +\S.{{4,}}$", text, flags=re.M), f"{slot}={option}"


def test_help_lists_every_fixed_key_with_its_default(text: str) -> None:
    config = compose([])
    listed = dict(re.findall(r"^  ([\w.]+)=(\S*)", text[text.index("Keys (") :], flags=re.M))
    for group in ("data", "evaluation", "trainer", "wandb", "model"):
        for key in config[group]:
            if key not in ("_target_", "lengths", "width", "layers", "heads"):
                assert f"{group}.{key}" in listed
    for key in ("readout", "seed", "overwrite", "outputs", "run.label"):
        assert key in listed
    assert listed["trainer.max_steps"] == str(config["trainer"]["max_steps"])


@pytest.mark.parametrize("command", ["train", "evaluate", "report", "demo", "check"])
def test_every_command_explains_itself(run: Callable[..., Result], command: str) -> None:
    result = run(command, "--help")
    assert result.code == 0
    assert "usage:" in result.out
    assert not result.err


def test_cfg_job_prints_the_configuration_and_stops(process: Callable[..., Result], tmp_path: Path) -> None:
    result = process("train", "pe=learned", "model.heads=2", "--cfg", "job")
    assert result.code == 0, result.err
    shown = yaml.safe_load(result.out)
    assert shown["model"]["heads"] == 2
    assert shown["pe"] == compose(["pe=learned"])["pe"]
    assert not list(tmp_path.iterdir())


def test_help_into_a_closed_pipe_is_quiet() -> None:
    done = subprocess.run(
        f"'{sys.executable}' '{TRAIN}' --help | head -1",
        shell=True,
        capture_output=True,
        text=True,
        env=os.environ,
    )
    assert done.stdout.startswith("usage:")
    assert "Traceback" not in done.stderr
