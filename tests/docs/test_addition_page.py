"""What docs/addition.md says is what happens."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from support.commandline import SMALL, in_process

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "addition.md").read_text(encoding="utf-8")
QUICK = ["trainer.max_steps=2", "evaluation.lengths=[6]", "evaluation.count=4", "evaluation.symmetry=false"]


def test_the_grid_is_measured_on_the_first_command_s_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (commands,) = re.findall(r"```bash\n(.*?)```", PAGE, flags=re.S)
    (snippet,) = re.findall(r"```python\n(.*?)```", PAGE, flags=re.S)
    for line in commands.splitlines():
        words = shlex.split(line)
        assert words[:2] == ["python", "train.py"]
        trained = in_process(
            tmp_path, "train", *words[2:], *SMALL, *QUICK, "wandb=disabled", "run.label=small"
        )
        assert trained.code == 0, trained.err
    in_full = in_process(
        tmp_path, "train", *shlex.split(commands.splitlines()[0])[2:], *QUICK, "wandb=disabled"
    )
    assert in_full.code == 0, in_full.err
    monkeypatch.chdir(tmp_path)
    namespace: dict[str, object] = {}
    exec(compile(snippet, "docs/addition.md", "exec"), namespace)
    exact_match = namespace["exact_match"]
    assert callable(exact_match)
    assert 0 <= exact_match(2, 3, count=4) <= 1
