"""A search whose jobs only pretend to train."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from lengthwise.composing import Composer
from lengthwise.sweeps import preflight
from lengthwise.sweeps.search import OptunaSearch

SMALL = (
    "trainer.max_steps=40",
    "trainer.validate_every=10",
    "evaluation.lengths=[4]",
    "evaluation.symmetry=false",
)
LR = "optimizer.lr=tag(log, interval(1e-5, 1e-1))"
PE = "pe=rotary,alibi"

MakeSearch = Callable[..., OptunaSearch]


@pytest.fixture(scope="session")
def composer() -> Callable[[list[str]], dict[str, Any]]:
    """One for all, which composes the same words once."""
    compose = Composer()
    once = cache(lambda *words: compose(words))
    return lambda words: deepcopy(once(*words))


@pytest.fixture
def make_search(composer: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> MakeSearch:
    """A search in this test's folder: overrides, then options of the sweeper.

    Its trials are in a journal, which takes a tenth of sqlite's time.
    """
    monkeypatch.setattr(preflight, "inspect", lambda entries, launcher: [])

    def make(*overrides: str, **options: Any) -> OptunaSearch:
        def compose(words: list[str]) -> dict[str, Any]:
            return {
                **composer(words),
                "outputs": str(tmp_path),
            }  # not in the words: they are the same in every test

        search = OptunaSearch([*SMALL, *overrides], compose, **options)
        if options.get("storage") is None:
            search.storage = str(search.folder / "search.log")
        return search

    return make
