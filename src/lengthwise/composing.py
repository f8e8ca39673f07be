"""Composing many cells: those that choose the same options share what Hydra does for them.

Composing one configuration takes Hydra a tenth of a second or more, nearly all of it for the choice of options
(``pe=rotary``). Plain values (``seed=3``) are set on a copy afterwards, by the very function that Hydra sets them with.
"""

from __future__ import annotations

import contextlib
import copy
import os
from collections.abc import Iterator, Sequence
from typing import Any

from hydra import compose as hydra_compose
from hydra import version
from hydra._internal.config_loader_impl import ConfigLoaderImpl
from hydra._internal.hydra import Hydra
from hydra._internal.utils import create_config_search_path
from hydra.core.global_hydra import GlobalHydra
from hydra.core.override_parser.types import Override
from hydra.errors import ConfigCompositionException, MissingConfigException
from hydra.initialize import get_gh_backup, restore_gh_from_backup
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from lengthwise import outside
from lengthwise.config import (
    CONFIG_NAME,
    GROUPS,
    check,
    explain,
    parse_overrides,
    refuse_lists,
    register_schema,
)
from lengthwise.errors import ConfigError
from lengthwise.paths import conf_dir
from lengthwise.runs.identity import targets


def compose(
    overrides: Sequence[str] = (), *, config_dir: str | os.PathLike[str] | None = None
) -> dict[str, Any]:
    """The checked configuration for `overrides`, as plain containers; the library's way in.

    config_dir: a folder with options and components of your own. It is looked into until a call names another; a
    configuration notes where its components lie (``run.components``) and can be trained after that too.
    Raises ConfigError as the command line would; the folder is then not kept.
    """
    if isinstance(overrides, str):
        raise ConfigError(f"compose({overrides!r}): give a list of overrides, [{overrides!r}]")
    with outside.kept_if_right():
        if config_dir is not None:
            outside.use(config_dir, stays=False)
        return Composer()(overrides)


class Composer:
    """Overrides → checked configuration, as plain containers.

    folder: of the primary configuration, ours if None. name: of its file. search: further folders to look in; those
    that are in use already (`lengthwise.outside`) are looked into as well.
    Raises ConfigError where a name is taken by two.
    """

    def __init__(
        self, folder: str | None = None, name: str | None = None, search: Sequence[str] = ()
    ) -> None:
        register_schema()
        self.folder = os.path.abspath(folder or conf_dir())
        self.name = name or CONFIG_NAME
        for place in search:
            outside.use(place)
        outside.refuse_shadows()
        self._bases: dict[tuple[str, ...], DictConfig] = {}

    def __call__(self, overrides: Sequence[str]) -> dict[str, Any]:
        """Raises ConfigError as the command line of a single run would."""
        config = check(self._composed(overrides))
        if (folder := outside.noted(targets(config))) is not None:
            config["run"]["components"] = folder
        return config

    def study(self, overrides: Sequence[str]) -> dict[str, Any]:
        """The node ``study`` as its file has it: interpolations are each cell's own.  Raises ConfigError."""
        node: Any = OmegaConf.to_container(self._composed(overrides).study, resolve=False)
        return node

    def hydra_node(self, overrides: Sequence[str], name: str) -> dict[str, Any]:
        """Hydra's own node ``hydra.<name>`` (launcher, sweeper), in plain containers.  Raises ConfigError."""
        try:
            config = self._compose(overrides, hydra=True)
            node: Any = OmegaConf.to_container(config.hydra[name], resolve=True)
        except (ConfigCompositionException, MissingConfigException, OmegaConfBaseException) as error:
            raise ConfigError(explain(error)) from error
        return node

    def axes(self, overrides: Sequence[str]) -> dict[str, list[str] | None]:
        """Each override with those that it stands for: some for ``seed=0,1`` or ``pe=glob(*)``, None for a plain one.

        Raises ConfigError for one that cannot be parsed, or that stands for no list of values.
        """
        with self._initialised():
            loader = GlobalHydra.instance().config_loader()
            parsed = parse_overrides(overrides, loader)
            return {text: _values(text, override) for text, override in zip(overrides, parsed, strict=True)}

    def _composed(self, overrides: Sequence[str]) -> DictConfig:
        refuse_lists(overrides)
        parsed = parse_overrides(overrides)
        for override in parsed:
            if override.is_sweep_override():
                key, _, value = (override.input_line or "").partition("=")
                raise ConfigError(
                    f"{override.input_line}: several values are a sweep, with -m; one list is written {key}=[{value}]"
                )
        choices = tuple(override.input_line or "" for override in parsed if not _is_value(override))
        try:
            if choices not in self._bases:
                self._bases[choices] = self._compose(choices)
            config = copy.deepcopy(self._bases[choices])
            ConfigLoaderImpl._apply_overrides_to_config([o for o in parsed if _is_value(o)], config)
        except (ConfigCompositionException, MissingConfigException, OmegaConfBaseException) as error:
            raise ConfigError(explain(error)) from error
        return config

    def _compose(self, overrides: Sequence[str], *, hydra: bool = False) -> DictConfig:
        with self._initialised():
            return hydra_compose(self.name, list(overrides), return_hydra_config=hydra)

    @contextlib.contextmanager
    def _initialised(self) -> Iterator[None]:
        """Hydra ready to compose, with the folders of ``--config-dir`` where the command line puts them."""
        backup = get_gh_backup()
        version.setbase("1.3")
        path = create_config_search_path(self.folder)
        for folder in outside.in_use():
            path.prepend("command-line", f"file://{folder}", anchor="schema")  # which has to be the last
        try:
            Hydra.create_main_hydra2(task_name="lengthwise", config_search_path=path)
            yield
        finally:
            restore_gh_from_backup(backup)


def _is_value(override: Override) -> bool:
    """Whether it sets a value and chooses no option of a group."""
    name = override.key_or_group
    return (
        override.package is None
        and not ({"/", "@"} & set(name))
        and name.split(".")[0] != "hydra"
        and ("." in name or name not in GROUPS)
    )


def _values(text: str, override: Override) -> list[str] | None:
    if not override.is_sweep_override():
        return None
    if not override.is_discrete_sweep():
        raise ConfigError(f"{text}: an axis takes listed values, such as seed=0,1,2 or seed=range(0,10)")
    key = text.partition("=")[0]
    values = [f"{key}={value}" for value in override.sweep_string_iterator()]
    if not values:
        raise ConfigError(f"{text}: the axis has no values")
    return values
