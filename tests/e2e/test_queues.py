"""One test suite for all message queues: DI-engine's events behave the same with nng, redis and
torchrpc.

There are 3 real pods with 2 processes of real DI-engine each. The suite does not test events that
were sent before the connection existed, or while the receiver was away, because nng does not
guarantee that they arrive.
"""

import re

import pytest
import yaml
from jobs import EXAMPLES, REAL_SECONDS
from space import Body, Space, measured

pytestmark = pytest.mark.e2e

QUEUES = pytest.mark.parametrize(
    "queue",
    # In `make test`, test_redis.py and test_torchrpc.py send events over the other queues.
    ["nng", *(pytest.param(one, marks=pytest.mark.long) for one in ("redis", "torchrpc:cpu"))],
)


def over(queue: str) -> Body:
    return {"messageQueue": {"type": queue}}


@QUEUES
def test_events_reach_the_right_processes(space: Space, queue: str) -> None:
    """Each process of the example asserts emit, on, once, off, wait_for, only_local, only_remote
    and finish.
    """
    made, code = yaml.safe_load_all((EXAMPLES / "events.yaml").read_text())
    made["spec"] |= over(queue)
    space.apply(made, code)
    waited = space.until_true("events", "Succeeded", REAL_SECONDS)
    measured(f"seconds until events.yaml has Succeeded over {queue}", f"{waited:.0f}")
    said = "".join(
        space.logs(name)
        for name in ("events-learner-0", "events-collector-0", "events-collector-1")
    )
    words = r"node (\d) \((\w+)\): on, once, off, wait_for, only_local, only_remote and finish work"
    assert sorted(re.findall(words, said)) == [
        (str(n), "learner" if n < 2 else "collector") for n in range(6)
    ]
    assert space.status("events").get("restarts", 0) == 0
