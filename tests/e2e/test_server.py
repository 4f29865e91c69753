"""A job that requests another size from the HTTP server, and reports its progress."""

from collections.abc import Iterator

import pytest
from archives import archive
from cluster import Cluster
from identity import identities
from jobs import REAL_SECONDS, peers, program, shell
from release import install
from space import Space

pytestmark = pytest.mark.e2e

# With the launcher, every Python can import dijob_runtime.
GROW = """
python3 - <<'END'
import os
import dijob_runtime

if os.environ["DI_RANK"] == "0":
    print("granted", dijob_runtime.request_replicas(3), flush=True)
    try:
        dijob_runtime.request_replicas(9)
    except dijob_runtime.ServerError as error:
        print(error.status, error, flush=True)
END
exec sleep infinity
"""
# As DI-engine's evaluator does (ding/framework/middleware/functional/evaluator.py).
EVALUATES = """
from ding.framework import task
from ditk import logging

logging.getLogger().setLevel(logging.INFO)
logging.info("Evaluation: Train Iter(640) Env Step(9600) Episode Return(200.000) ")
"""


@pytest.fixture(scope="module")
def served(cluster: Cluster) -> Iterator[None]:
    """Enable the server in the release during the tests."""
    operator = archive("operator")
    install(cluster, operator, "server.enabled=true")
    yield
    install(cluster, operator)


@pytest.fixture
def before(space: Space) -> dict[str, tuple[str, int, str]]:
    """Start a job before the server is enabled."""
    space.apply(peers("before", "--forever"))
    space.until_true("before", "PeersReady")
    return identities(space, "before")


def test_a_job_grows_by_its_own_request_and_shows_its_progress(
    space: Space, before: dict[str, tuple[str, int, str]], request: pytest.FixtureRequest
) -> None:
    request.getfixturevalue("served")
    space.apply(
        shell("grows", GROW, minReplicas=1, maxReplicas=4),
        *program("learns", ["python3", "main.py"], EVALUATES, replicas=1),
    )

    def small() -> str:
        size = space.status("grows").get("readyReplicas")
        return "" if size == 3 else f"{size} are Ready; grows-0 says {space.logs('grows-0')}"

    space.until("it has grown", small, 180)
    # The third rank may be Ready before the answer to the second request has been printed.
    answered = [
        "granted 3",
        f"422 DIJob {space.name}.grows cannot have 9 replicas: its minReplicas and maxReplicas"
        " allow 1 to 4",
    ]

    def lacking() -> str:
        said = space.printed("grows-0")
        return "" if said.splitlines()[:2] == answered else said or "nothing said"

    space.until("both requests are answered", lacking, 60)

    def line() -> str:
        return str(space.status("learns").get("progress", {}).get("line", ""))

    def silent() -> str:
        return "" if line() else f"learns-0 says {space.logs('learns-0')}"

    space.until("its progress is shown", silent, REAL_SECONDS)
    assert line() == "iter 640, step 9600, return 200"
    assert identities(space, "before") == before
