"""What docs/symmetry.md says is what happens."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

from lengthwise.evaluation.claims import PROPERTIES
from lengthwise.runs.tables import AXES_COLUMNS
from support.commandline import QUICK, SMALL, in_process

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "symmetry.md").read_text(encoding="utf-8")

MODELS = """
import torch

def build():
    return torch.nn.TransformerEncoderLayer(32, 4, 32, batch_first=True)
"""


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", PAGE, flags=re.S)


def test_the_example_runs_literally() -> None:
    (example,) = blocks("python")
    namespace: dict[str, object] = {}
    exec(compile(example, "docs/symmetry.md", "exec"), namespace)
    assert {"assert_equivariant", "assert_not_equivariant"} <= set(namespace)


def test_the_commands_run(tmp_path: Path) -> None:
    assert in_process(tmp_path, "train", *QUICK, *SMALL, "pe=learned").code == 0
    (run,) = (tmp_path / "outputs" / "runs").iterdir()
    (tmp_path / "my_package").mkdir()
    (tmp_path / "my_package" / "models.py").write_text(MODELS)
    (block,) = blocks("bash")
    commands = [shlex.split(line, comments=True) for line in block.splitlines()]
    assert len(commands) >= 4
    for command in commands:
        assert command[:2] == ["lengthwise", "certify"]
        arguments = [f"run={run}" if text.startswith("run=") else text for text in command[2:]]
        result = in_process(tmp_path, "certify", *arguments, *SMALL * ("pe=alibi" in arguments))
        assert result.code == 0, (arguments, result.err)


def test_every_property_and_column_is_explained() -> None:
    for column in AXES_COLUMNS:
        assert column in PAGE
    for name in PROPERTIES.values():
        assert all(word in PAGE for word in re.split(r"[:,] | any", name.split(": ")[0])), name
