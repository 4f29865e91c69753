"""Fixtures: control planes with 50 simulated nodes, clients, lanes."""

import itertools
from collections.abc import AsyncIterator, Iterator
from contextlib import AbstractAsyncContextManager
from pathlib import Path

import pytest
from cluster import Cluster
from faults.lab.kube import Access, Kube
from faults.lab.lane import Lane, Lanes, lane
from planes import control_plane
from workers import own

# Two test files run at a time (make apiserver), each with its own control plane.
NAME = own("faults")
NUMBERS = itertools.count(1)


@pytest.fixture(scope="session")
def plane() -> Iterator[Cluster]:
    with control_plane(NAME, nodes=50) as cluster:
        yield cluster


@pytest.fixture
async def kube(plane: Cluster) -> AsyncIterator[Kube]:
    async with Kube(Access.of(plane.kubeconfig)) as client:
        yield client


@pytest.fixture(scope="session")
def channel_plane() -> Iterator[Cluster]:
    """The addresses of its pods are those of this machine, so that launchers can be played."""
    with control_plane(own("faults-channel"), nodes=50, loopback_pods=True) as cluster:
        yield cluster


@pytest.fixture
async def channel_kube(channel_plane: Cluster) -> AsyncIterator[Kube]:
    async with Kube(Access.of(channel_plane.kubeconfig)) as client:
        yield client


@pytest.fixture
def lanes(kube: Kube, tmp_path: Path) -> Lanes:
    """Return a function that creates a lane, each in a new namespace."""
    return _maker(kube, tmp_path, channel=False)


@pytest.fixture
def channel_lanes(channel_kube: Kube, tmp_path: Path) -> Lanes:
    """Return the same for lanes in which pods have a channel in place of a gate."""
    return _maker(channel_kube, tmp_path, channel=True)


def _maker(kube: Kube, tmp_path: Path, *, channel: bool) -> Lanes:
    def make() -> AbstractAsyncContextManager[Lane]:
        number = next(NUMBERS)
        folder = tmp_path / f"lane-{number}"
        folder.mkdir()
        return lane(kube, f"f{number}-{folder.stat().st_ino}", folder, channel=channel)

    return make


@pytest.fixture(name="lane")
async def one_lane(lanes: Lanes) -> AsyncIterator[Lane]:
    async with lanes() as made:
        yield made
