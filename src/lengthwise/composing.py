"""Composing many cells: those that choose the same options share what Hydra does for them.

Composing one configuration takes Hydra a tenth of a second or more, nearly all of it for the choice of options
(``pe=rotary``). Plain values (``seed=3``) are set on a copy afterwards, by the very function that Hydra sets them with.
"""

from __future__ import annotations

import copy
import os
from collections.abc import Sequence
from typing import Any

from hydra import compose as hydra_compose
from hydra import initialize_config_dir
from hydra._internal.config_loader_impl import ConfigLoaderImpl
from hydra.core.global_hydra import GlobalHydra
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Override
from hydra.errors import ConfigCompositionException, MissingConfigException, OverrideParseException
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from lengthwise.config import CONFIG_NAME, GROUPS, check, explain, first_line, refuse_lists, register_schema
from lengthwise.errors import ConfigError
from lengthwise.paths import conf_dir


def compose(overrides: Sequence[str] = ()) -> dict[str, Any]:
    """The checked configuration for `overrides`, as plain containers; the library's way in.

    Raises ConfigError as the command line would.
    """
    return Composer()(overrides)


class Composer:
    """Overrides → checked configuration, as plain containers.

    folder: of the primary configuration, ours if None. name: of its file. search: further folders to look in.
    """

    def __init__(
        self, folder: str | None = None, name: str | None = None, search: Sequence[str] = ()
    ) -> None:
        register_schema()
        self.folder = os.path.abspath(folder or conf_dir())
        self.name = name or CONFIG_NAME
        paths = ",".join(f"file://{os.path.abspath(path)}" for path in search)
        self._search = [f"hydra.searchpath=[{paths}]"] if paths else []
        self._bases: dict[tuple[str, ...], DictConfig] = {}

    def __call__(self, overrides: Sequence[str]) -> dict[str, Any]:
        """Raises ConfigError as the command line of a single run would."""
        refuse_lists(overrides)
        for text, values in self.axes(overrides).items():
            if values != [text]:
                key, _, value = text.partition("=")
                raise ConfigError(
                    f"{text}: several values are a sweep, with -m; one list is written {key}=[{value}]"
                )
        parsed = OverridesParser.create().parse_overrides(list(overrides))
        choices = tuple(override.input_line or "" for override in parsed if not _is_value(override))
        try:
            if choices not in self._bases:
                self._bases[choices] = self._compose(choices)
            config = copy.deepcopy(self._bases[choices])
            ConfigLoaderImpl._apply_overrides_to_config([o for o in parsed if _is_value(o)], config)
        except (ConfigCompositionException, MissingConfigException, OmegaConfBaseException) as error:
            raise ConfigError(explain(error)) from error
        return check(config)

    def hydra_node(self, overrides: Sequence[str], name: str) -> dict[str, Any]:
        """Hydra's own node ``hydra.<name>`` (launcher, sweeper), in plain containers.  Raises ConfigError."""
        try:
            config = self._compose(overrides, hydra=True)
            node: Any = OmegaConf.to_container(config.hydra[name], resolve=True)
        except (ConfigCompositionException, MissingConfigException, OmegaConfBaseException) as error:
            raise ConfigError(explain(error)) from error
        return node

    def axes(self, overrides: Sequence[str]) -> dict[str, list[str]]:
        """Each override with the overrides it stands for: several for ``seed=0,1`` or ``pe=glob(*)``, else itself.

        Raises ConfigError for one that cannot be parsed, or that stands for no list of values.
        """
        found: dict[str, list[str]] = {}
        with self._initialised():
            parser = OverridesParser.create(config_loader=GlobalHydra.instance().config_loader())
            for text in overrides:
                try:
                    (override,) = parser.parse_overrides([text])
                except OverrideParseException as error:
                    raise ConfigError(
                        f"{error.override}: {first_line(error)}. Overrides are written key=value."
                    ) from error
                found[text] = _values(text, override)
        return found

    def _compose(self, overrides: Sequence[str], *, hydra: bool = False) -> DictConfig:
        with self._initialised():
            return hydra_compose(self.name, [*overrides, *self._search], return_hydra_config=hydra)

    def _initialised(self) -> Any:
        return initialize_config_dir(self.folder, version_base="1.3")


def _is_value(override: Override) -> bool:
    """Whether it sets a value and chooses no option of a group."""
    name = override.key_or_group
    return (
        override.package is None
        and not ({"/", "@"} & set(name))
        and name.split(".")[0] != "hydra"
        and ("." in name or name not in GROUPS)
    )


def _values(text: str, override: Override) -> list[str]:
    if not override.is_sweep_override():
        return [text]
    if not override.is_discrete_sweep():
        raise ConfigError(f"{text}: an axis takes listed values, such as seed=0,1,2 or seed=range(0,10)")
    key = text.partition("=")[0]
    values = [f"{key}={value}" for value in override.sweep_string_iterator()]
    if not values:
        raise ConfigError(f"{text}: the axis has no values")
    return values
