"""Leader and followers: who says what is to be done, and what becomes of the others when one is gone."""

from __future__ import annotations

import os
import signal
import socket
import time
from typing import Any

import pytest
import torch.distributed as dist

from lengthwise.errors import RunError
from lengthwise.training import meeting, ranks
from lengthwise.training.place import Place
from lengthwise.training.ranks import Team
from support.ranks import as_processes, free_port

ORDER = {"resume": None, "horizon": 300}


def told(place: Place) -> Any:
    with Team(place) as team:
        if not place.leads:
            return team.await_order()
        team.order(ORDER)
        return None


def test_followers_do_what_the_leader_says():
    assert as_processes(told, world=3) == [None, ORDER, ORDER]


def test_a_leader_that_gives_up_does_not_leave_its_followers_waiting():
    def body(place: Place) -> Any:
        with Team(place) as team:
            if place.leads:
                raise RunError("the folder is in use")
            return team.await_order()

    began = time.monotonic()
    leader, follower = as_processes(body)
    assert leader == "RunError: the folder is in use"
    assert follower is None  # it has ended with the leader, whose message is enough
    assert time.monotonic() - began < 30


def test_two_starts_on_one_port_do_not_hear_each_other():
    """The second one's leader finds the port taken; its follower must not take the first one's word."""

    def body(place: Place) -> Any:
        stranger = Place(**{**place.to_dict(), "token": "another"})
        with Team(place if place.leads else stranger) as team:
            if place.leads:
                team.order(ORDER)
                time.sleep(1)
                return None
            meeting.MEETING = 0.3
            return team.await_order()

    assert str(as_processes(body)[1]).startswith("RunError: rank 1 has waited")


def test_a_follower_without_a_leader_gives_up(monkeypatch):
    monkeypatch.setattr(meeting, "MEETING", 1.0)
    lonely = Place("torchrun", 1, 2, 1, 0, "127.0.0.1", free_port(), "x")
    with (
        pytest.raises(RunError, match=r"rank 1 does not reach rank 0 at 127\.0\.0\.1:.*MASTER_PORT"),
        Team(lonely),
    ):
        pass


def test_a_port_in_use_is_a_clear_error():
    with socket.socket() as stranger:
        stranger.bind(("", 0))
        stranger.listen()
        port = stranger.getsockname()[1]
        team = Team(Place("torchrun", 0, 2, 0, 0, "127.0.0.1", port, "x"))
        with pytest.raises(RunError, match=f"cannot open a port for its followers at 127.0.0.1:{port}"), team:
            pass


def test_a_rank_that_does_not_come_is_named(monkeypatch):
    monkeypatch.setattr(meeting, "MEETING", 0.3)
    monkeypatch.setattr(ranks, "_GOODBYE", 0.1)
    with (
        pytest.raises(RunError, match=r"3 processes were asked for; after 0 s rank 1, 2 has not come"),
        Team(Place("torchrun", 0, 3, 0, 0, "127.0.0.1", free_port(), "x")) as team,
    ):
        team.join("cpu")


def test_the_size_of_the_group_is_counted():
    """A group that is there already, and smaller than was asked for."""

    def body(place: Place) -> Any:
        if place.leads:
            dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
        with Team(place) as team:
            if place.leads:
                return team.join("cpu")
            team._meeting.set("ready/1")
            return team._meeting.get("end")

    assert as_processes(body)[0] == "RunError: 2 processes were asked for, and 1 came together"


def busy(team: Team, seconds: float = 20) -> float:
    """Something that is not a collective; how long it was."""
    began = time.monotonic()
    with team.blaming():
        while time.monotonic() - began < seconds:
            time.sleep(0.01)
    return time.monotonic() - began


def test_a_follower_that_fails_ends_whatever_the_leader_does():
    def body(place: Place) -> Any:
        with Team(place) as team:
            if place.leads:
                return busy(team)
            with team.reporting():
                raise ZeroDivisionError("on purpose")

    began = time.monotonic()
    leader, follower = as_processes(body)
    assert leader == "RunError: rank 1 of 2 failed: ZeroDivisionError: on purpose"
    assert follower == "ZeroDivisionError: on purpose"
    assert time.monotonic() - began < 15


def test_a_job_in_the_background_of_a_shell_hears_of_it_too():
    """There SIGINT is ignored from the start, by which the leader is called out of what it is in."""

    def body(place: Place) -> Any:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        with Team(place) as team:
            if place.leads:
                return busy(team)
            with team.reporting():
                raise ZeroDivisionError("on purpose")

    assert as_processes(body)[0] == "RunError: rank 1 of 2 failed: ZeroDivisionError: on purpose"


def test_a_follower_in_silence_counts_as_dead(monkeypatch):
    monkeypatch.setattr(meeting, "SILENCE", 2.0)

    def body(place: Place) -> Any:
        with Team(place) as team:
            if place.leads:
                return busy(team)
            time.sleep(1.5)
            os._exit(0)

    assert as_processes(body)[0] == "RunError: rank 1 of 2 has given no sign of life for 2 s"


def test_control_a_follower_that_has_done_its_part_may_go():
    def body(place: Place) -> Any:
        with Team(place) as team:
            if place.leads:
                return busy(team, 3)
            with team.reporting():
                return "done"

    leader, follower = as_processes(body)
    assert (leader > 3, follower) == (True, "done")


def test_the_first_cause_is_named_not_what_follows_from_it():
    """Two lose a connection because a third has failed; the leader hears of all three, in any order."""

    def body(place: Place) -> Any:
        with Team(place) as team:
            if place.leads:
                return busy(team)
            with team.reporting():
                if place.rank == 3:
                    time.sleep(0.2)
                    raise ValueError("the cause")
                raise RuntimeError("[gloo/transport/tcp/pair.cc:553] Connection closed by peer [127.0.0.1]:1")

    assert as_processes(body, world=4)[0] == "RunError: rank 3 of 4 failed: ValueError: the cause"


def test_an_error_of_the_leaders_own_stays_what_it_is():
    def body(place: Place) -> Any:
        with Team(place) as team:
            if not place.leads:
                return team._meeting.get("end")
            with team.blaming():
                raise ValueError("mine")

    assert as_processes(body)[0] == "ValueError: mine"


def test_one_process_needs_none_of_it(monkeypatch):
    monkeypatch.setattr(dist, "TCPStore", lambda *args, **options: pytest.fail("a store for one process"))
    with Team(Place()) as team:
        team.start({}, None)
        team.order(ORDER)
        team.join("cpu")
        with team.blaming():
            assert not dist.is_initialized()
        team.part()


def test_a_script_that_trains_two_runs_meets_twice():
    def body(place: Place) -> Any:
        with Team(place) as team:
            if place.leads:
                team.order(ORDER)
            else:
                assert team.await_order() == ORDER
        if place.leads:
            time.sleep(0.5)
        with Team(place) as team:
            if place.leads:
                team.order(None)
                return None
            return team.await_order()

    assert as_processes(body) == [None, None]


def test_what_follows_a_failure_is_not_broken_off(monkeypatch):
    """The leader has seen it by itself and is writing its last words, which take longer than its patience."""
    monkeypatch.setattr(ranks, "_UNBLOCK", 0.5)

    def body(place: Place) -> Any:
        with Team(place) as team:
            if not place.leads:
                with team.reporting():
                    raise ValueError("the cause")
            try:
                with team.blaming():
                    while team.failure is None:
                        time.sleep(0.01)
                    raise RuntimeError("[gloo/transport/tcp/pair.cc:553] Connection closed by peer")
            except RunError as error:
                time.sleep(2)
                return str(error)

    assert as_processes(body)[0] == "rank 1 of 2 failed: ValueError: the cause"
