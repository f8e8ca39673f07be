"""The ranks of one run as forked processes: quick, since everything is imported already."""

from __future__ import annotations

import multiprocessing
import socket
import traceback
from collections.abc import Callable
from typing import Any

import torch

from lengthwise.training.place import Place
from lengthwise.training.ranks import Team


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def in_ranks(body: Callable[[Place], Any], world: int = 2, timeout: float = 120) -> list[Any]:
    """What ``body(place)`` returned on each rank, inside a team that has come together; see `as_processes`."""

    def joined(place: Place) -> Any:
        with Team(place) as team:
            team.join("cpu")
            return body(place)

    return as_processes(joined, world, timeout)


def as_processes(body: Callable[[Place], Any], world: int = 2, timeout: float = 120) -> list[Any]:
    """What ``body(place)`` returned in each of `world` processes, or the exception it raised as ``Type: message``.

    None for a process that ended without either.
    """
    context = multiprocessing.get_context("fork")
    results: Any = context.SimpleQueue()
    port = free_port()
    places = [Place("torchrun", rank, world, rank, 0, "127.0.0.1", port, "test") for rank in range(world)]
    processes = [context.Process(target=_rank, args=(body, place, results)) for place in places]
    for process in processes:
        process.start()
    try:
        for process in processes:
            process.join(timeout)
    finally:
        for process in processes:
            process.kill()
    answers = {}
    while not results.empty():
        rank, answer = results.get()
        answers[rank] = answer
    return [answers.get(rank) for rank in range(world)]


def _rank(body: Callable[[Place], Any], place: Place, results: Any) -> None:
    torch.set_num_threads(1)
    try:
        answer = body(place)
    except BaseException as error:
        traceback.print_exc()
        answer = f"{type(error).__name__}: {error}"
    results.put((place.rank, answer))
