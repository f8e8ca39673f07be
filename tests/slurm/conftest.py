"""One private Slurm for each worker of the tests, and jobs for it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from lengthwise.sweeps.slurm import SlurmLauncher
from support import slurm
from support.launching import NO_WARM_START
from support.slurm_jobs import Driver


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "cluster" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.slurm)


@pytest.fixture(scope="session")
def cluster() -> Iterator[slurm.OneNode]:
    if why := slurm.missing():
        pytest.skip(why)
    cluster = slurm.OneNode()
    yield cluster
    cluster.stop()


@pytest.fixture
def node(cluster: slurm.OneNode, monkeypatch: pytest.MonkeyPatch) -> Iterator[slurm.OneNode]:
    """The cluster, found by the commands that this process starts, with nothing in its queue."""
    for key, value in cluster.environment.items():
        monkeypatch.setenv(key, value)
    yield cluster
    cluster.ask("scancel", "--quiet", "--user=root")
    cluster.wait_until(lambda: not cluster.jobs(), hint="a job does not end")


@pytest.fixture
def driver(node: slurm.OneNode, tmp_path: Path) -> Callable[..., Driver]:
    """Makes what drives a launcher as a sweep does, its files in the test's folder."""

    def make(
        name: str = "sweep", *, time_limit: float | None = None, workers: int | None = None, **options: Any
    ) -> Driver:
        folder = tmp_path / "outputs" / "sweeps" / name
        folder.mkdir(parents=True, exist_ok=True)
        given = {"poll_seconds": 0.3, "timeout_min": 10, "signal_delay": 30, **options}
        return Driver(
            SlurmLauncher({"time_limit": time_limit, "workers": workers}, folder, NO_WARM_START, **given),
            folder,
        )

    return make
