"""Each known fault, put into the real code, turns the test that is named for it red; without it the test is green."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from mutations.faults import FAULTS, Fault
from mutations.forkserver import PACKAGE, SOURCES, ForkServer

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork a process")

PARTS = 6
"""Of the named tests, each a job of its own: one job has a limit."""


@pytest.fixture(scope="module")
def server() -> Iterator[ForkServer]:
    server = ForkServer()
    yield server
    server.close()


def faulty(fault: Fault) -> str:
    """The changed source."""
    source = (SOURCES / PACKAGE / fault.file).read_text()
    found = source.count(fault.old)
    assert found == 1, (
        f"the list of faults is stale: {fault.file} holds {fault.old!r} {found} times, not once"
    )
    assert fault.new != fault.old
    return source.replace(fault.old, fault.new)


def test_every_fault_has_a_name_of_its_own() -> None:
    assert len({fault.name for fault in FAULTS}) == len(FAULTS)
    assert len({(fault.file, fault.old, fault.new) for fault in FAULTS}) == len(FAULTS)


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_fault_is_caught(fault: Fault, server: ForkServer) -> None:
    outcome = server.run(fault.test, file=SOURCES / PACKAGE / fault.file, source=faulty(fault))
    assert outcome.code != 0, f"{fault.test} does not notice (module imported: {outcome.changed})"
    # Otherwise it could not be collected, or took too long: that is no verdict.
    assert outcome.code == 1, f"pytest ended with {outcome.code}\n{outcome.output}"
    ((_, phase, error, message),) = outcome.failures
    # A fault that crashes proves nothing about what the test looks at.
    assert (phase, error) in {("call", "AssertionError"), ("call", "Failed")}, (
        f"{error} in {phase}: {message}"
    )


@pytest.mark.parametrize("part", range(PARTS))
def test_without_a_fault_the_named_tests_are_green(server: ForkServer, part: int) -> None:
    tests = list(dict.fromkeys(fault.test for fault in FAULTS))[part::PARTS]
    outcome = server.run(*tests, first=False)
    assert (outcome.code, outcome.failures) == (0, []), outcome.output
    assert f"{len(tests)} passed" in outcome.output


def test_a_harmless_change_is_not_called_caught(server: ForkServer) -> None:
    """Control: serving another source does not by itself turn a test red."""
    fault = FAULTS[0]
    file = SOURCES / PACKAGE / fault.file
    outcome = server.run(fault.test, file=file, source=file.read_text() + "\n# the same\n")
    assert (outcome.code, outcome.changed) == (0, True), outcome.output
