"""The text behind a task: its bytes, and the digest that stands for them in a run's identity.

A component that reads a text has the options `file` (None: the text that comes with Python) and `digest`. The digest is
filled in when a configuration is checked, so that it is recorded with the run and another text is another run, wherever
it lies. Whoever reads the run back compares.
"""

from __future__ import annotations

import hashlib
import os
import platform
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

from lengthwise.errors import RunError


def read_text(file: str | None) -> bytes:
    """The bytes of `file`; None: CPython's documentation topics (`pydoc_data.topics`), in the order of their names.

    Raises ValueError where there is no such file, or nothing in it.
    """
    if file is None:
        return _topics()
    if not isinstance(file, str | os.PathLike) or not str(file):
        raise ValueError(
            f"file={file!r} is no file's name; name a text file, or null for CPython's documentation"
        )
    path = Path(file)
    try:
        data = path.read_bytes()
    except OSError as error:
        raise ValueError(
            f"file={file} cannot be read: {error.strerror or error}; name a text file"
        ) from error
    except ValueError as error:  # a zero byte in the name
        raise ValueError(f"file={file!r} cannot be read: {error}; name a text file") from error
    if not data:
        raise ValueError(f"file={file} is empty; name a text file")
    return data


@lru_cache(maxsize=1)
def _topics() -> bytes:
    try:
        from pydoc_data.topics import topics
    except ImportError as error:  # some systems leave it out of their Python
        raise ValueError(
            "file=null means CPython's documentation topics, which this Python comes without; name a text file"
        ) from error
    return "\n".join(topics[name] for name in sorted(topics)).encode()


def text_digest(data: bytes) -> str:
    """16 hexadecimal digits of BLAKE2b, behind letters that keep them from being read as a number."""
    return f"b2-{hashlib.blake2b(data, digest_size=8).hexdigest()}"


def filled_in(node: Mapping[str, Any]) -> set[str]:
    """The options of a component that are not left at their default: the digest of one that reads a text."""
    return {"digest"} if {"file", "digest"} <= set(node) else set()


def note_text(node: dict[str, Any]) -> None:
    """Fill in the digest of the text that a component's `node` names, and make the name absolute.

    Nothing happens to a component that reads no text, or whose digest is there already: it is compared when the text is
    used. Raises ValueError as `read_text` does.
    """
    if not filled_in(node):
        return
    if isinstance(node["file"], str):
        node["file"] = os.path.abspath(node["file"])
    if node["digest"] is None and (node["file"] is None or isinstance(node["file"], str)):
        node["digest"] = text_digest(read_text(node["file"]))


def without_place(node: Mapping[str, Any]) -> dict[str, Any]:
    """What of a component counts: not where its text lies, once there is the digest."""
    return {key: value for key, value in node.items() if key != "file" or not node.get("digest")}


def other_text(file: str | None, digest: str) -> str:
    """Words for a text that has another digest than `digest`."""
    if file is None:
        return (
            f"the documentation topics of this Python ({platform.python_version()}) are another text than "
            f"digest={digest}: they differ from version to version; use the Python that provenance.json names"
        )
    return f"{file} is another text than digest={digest}: put the same text there again"


def refuse_changed_text(config: Mapping[str, Any], run: str) -> None:
    """Raises RunError where the text that the run named `run`, with this configuration, was trained on is gone or was
    changed."""
    node = config.get("task")
    if not isinstance(node, Mapping) or not node.get("digest") or "file" not in node:
        return
    try:
        found = text_digest(read_text(node["file"]))
    except ValueError as error:
        raise RunError(
            f"run {run} reads the text that it was trained on (digest={node['digest']}): {error}"
        ) from error
    if found != node["digest"]:
        raise RunError(f"run {run}: {other_text(node['file'], node['digest'])}")
