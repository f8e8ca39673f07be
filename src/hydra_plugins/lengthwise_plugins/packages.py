"""Options that installed packages offer through entry points (`lengthwise.outside`)."""

from __future__ import annotations

from hydra.core.config_search_path import ConfigSearchPath
from hydra.plugins.search_path_plugin import SearchPathPlugin

from lengthwise.outside import packages


class PackagesSearchPath(SearchPathPlugin):
    """Puts their folders on Hydra's search path, behind ours."""

    def manipulate_search_path(self, search_path: ConfigSearchPath) -> None:
        for package in packages():
            search_path.append(provider=package.name, path=f"file://{package.folder}")
