"""The fixtures of these tests: a control plane with 50 pretended nodes, a client, lanes."""

import itertools
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager
from pathlib import Path

import pytest
from cluster import Cluster, Options, find, up
from cluster.shell import until_established
from faults.kube import Access, Kube
from faults.lane import Lane, lane
from faults.running import ROOT
from workers import own

# Two files of tests run at a time (make apiserver), each with a control plane of its own.
NAME = own("faults")
NUMBERS = itertools.count(1)

Lanes = Callable[[], AbstractAsyncContextManager[Lane]]


@pytest.fixture(scope="session")
def plane() -> Iterator[Cluster]:
    """The control plane. One that was up before the tests stays up, for whoever works on them."""
    before = find(NAME)
    cluster = up(Options(name=NAME, mode="control-plane", kwok_nodes=50, quiet=True))
    try:
        cluster.run_kubectl("apply", "-f", str(ROOT / "crds/dijob.yaml"))
        until_established(cluster.run_kubectl, "dijobs.diengine.opendilab.org")
        yield cluster
    finally:
        if before is None:
            cluster.down()


@pytest.fixture
async def kube(plane: Cluster) -> AsyncIterator[Kube]:
    async with Kube(Access.of(plane.kubeconfig)) as client:
        yield client


@pytest.fixture
def lanes(kube: Kube, tmp_path: Path) -> Lanes:
    """Makes a lane each time it is called; namespaces are never used twice."""

    def make() -> AbstractAsyncContextManager[Lane]:
        number = next(NUMBERS)
        folder = tmp_path / f"lane-{number}"
        folder.mkdir()
        return lane(kube, f"f{number}-{folder.stat().st_ino}", folder)

    return make


@pytest.fixture(name="lane")
async def one_lane(lanes: Lanes) -> AsyncIterator[Lane]:
    async with lanes() as made:
        yield made
