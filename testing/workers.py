"""Names for the clusters of several xdist workers that run at the same time.

xdist kills a worker that has not ended 10 s after an interruption. But a worker may need longer if
it is taking down a cluster, or if its test is waiting. So each worker records the name of a cluster
before it starts the cluster. The process that started the workers then uses the hooks below, which
tests/conftest.py imports, to remove the clusters that are left.
"""

import os
import tempfile
from pathlib import Path

import pytest

# The file with the names. Workers inherit it.
CLAIMS = "DIJOB_TEST_CLUSTERS"
KEEP = "DIJOB_E2E_KEEP"


def own(name: str) -> str:
    """Return the name of a cluster. If there are workers, the worker's name is appended, because
    each worker has its own clusters.
    """
    worker = os.environ.get("PYTEST_XDIST_WORKER")
    if not worker:
        return name
    claimed = f"{name}-{worker}"
    claims = os.environ.get(CLAIMS)
    if claims and not _folder(claimed).exists():
        with Path(claims).open("a") as file:
            file.write(f"{claimed}\n")
    return claimed


def pytest_sessionstart(session: pytest.Session) -> None:
    """Create the file of names before xdist starts the workers, which inherit its path in their
    environment.
    """
    if _starts_workers(session.config):
        handle, os.environ[CLAIMS] = tempfile.mkstemp(prefix="dijob-test-clusters-")
        os.close(handle)


def pytest_unconfigure(config: pytest.Config) -> None:
    """Remove the remaining clusters after the last worker has ended, however it ended."""
    if not _starts_workers(config) or CLAIMS not in os.environ:
        return
    # The unit tests run in workers but use no clusters, so they do not need the package.
    from cluster import teardown

    claims = Path(os.environ.pop(CLAIMS))
    for name in sorted(set(claims.read_text().split())):
        if os.environ.get(KEEP) != "1" and _folder(name).exists():
            teardown.remove(_folder(name))
    claims.unlink()


def _starts_workers(config: pytest.Config) -> bool:
    return bool(config.getoption("numprocesses", None)) and not hasattr(config, "workerinput")


def _folder(name: str) -> Path:
    from cluster import state

    return state.folder(name)
