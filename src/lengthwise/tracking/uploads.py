"""W&B runs that did not reach the server whole: their files are on disk, and say so."""

from __future__ import annotations

import contextlib
import shlex
from collections.abc import Collection
from pathlib import Path

MARK = "not-uploaded"
"""A file in the folder of a run from its start until the server has all of it; `wandb sync` leaves one that ends in
``.synced`` beside it."""


def mark(folder: Path) -> None:
    """Note that the server does not have the whole run in `folder`."""
    with contextlib.suppress(OSError):
        (folder / MARK).touch()


def unmark(folder: Path) -> None:
    """It has."""
    with contextlib.suppress(OSError):
        (folder / MARK).unlink()


def not_uploaded(outputs: str | Path, run_ids: Collection[str]) -> list[Path]:
    """The folders of these runs that wait for `wandb sync`, oldest first."""
    folders = [path.parent for path in (Path(outputs) / "wandb").glob(f"run-*/{MARK}")]
    return sorted(
        folder
        for folder in folders
        if folder.name.split("-", 2)[2] in run_ids and not any(folder.glob("*.synced"))
    )


def reminder(folders: Collection[Path]) -> str:
    """How they get there after all."""
    runs = "this run" if len(folders) == 1 else f"{len(folders)} runs"
    commands = "".join(f"\n  wandb sync --include-online {shlex.quote(str(folder))}" for folder in folders)
    return (
        f"W&B: the connection was lost, and {runs} did not arrive whole. Nothing is missing on disk; when the server "
        f"answers again:{commands}"
    )
