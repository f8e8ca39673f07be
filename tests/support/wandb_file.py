"""Reads local W&B files without an account or a server, for tests.

A ``.wandb`` file is a LevelDB log (32 KiB blocks of checksummed fragments) of protobuf records.
"""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

_BLOCK, _HEADER = 32768, 7
_FULL, _FIRST, _LAST = 1, 2, 4


@dataclass
class WandbFile:
    """What one local run holds; exit_code None = still running, or killed."""

    path: Path
    id: str = ""
    name: str = ""
    project: str = ""
    group: str = ""
    job_type: str = ""
    tags: list[str] = field(default_factory=list)
    config: dict[str, Any] = field(default_factory=dict)
    summary: dict[str, Any] = field(default_factory=dict)
    history: list[dict[str, Any]] = field(default_factory=list)
    axes: dict[str, str] = field(default_factory=dict)
    artifacts: int = 0
    exit_code: int | None = None

    def logged(self, name: str) -> Path:
        """The file of a table, a page or a picture."""
        (value,) = [row[name] for row in self.history if name in row]
        return self.path.parent / "files" / value["path"]

    def table(self, name: str) -> list[dict[str, Any]]:
        """The rows of a table."""
        content = json.loads(self.logged(name).read_text())
        return [dict(zip(content["columns"], row, strict=True)) for row in content["data"]]


def read_wandb(path: Path) -> WandbFile:
    """The run in a ``.wandb`` file, or in the folder that holds one. A torn tail (a killed run) is dropped."""
    from wandb.proto import wandb_internal_pb2 as pb

    if path.is_dir():
        (path,) = path.glob("run-*.wandb")
    run = WandbFile(path)
    for raw in _records(path.read_bytes()):
        record = pb.Record.FromString(raw)
        kind = record.WhichOneof("record_type")
        if kind == "run":
            run.id, run.name, run.project = record.run.run_id, record.run.display_name, record.run.project
            run.group, run.job_type = record.run.run_group, record.run.job_type
            run.tags = list(record.run.tags)
            _update(run.config, record.run.config.update)
        elif kind == "config":
            _update(run.config, record.config.update)
        elif kind == "history":
            row: dict[str, Any] = {}
            _update(row, record.history.item)
            run.history.append(row)
        elif kind == "summary":
            _update(run.summary, record.summary.update)
        elif kind == "metric":
            run.axes[record.metric.name or record.metric.glob_name] = record.metric.step_metric
        elif kind == "artifact":
            run.artifacts += 1
        elif kind == "exit":
            run.exit_code = record.exit.exit_code
    run.config.pop("_wandb", None)
    return run


def read_all(outputs: Path, job_type: str = "train") -> list[WandbFile]:
    """Every run in `outputs`/wandb that is not retired, in order of id; job_type: "train" (one that was
    killed at once has not even said that), or "report" of a sweep."""
    folders = [folder for folder in (outputs / "wandb").glob("*run-*") if folder.is_dir()]
    runs = [run for folder in folders if ((run := read_wandb(folder)).job_type or "train") == job_type]
    return sorted(runs, key=lambda run: run.id)


def _records(data: bytes) -> Iterator[bytes]:
    if data[:4] != b":W&B":
        raise ValueError("not a .wandb file")
    place, parts = _HEADER, b""
    while place + _HEADER <= len(data):
        left = _BLOCK - place % _BLOCK
        checksum, size, kind = struct.unpack("<IHB", data[place : place + _HEADER])
        if left < _HEADER or kind == 0:
            place += left
            continue
        part = data[place + _HEADER : place + _HEADER + size]
        if len(part) < size:
            return
        if zlib.crc32(part, zlib.crc32(bytes([kind]))) != checksum:
            raise ValueError(f"bad checksum at byte {place}")
        place += _HEADER + size
        parts = part if kind in (_FULL, _FIRST) else parts + part
        if kind in (_FULL, _LAST):
            yield parts


def _update(target: dict[str, Any], items: Any) -> None:
    for item in items:
        path = tuple(item.nested_key) or (item.key,)
        node = target
        for key in path[:-1]:
            node = node.setdefault(key, {})
        node[path[-1]] = _value(item)


def _value(item: Any) -> Any:
    for descriptor, value in item.ListFields():
        if descriptor.name in ("value_json", "json"):
            return json.loads(value)
        if descriptor.name in ("boolean", "integer", "number", "text"):
            return value
    return None
