"""Whether W&B can be logged to, asked before anything starts."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from lengthwise.errors import ConfigError
from lengthwise.tracking.service import let_go

OFFLINE = (
    "wandb=offline needs no account: it writes the same files under outputs/wandb, for `wandb sync` later"
)
_TRIES: dict[str, Any] = {
    "x_graphql_retry_max": 1,
    "x_graphql_retry_wait_min_seconds": 0.5,
    "x_graphql_retry_wait_max_seconds": 1.0,
    "x_graphql_timeout_seconds": 4.0,
}
"""Of the question; what a run sends is tried for longer."""


def refuse_unreachable(options: Mapping[str, Any]) -> None:
    """Ask W&B's server who we are, where `options` (the configuration's group ``wandb``) say online.

    Raises ConfigError, after at most some 10 s, where there is no key, the server refuses it, or does not answer.
    """
    if options["mode"] == "online" and (trouble := login_trouble()):
        raise ConfigError(f"wandb=online: {trouble}; {OFFLINE}")


def login_trouble() -> str | None:
    """Why W&B cannot be logged to, or None where it can; after at most some 10 s."""
    import wandb

    try:
        url = wandb.setup(wandb.Settings(mode="online", silent=True, **_TRIES)).settings.base_url
        if wandb.login(prompt=False, verify=True):
            return None
        return f"there is no key for {url} (`wandb login` stores one, WANDB_API_KEY gives one to a single command)"
    except Exception as error:  # W&B's own, and those of the libraries that it checks its settings with
        return in_words(error)
    finally:
        let_go()  # its settings were for this question


def in_words(error: Exception) -> str:
    """What the server, or the lack of one, said."""
    if hasattr(error, "errors") and callable(
        error.errors
    ):  # pydantic: a setting, most likely from the environment
        wrong = error.errors()[0]
        name = "WANDB_" + "_".join(str(part) for part in wrong["loc"]).upper()
        return f"{name}={wrong.get('input')!r} is no setting that W&B takes ({wrong['msg']})"
    said = " ".join(str(error).split()).partition(" Consider increasing")[0]
    if found := re.search(r"POST (\S+)/graphql giving up.*while retrying: (.*)", said):
        reason = "no answer in time" if "exceeded" in found[2] else found[2].rpartition('": ')[2]
        return f"{found[1]} cannot be reached ({reason})"
    if found := re.fullmatch(r"Failed to authenticate with (\S+): (<.*)", said):
        return f"{found[1]} does not answer as a W&B server does ({found[2][:60]})"
    if found := re.fullmatch(r"Failed to authenticate with (\S+): (.*)", said):
        return f"{found[1]} refuses the key ({found[2]}); `wandb login --relogin` stores another"
    if "Timed out" in said or "deadline exceeded" in said:
        return f"its server does not answer in time ({said[:120]})"
    return f"W&B refuses it ({said})"
