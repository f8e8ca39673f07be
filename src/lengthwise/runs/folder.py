"""One run's folder: ``<outputs>/runs/<readable name>-<hash>/``.

A start goes: ``create``, ``claim``, perhaps ``clear``, ``write_config``, then train inside ``ending``.
"""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from lengthwise import outside
from lengthwise.errors import RunError
from lengthwise.runs.atomic import explain, remove_leftovers, write_atomic
from lengthwise.runs.ending import ending
from lengthwise.runs.identity import HASH_LENGTH, completed, run_hash, scientific, source_hash, targets
from lengthwise.runs.lock import Claim
from lengthwise.runs.naming import run_name
from lengthwise.runs.seal import sealed, unsealed
from lengthwise.runs.status import LOCK, Status, read_status, write_status
from lengthwise.texts import refuse_changed_text


class RunFolder:
    """The files of one run. Making the object touches nothing."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        self.config_file = self.path / "config.yaml"
        self.status_file = self.path / "status.json"
        self.provenance_file = self.path / "provenance.json"
        self.train_csv = self.path / "train.csv"
        self.length_csv = self.path / "length.csv"
        self.symmetry_csv = self.path / "symmetry.csv"
        self.axes_csv = self.path / "axes.csv"
        self.checkpoints = self.path / "checkpoints"
        self.pictures = self.path / "pictures"
        self.last = self.checkpoints / "last.ckpt"
        self.stop_file = self.path / "stop"  # written by whoever wants the run to stop; holds the reason

    def __repr__(self) -> str:
        return f"RunFolder({str(self.path)!r})"

    @property
    def name(self) -> str:
        """The folder's own name."""
        return self.path.name

    @property
    def hash(self) -> str:
        """The identity at the end of the name, or "" if the folder was renamed."""
        tail = self.name.rpartition("-")[2]
        return tail if len(tail) == HASH_LENGTH and set(tail) <= set("0123456789abcdef") else ""

    @property
    def exists(self) -> bool:
        """Whether a run has been here."""
        return os.path.isfile(self.config_file) or os.path.isfile(self.status_file)  # never raises

    @classmethod
    def locate(cls, outputs: str | os.PathLike[str], config: Mapping[str, Any]) -> RunFolder:
        """Where this run is or will be; it is found by its hash, whatever the readable part says.

        Raises RunError if several folders carry the hash.
        """
        identity = run_hash(config)
        runs = Path(outputs) / "runs"
        named = runs / run_name(config, identity)
        if named.is_dir():
            return cls(named)
        found = [path for path in runs.glob(f"*-{identity}") if path.is_dir()]
        if not found:
            return cls(named)
        if len(found) > 1:
            raise RunError(
                f"{len(found)} folders hold run {identity}: {', '.join(sorted(p.name for p in found))} in {runs}. "
                "Delete or move all but one."
            )
        return cls(found[0])

    @classmethod
    def create(cls, outputs: str | os.PathLike[str], config: Mapping[str, Any]) -> RunFolder:
        """As `locate`, and make the folder. Raises RunError naming the path and ``outputs=`` if that cannot be done."""
        folder = cls.locate(outputs, config)
        try:
            folder.checkpoints.mkdir(parents=True, exist_ok=True)
            for path in (folder.path, folder.checkpoints):
                tempfile.TemporaryFile(dir=path).close()
        except OSError as error:
            raise RunError(
                f"cannot write to {folder.path}: {explain(error)}. Choose another folder with outputs=<folder>."
            ) from error
        return folder

    @classmethod
    def open(cls, path: str | os.PathLike[str]) -> RunFolder:
        """An existing run. Raises RunError if there is none at `path`."""
        folder = cls(path)
        if not os.path.isdir(folder.path):
            raise RunError(f"there is no run folder {path}.")
        if not folder.exists:
            raise RunError(not_a_run(folder.path))
        return folder

    def claim(self) -> Claim:
        """Become the only process that writes here. Raises RunError if there is another."""
        claim = Claim(self.path / LOCK)
        remove_leftovers(self.path, self.checkpoints)
        return claim

    def clear(self) -> None:
        """Delete everything a run left here, the status first, so that a half-deleted run never passes for a done one.

        Only while holding the claim. Raises RunError if something cannot be deleted.
        """
        try:
            self.status_file.unlink(missing_ok=True)
            for path in self.path.iterdir():
                if path.name == LOCK:
                    continue
                if path.is_dir() and not path.is_symlink():
                    shutil.rmtree(path)
                else:
                    path.unlink()
            self.checkpoints.mkdir()
        except OSError as error:
            raise RunError(f"cannot clear {self.path}: {explain(error)}.") from error

    def write_config(self, config: Mapping[str, Any]) -> None:
        """Write the resolved configuration as plain YAML.

        Raises RunError if the folder belongs to a run with another scientific configuration, or cannot be written.
        """
        if self.config_file.exists() and scientific(self.read_config()) != scientific(config):
            raise RunError(
                f"{self.path} belongs to another run: its config.yaml differs. Move that folder away."
            )
        text = yaml.safe_dump(_plain(config), sort_keys=False, allow_unicode=True, width=120)
        write_atomic(self.config_file, sealed(text.encode("utf-8", "backslashreplace")))

    def read_config(self) -> dict[str, Any]:
        """The resolved configuration. Raises RunError if it is missing, damaged, or was edited since."""
        try:
            config = yaml.safe_load(unsealed(self.config_file.read_bytes(), self.config_file))
        except FileNotFoundError:
            raise RunError(f"{self.path} has no config.yaml.") from None
        except OSError as error:
            raise RunError(f"cannot read {self.config_file}: {explain(error)}.") from error
        except (yaml.YAMLError, ValueError, RecursionError):
            raise _damaged(self.config_file) from None
        if not isinstance(config, dict):
            raise _damaged(self.config_file)
        return completed(config)

    def refuse_changed_source(self, config: Mapping[str, Any]) -> None:
        """Raises RunError where a component of one's own, or the text that the task reads, is not what it was when the
        run in here, with the configuration `config`, was trained; ConfigError where the component's folder is gone."""
        refuse_changed_text(config, self.name)
        outside.use_again((config.get("run") or {}).get("components"))
        own = [target for target in targets(config) if source_hash([target]) is not None]
        if own and self.hash and run_hash(config) != self.hash:
            raise RunError(
                f"the source of {', '.join(own)} is not what run {self.name} was trained with: undo the change, or "
                "train what there is now"
            )

    def status(self) -> Status:
        """See `read_status`."""
        return read_status(self.status_file)

    def write_status(self, status: Status) -> None:
        """See `write_status`."""
        write_status(self.status_file, status)

    def ending(self, status: Status) -> contextlib.AbstractContextManager[Status]:
        """See `ending`."""
        return ending(self.status_file, status)


def not_a_run(path: Path) -> str:
    """Why no run is seen in this folder."""
    if not os.access(path, os.R_OK | os.X_OK):
        return f"cannot read {path}: {explain(PermissionError(errno.EACCES, os.strerror(errno.EACCES)))}."
    return f"{path} is not a run folder: it has neither config.yaml nor status.json."


def _plain(value: Any) -> Any:
    """For YAML: lists for tuples, Python's numbers for numpy's, text for paths."""
    if isinstance(value, Mapping):
        return {str(k): _plain(v) for k, v in value.items()}
    if isinstance(value, list | tuple | range):
        return [_plain(item) for item in value]
    if hasattr(value, "item"):  # a numpy scalar
        return value.item()
    return value if value is None or isinstance(value, bool | int | float | str) else str(value)


def _damaged(path: Path) -> RunError:
    return RunError(
        f"{path} is damaged. Run the same command again with overwrite=true, or delete the folder."
    )
