"""Online without a key, with a wrong one, or without a server: one message in time, and nothing is begun or lost."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.commandline import QUICK, SMALL, Result, in_own_process, in_process
from support.launching import jobs_in_this_process
from support.wandb_server import WandbServer, account, closed_port, silent_port

COMMAND = [word for word in [*QUICK, *SMALL] if not word.startswith("wandb")]
IN_TIME = 20.0

TROUBLES = {
    "no key": ["there is no key", "`wandb login`"],
    "half a key": ["40+ characters"],
    "401": ["refuses the key", "`wandb login --relogin`"],
    "403": ["refuses the key", "`wandb login --relogin`"],
    "500": ["cannot be reached", "500"],
    "nobody listens": ["cannot be reached", "connection refused"],
    "no answer": ["cannot be reached", "no answer in time"],
    "no such host": ["cannot be reached", "no such host"],
    "no address": ["WANDB_BASE_URL='foo' is no setting that W&B takes"],
}


@contextlib.contextmanager
def trouble(name: str) -> Iterator[None]:
    """The environment of one for whom W&B does not work."""
    with contextlib.ExitStack() as stack:
        if name in ("401", "403", "500"):
            stack.enter_context(stack.enter_context(WandbServer(int(name))).login())
        elif name == "no answer":
            stack.enter_context(account(stack.enter_context(silent_port())))
        elif name == "no address":
            stack.enter_context(account("foo"))
        elif name == "no such host":
            stack.enter_context(account("http://nowhere.invalid"))
        else:
            key = {"no key": None, "half a key": "k" * 20}.get(name, "k" * 40)
            stack.enter_context(account(closed_port(), key))
        yield


def assert_refused(result: Result, *says: str) -> None:
    assert result.code == 2, result.out
    assert result.err.startswith("error: wandb=online: ")
    assert len(result.err.strip().splitlines()) == 1
    for part in (*says, "wandb=offline"):
        assert part in result.err


@pytest.mark.parametrize(("name", "says"), TROUBLES.items(), ids=list(TROUBLES))
def test_a_run_is_refused_before_anything_is_written(tmp_path: Path, name: str, says: list[str]) -> None:
    with trouble(name):
        began = time.monotonic()
        result = in_process(tmp_path, "train", *COMMAND, "wandb=online")
        took = time.monotonic() - began
    assert_refused(result, *says)
    assert took < IN_TIME
    assert not (tmp_path / "outputs").exists()


@pytest.mark.parametrize("name", ["no key", "no answer"])
def test_a_sweep_is_refused_before_its_first_job(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    started = jobs_in_this_process(monkeypatch)
    with trouble(name):
        result = in_process(tmp_path, "train", "-m", "seed=0,1", *COMMAND, "wandb=online")
    assert_refused(result, *TROUBLES[name])
    assert not started and not (tmp_path / "outputs").exists()


def test_a_dry_run_needs_no_account(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    jobs_in_this_process(monkeypatch)
    with trouble("nobody listens"):
        result = in_process(
            tmp_path, "train", "-m", "seed=0,1", *COMMAND, "wandb=online", "sweep.dry_run=true"
        )
    assert result.code == 0, result.err


@pytest.fixture
def finished(tmp_path: Path) -> Path:
    assert in_process(tmp_path, "train", *COMMAND, "wandb=offline").code == 0
    return tmp_path


def contents(root: Path) -> dict[str, bytes]:
    return {str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*") if path.is_file()}


@pytest.mark.parametrize("sweep", [[], ["-m"]], ids=["run", "sweep"])
def test_overwrite_deletes_nothing_where_wandb_refuses(
    finished: Path, monkeypatch: pytest.MonkeyPatch, sweep: list[str]
) -> None:
    started = jobs_in_this_process(monkeypatch)
    before = contents(finished)
    with trouble("no key"):
        result = in_process(finished, "train", *sweep, *COMMAND, "wandb=online", "overwrite=true")
    assert_refused(result, "there is no key")
    assert contents(finished) == before and not started


@pytest.mark.parametrize(
    ("status", "message"), [(403, "permission denied"), (404, "entity nobody not found")]
)
def test_nor_where_the_server_has_a_key_but_no_place_for_the_run(
    finished: Path, status: int, message: str
) -> None:
    """… such as a team that one is not in; also W&B's own earlier file is where it was."""
    before = contents(finished)
    with WandbServer() as server, server.login():
        server.refuse["UpsertBucket"] = (status, message)
        result = in_process(
            finished, "train", *COMMAND, "wandb=online", "overwrite=true", "wandb.entity=nobody"
        )
    assert_refused(result, message)
    kept = {name: content for name, content in contents(finished).items() if "/cache/" not in name}
    assert kept == {name: content for name, content in before.items() if "/cache/" not in name}


def test_control_with_an_account_overwrite_replaces_the_record(finished: Path) -> None:
    before = contents(finished)
    with WandbServer() as server, server.login():
        result = in_process(finished, "train", *COMMAND, "wandb=online", "overwrite=true")
    assert result.code == 0, result.err
    assert {name for name, content in contents(finished).items() if before.get(name) == content} < set(before)
    assert list((finished / "outputs" / "wandb" / "retired").iterdir())


def test_a_run_that_is_done_needs_no_account(finished: Path) -> None:
    with trouble("no key"):
        result = in_process(finished, "train", *COMMAND, "wandb=online")
        assert result.code == 0 and "done already" in result.out
        assert in_process(finished, "train", *COMMAND, "wandb=online", "trainer.max_steps=9").code == 2
        measured = in_process(finished, "train", *COMMAND, "wandb=online", "evaluation.lengths=[4,6,16]")
        assert measured.code == 0, measured.err


def test_a_process_of_its_own_says_no_more_than_that(tmp_path: Path) -> None:
    """Whatever wandb itself would print, or ask for at a terminal, included."""
    with trouble("401"):
        result = in_own_process(tmp_path, "train", *COMMAND, "wandb=online")
    assert_refused(result, "refuses the key")
    assert "Traceback" not in result.out + result.err
