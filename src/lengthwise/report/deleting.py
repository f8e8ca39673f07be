"""Runs deleted: all that are meant, or none."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from lengthwise.errors import ConfigError, RunError
from lengthwise.report.conditions import CONDITION, select
from lengthwise.runs import RunFolder, find_run, load_runs
from lengthwise.runs.atomic import explain


def delete(given: dict[str, Any], words: Sequence[str], sure: bool) -> int:
    """The runs that are named, or meet conditions, under ``given["outputs"]``; asks unless `sure`. The exit code.

    Raises ConfigError for what names no runs, RunError where one is at work or may not be deleted.
    """
    if not words:
        raise ConfigError("runs delete: name runs, or give conditions such as state=failed")
    folders = _meant(given, words)
    if not folders:
        print("no run meets that")
        return 0
    print(f"{_count(folders)}:")
    for folder in folders:
        link = " (a link; what it leads to stays)" if folder.path.is_symlink() else ""
        print(f"  {folder.path}{link}")
    if not sure:
        if not sys.stdin.isatty():
            raise ConfigError("runs delete: nobody can be asked here; --yes deletes without asking")
        if input("Delete them, with their checkpoints and tables? [y/N] ").strip().lower() not in (
            "y",
            "yes",
        ):
            print("nothing is deleted")
            return 1
    _remove(folders)
    print(f"{_count(folders)} deleted; their files for W&B stay in {given['outputs']}/wandb")
    return 0


def _count(folders: Sequence[RunFolder]) -> str:
    return f"{len(folders)} run{'' if len(folders) == 1 else 's'}"


def _remove(folders: Sequence[RunFolder]) -> None:
    """All of them, or none where one is at work or may not be deleted. Of a link only the link.

    Raises RunError where that is so, or where deleting fails, saying how many are gone.
    """
    for folder in folders:
        for path in (folder.path.parent, *([] if folder.path.is_symlink() else [folder.path])):
            if not os.access(path, os.W_OK | os.X_OK):
                raise RunError(
                    f"cannot delete {folder.path}: {path} may not be written to. Nothing is deleted"
                )
    with ExitStack() as stack:
        for folder in folders:
            if not folder.path.is_symlink():
                stack.enter_context(folder.claim())
        for number, folder in enumerate(folders):
            try:
                if folder.path.is_symlink():
                    folder.path.unlink()
                else:
                    folder.clear()
                    shutil.rmtree(folder.path)
            except (RunError, OSError) as error:
                why = str(error) if isinstance(error, RunError) else f"{folder.path}: {explain(error)}"
                raise RunError(f"{number} of {_count(folders)} deleted, then one cannot be: {why}") from error


def _meant(given: dict[str, Any], words: Sequence[str]) -> list[RunFolder]:
    conditions = [word for word in words if CONDITION.match(word)]
    named = [find_run(given["outputs"], word) for word in words if word not in conditions]
    if not conditions:
        return list({folder.path.absolute(): folder for folder in named}.values())
    if named:
        raise ConfigError("runs delete: name runs or give conditions, not both")
    frame, complaints = select(load_runs(given["outputs"]), conditions)
    if complaints:
        raise ConfigError(f"{complaints[0]}. Nothing is deleted")
    running = frame[frame["state"] == "running"]
    if len(running):
        raise RunError(
            f"run {running.iloc[0]['run']} is at work; add state!=running to leave such runs alone"
        )
    return [RunFolder.open(Path(given["outputs"]) / "runs" / name) for name in frame["run"]]
