"""A file that must stay as it was written: its last line is a digest of the lines above.

A ``config.yaml`` that was edited afterwards would be believed, and shown as what was trained.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

from lengthwise.errors import RunError

_MARK = b"# as it was written: sha256 "


def sealed(content: bytes) -> bytes:
    """`content`, which ends with a line's end, and the line that seals it; a comment in YAML."""
    return content + _MARK + _digest(content) + b"\n"


def unsealed(content: bytes, path: Path) -> bytes:
    """What was sealed, or all of it where there is no seal.  Raises RunError where it is not what was sealed."""
    above, mark, digest = content.rpartition(_MARK)
    if not mark:
        return content
    if digest.strip() != _digest(above):
        raise RunError(
            f"{path} was changed after it was written: it no longer says what was trained. Put it back as it was; "
            "another configuration is another run"
        )
    return above


def _digest(content: bytes) -> bytes:
    return hashlib.sha256(content).hexdigest()[:16].encode()
