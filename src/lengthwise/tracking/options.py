"""What W&B would refuse of a configuration's names."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lengthwise.errors import ConfigError

_RESERVED = "/\\#?%:"
_LONGEST, _LONGEST_TAG = 128, 64


def options_of(config: Mapping[str, Any]) -> dict[str, Any]:
    """The group ``wandb`` of a configuration, with the name of the study that it is part of among the tags."""
    options, study = dict(config["wandb"]), config["study"].get("name")
    return options | {"tags": [*options["tags"], *([str(study)[:_LONGEST_TAG]] if study else [])]}


def refuse_names(options: Mapping[str, Any]) -> None:
    """Raises ConfigError for a project, group or tag, of the configuration's group ``wandb``, that W&B refuses."""
    project, group = options["project"], options["group"]
    if not project or len(project) > _LONGEST or set(project) & set(_RESERVED):
        raise ConfigError(
            f"wandb.project={project}: W&B takes 1 to {_LONGEST} characters, none of them {' '.join(_RESERVED)}"
        )
    if group is not None and not 1 <= len(group) <= _LONGEST:
        raise ConfigError(
            f"wandb.group={group}: W&B takes 1 to {_LONGEST} characters; null = the sweep's name"
        )
    for tag in options["tags"]:
        if not 1 <= len(tag) <= _LONGEST_TAG:
            raise ConfigError(
                f"wandb.tags: {tag!r} is a tag of {len(tag)} characters; W&B takes 1 to {_LONGEST_TAG}"
            )
