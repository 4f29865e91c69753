"""Fixtures of all tests on real pods: one cluster, with the operator as its chart installs it."""

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

# Two files of tests run at a time (make e2e), each with a cluster of its own.
NAME = own("dijob-e2e")
IMAGES = ("light", "ditask", "launcher", "stacks", "operator")
# IPv4, IPv6, or both, the primary first: what nodes, pods and services have.
FAMILIES = "DIJOB_IP_FAMILIES"


@pytest.fixture(scope="session")
def cluster() -> Iterator[Cluster]:
    """The cluster that these tests share, taken down at the end; DIJOB_E2E_KEEP=1 keeps it for the
    next run.
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
    """SIGTERM ends a run as Ctrl-C does: nothing may be left behind."""
    raise KeyboardInterrupt


@pytest.fixture(scope="session")
def api(cluster: Cluster) -> Api:
    return Api.of(cluster)


@pytest.fixture(scope="session")
def open_space(cluster: Cluster, api: Api) -> Callable[[str], AbstractContextManager[Space]]:
    """For fixtures of a module: a namespace that several tests look at."""
    return lambda title: opened(cluster, api, title)


@pytest.fixture
def space(request: pytest.FixtureRequest, cluster: Cluster, api: Api) -> Iterator[Space]:
    """A namespace of the test's own."""
    with opened(cluster, api, request.node.name.removeprefix("test_")) as space:
        yield space


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """A test that failed shows what was going on in its namespace."""
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
    """Unpacks each image once, when a test first asks for it."""
    with ExitStack() as stack:
        yield cache(lambda name: stack.enter_context(unpacked(name)))
