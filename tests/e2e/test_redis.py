"""Redis as the message queue: the job's own server, and an external one."""

import re

import pytest
import yaml
from jobs import EXAMPLES, REAL, REAL_SECONDS, job, redis_server, start_redis
from space import Space

pytestmark = pytest.mark.e2e


@pytest.mark.long
def test_ditask_over_redis_with_distinct_node_ids(space: Space) -> None:
    """The example of the star needs every rank. Its command does not mention Redis."""
    made, code = yaml.safe_load_all((EXAMPLES / "star.yaml").read_text())
    # Redis has no topology, so the workers receive each other's events too.
    made["spec"] |= {"replicas": 3, "messageQueue": {"type": "redis", "host": "redis"}}
    start_redis(space)
    space.apply(made, code)
    space.until_true("star", "Succeeded", REAL_SECONDS)
    assert "pi is 3.14159, from nodes [1, 2]" in space.logs("star-0")
    assert space.status("star").get("restarts", 0) == 0


@pytest.mark.long
def test_the_operator_runs_a_redis_server_for_the_job(space: Space) -> None:
    """The server is ready before any rank starts, serves only this job's ranks, and ends with the
    job.
    """
    space.kubectl("apply", "-f", str(EXAMPLES / "redis.yaml"))
    space.until_true("redis", "Running", REAL_SECONDS)
    assert space.condition("redis", "BrokerReady")["status"] == "True"
    objects = space.kubectl(
        "get", "pod/redis-mq", "service/redis-mq", "networkpolicy/redis-mq", "-o", "name"
    )
    assert len(objects.split()) == 3
    assert space.status("redis")["replicas"] == 3
    space.until_true("redis", "Succeeded", REAL_SECONDS)
    for rank in range(3):
        said = re.findall(
            r"node (\d) has received messages from nodes (\[[^]]*\])", space.logs(f"redis-{rank}")
        )
        assert sorted(said) == [
            (str(n), str([m for m in range(6) if m != n])) for n in (2 * rank, 2 * rank + 1)
        ]
    space.until_gone(
        "redis-mq", lambda: [name for name in space.children() if name == "pod/redis-mq"], 20
    )


@pytest.mark.parametrize(
    ("flags", "host", "words"),
    [
        ((), "absent", "cannot reach Redis (absent: "),
        (
            ("--requirepass", "secret"),
            "redis",
            "(redis: it requires a password, which DI-engine cannot send)",
        ),
        (("--port", "7000"), "redis", "(redis: Connection refused)"),
    ],
    ids=["no such name", "a password", "refuses"],
)
def test_a_redis_server_that_does_not_serve_is_named_in_the_status(
    space: Space, flags: tuple[str, ...], host: str, words: str
) -> None:
    env = [*REAL["env"], {"name": "DIJOB_REACH_SECONDS", "value": "5"}]
    main = {**REAL, "env": env, "command": ["ditask", "--package", "x", "--main", "x.main"]}
    space.apply(*redis_server(*flags))
    space.kubectl("wait", "--for=condition=Ready", "pod/redis", "--timeout=90s", timeout=100)
    space.apply(job("lost", main, messageQueue={"type": "redis", "host": host}, backoffLimit=0))
    space.until_true("lost", "Failed", 90)
    assert words in space.status("lost")["firstFailure"]["message"]
