"""``study=<name>`` reads ``experiments/<name>/study.yaml``.

A search path alone would look for ``study/<name>.yaml``, so a small ConfigSource maps one onto the other.
"""

from __future__ import annotations

from pathlib import Path

from hydra.core.config_search_path import ConfigSearchPath
from hydra.core.object_type import ObjectType
from hydra.plugins.config_source import ConfigLoadError, ConfigResult, ConfigSource
from hydra.plugins.search_path_plugin import SearchPathPlugin
from omegaconf import DictConfig, OmegaConf

from lengthwise.paths import study_dirs

GROUP = "study"


def _studies() -> dict[str, Path]:
    found: dict[str, Path] = {}
    for folder in study_dirs():
        for path in sorted(folder.glob("*/study.yaml")):
            found.setdefault(path.parent.name, path)
    return found


def _name(config_path: str) -> str | None:
    """The study's name in ``study/<name>`` or ``study/<name>.yaml``; None for anything else."""
    group, _, name = config_path.strip("/").partition("/")
    return name.removesuffix(".yaml") if group == GROUP and name and "/" not in name else None


class StudySource(ConfigSource):
    """Serves the one group ``study`` from the experiments folders."""

    @staticmethod
    def scheme() -> str:
        return "experiments"

    def available(self) -> bool:
        return True

    def load_config(self, config_path: str) -> ConfigResult:
        name = _name(config_path)
        path = _studies().get(name) if name else None
        if path is None:
            raise ConfigLoadError(f"no study at {config_path}")
        with path.open(encoding="utf-8") as stream:
            header = self._get_header_dict(stream.read(512))
            stream.seek(0)
            config = OmegaConf.load(stream)
        # A study sets keys of the whole configuration; its own are below `study`.
        header["package"] = header.get("package") or "_global_"
        if isinstance(config, DictConfig) and isinstance(config.get("study"), DictConfig):
            config.study.setdefault("name", name)
        return ConfigResult(config=config, path=str(path), provider=self.provider, header=header)

    def is_group(self, config_path: str) -> bool:
        return config_path.strip("/") in ("", GROUP)

    def is_config(self, config_path: str) -> bool:
        return _name(config_path) in _studies()

    def list(self, config_path: str, results_filter: ObjectType | None) -> list[str]:
        path = config_path.strip("/")
        if path == "" and results_filter in (None, ObjectType.GROUP):
            return [GROUP]
        if path == GROUP and results_filter in (None, ObjectType.CONFIG):
            return sorted(_studies())
        return []


class StudySearchPath(SearchPathPlugin):
    """Puts the studies on Hydra's search path."""

    def manipulate_search_path(self, search_path: ConfigSearchPath) -> None:
        search_path.append(provider="lengthwise", path="experiments://")
