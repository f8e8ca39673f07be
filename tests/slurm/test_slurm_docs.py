"""What docs/clusters.md says of options and reasons is so."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

import yaml

from lengthwise.sweeps import slurm
from lengthwise.sweeps.slurm import SlurmLauncher

ROOT = Path(__file__).resolve().parents[2]
TEXT = (ROOT / "docs" / "clusters.md").read_text(encoding="utf-8")
OPTIONS = yaml.safe_load((ROOT / "conf" / "hydra" / "launcher" / "slurm.yaml").read_text(encoding="utf-8"))


def test_every_option_that_is_named_exists():
    named = set(re.findall(r"hydra\.launcher\.(\w+)", TEXT))
    assert len(named) >= 8
    assert named <= OPTIONS.keys()


def test_the_defaults_that_are_named_are_the_defaults():
    assert f"({OPTIONS['signal_delay']} by default)" in TEXT
    assert f"`hydra.launcher.restarts` ({OPTIONS['restarts']})" in TEXT
    assert f"at most {slurm._ARRAY}" in TEXT


def test_reasons_are_worded_as_they_are_given():
    said = [words.partition(":")[0].partition(" (")[0] for words in slurm._STATES.values()]
    assert {
        "out of memory",
        "its task was killed, or could not start",
        "its node failed",
        "cancelled",
    } <= set(said)
    assert all(words in TEXT for words in ("| out of memory |", "| its node failed |", "| cancelled |"))


def test_configuration_and_launcher_have_the_same_options_and_defaults():
    parameters = inspect.signature(SlurmLauncher).parameters.values()
    own = {p.name: p.default for p in parameters if p.kind is p.KEYWORD_ONLY}
    given = {key: value for key, value in OPTIONS.items() if key != "_target_"}
    assert own.keys() == given.keys()
    assert all((own[key] or None) == (given[key] or None) for key in own)
