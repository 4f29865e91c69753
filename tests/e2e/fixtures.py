"""Fixtures of all tests on real pods: a cluster with the operator, installed with its chart."""

import os
import signal
from collections.abc import Callable, Generator, Iterator
from contextlib import AbstractContextManager, ExitStack
from functools import cache
from types import FrameType

import pytest
from archives import archive
from cluster import Cluster, Options, up
from release import install
from space import Api, Space, opened
from unpacked import Unpacked, unpacked
from workers import KEEP, own

# Several test files run at the same time (make e2e). Each worker has its own cluster.
NAME = own("dijob-e2e")
IMAGES = ("light", "ditask", "launcher", "stacks", "operator")
# The IP families of nodes, pods and Services: IPv4, IPv6, or both, the primary one first.
FAMILIES = "DIJOB_IP_FAMILIES"


@pytest.fixture(scope="session")
def cluster() -> Iterator[Cluster]:
    """Yield the cluster that the tests share, and stop it at the end. DIJOB_E2E_KEEP=1 keeps it for
    the next run.
    """
    before = signal.signal(signal.SIGTERM, _interrupted)
    archives = tuple(archive(image) for image in IMAGES)
    families = tuple(os.environ.get(FAMILIES, "IPv4").split(","))
    cluster = up(Options(name=NAME, images=archives, ip_families=families))
    try:
        install(cluster, archives[-1])
        yield cluster
    finally:
        if os.environ.get(KEEP) != "1":
            cluster.down()
        signal.signal(signal.SIGTERM, before)


def _interrupted(number: int, frame: FrameType | None) -> None:
    """Handle SIGTERM like Ctrl-C, so that nothing is left behind."""
    raise KeyboardInterrupt


@pytest.fixture(scope="session")
def api(cluster: Cluster) -> Api:
    return Api.of(cluster)


@pytest.fixture(scope="session")
def open_space(cluster: Cluster, api: Api) -> Callable[[str], AbstractContextManager[Space]]:
    """Return a function for module fixtures: it opens a namespace that several tests share."""
    return lambda title: opened(cluster, api, title)


@pytest.fixture
def space(request: pytest.FixtureRequest, cluster: Cluster, api: Api) -> Iterator[Space]:
    """Yield a namespace for one test."""
    with opened(cluster, api, request.node.name.removeprefix("test_")) as space:
        yield space


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Add the state of the namespace to the report of a failed test."""
    report = yield
    spaces = (value for value in getattr(item, "funcargs", {}).values() if isinstance(value, Space))
    space, shown = (
        next(spaces, None),
        "the operator's log" in str(getattr(call.excinfo, "value", "")),
    )
    if report.when == "call" and report.failed and space and not shown:
        report.sections.append(("the cluster", space.evidence()))
    return report


@pytest.fixture(scope="module")
def shelf() -> Iterator[Callable[[str], Unpacked]]:
    """Yield a function that unpacks each image once, when a test first needs it."""
    with ExitStack() as stack:
        yield cache(lambda name: stack.enter_context(unpacked(name)))
