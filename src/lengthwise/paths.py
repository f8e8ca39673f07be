"""Where the configuration and the studies lie: in a checkout, or inside an installed wheel."""

from __future__ import annotations

from pathlib import Path

_PACKAGE = Path(__file__).resolve().parent
_CHECKOUT = _PACKAGE.parents[1]


def _root() -> Path:
    # Resolved by location, not by import metadata: an editable install can leave a stale copy behind.
    return (
        _CHECKOUT if (_CHECKOUT / "pyproject.toml").is_file() and (_CHECKOUT / "conf").is_dir() else _PACKAGE
    )


def conf_dir() -> Path:
    """The folder of YAML files, one folder a slot."""
    return _root() / "conf"


def study_dirs() -> list[Path]:
    """Folders searched for ``<name>/study.yaml``: the working folder's own first, then those shipped with us."""
    found = [Path.cwd() / "experiments", _root() / "experiments"]
    return [path for i, path in enumerate(found) if path.is_dir() and path not in found[:i]]
