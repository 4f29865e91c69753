"""A Redis server is lost while the job runs: the job's own, and an external one."""

import shlex
from collections.abc import Callable

import pytest
from jobs import REAL_SECONDS, program, redis_server, start_redis
from space import Body, Space, measured

pytestmark = pytest.mark.e2e

TICKS = """
import os, time
from ding.framework import task
from ding.framework.context import OnlineRLContext

def main():
    with task.start(async_mode=False, ctx=OnlineRLContext()):
        me, last, together = task.router.node_id, {}, None
        task.on("tick", lambda node: last.__setitem__(node, time.monotonic()))
        while not os.path.exists("/tmp/enough"):
            try:
                task.emit("tick", me)
            except Exception as error:
                print("not sent:", error)
            now = all(time.monotonic() - last.get(n, -9) < 1.5 for n in range(3))
            if now is not together:
                together = now
                print("together" if now else "apart")
            time.sleep(0.2)
"""


def ticks(**queue: object) -> list[Body]:
    """Return three ranks that log whether they receive each other's events."""
    command = ["ditask", "--package", "/code", "--main", "main.main"]
    return program("ticks", command, TICKS, replicas=3, messageQueue={"type": "redis", **queue})


def said(space: Space, word: str, *, after: str = "") -> Callable[[], str]:
    """Return a probe: "" when all ranks have logged `word`, and later than the last `after`."""

    def lacking() -> str:
        logs = (space.logs(f"ticks-{rank}") for rank in range(3))
        late = (log for log in logs if log.rfind(word) <= (log.rfind(after) if after else -1))
        return next((log[-2000:] or "nothing said" for log in late), "")

    return lacking


def hear_each_other(space: Space) -> Callable[[], str]:
    return said(space, "together", after="apart")


def hear_nobody(space: Space) -> Callable[[], str]:
    return said(space, "apart", after="together")


def end(space: Space) -> None:
    for rank in range(3):
        space.touch(f"ticks-{rank}", "/tmp/enough")
    space.until_true("ticks", "Succeeded", REAL_SECONDS)


def test_the_jobs_own_redis_server_is_recreated_and_all_ranks_restart_in_their_pods(
    space: Space,
) -> None:
    """TCP may take minutes to give up a connection to a lost server, or may never do so."""
    space.apply(*ticks())
    space.until("all hear each other", hear_each_other(space), REAL_SECONDS)
    before = space.uids("ticks")
    space.kubectl("delete", "pod", "ticks-mq", "--wait=false")
    space.until(
        "the loss is told", lambda: "" if space.status("ticks").get("renewals") else "not yet", 60
    )
    assert space.status("ticks")["lastRenewal"]["reason"] == "BrokerLost"
    waited = space.until_true("ticks", "PeersReady", REAL_SECONDS)
    waited += space.until("all hear each other again", hear_each_other(space), REAL_SECONDS)
    measured(
        "seconds from the loss of a Redis server of the job's own until all hear each other",
        f"{waited:.0f}",
    )
    status = space.status("ticks")
    assert (status["listNumber"], status["renewals"], status.get("restarts", 0)) == (2, 1, 0)
    assert space.uids("ticks") == before
    end(space)


def test_ranks_hear_again_when_somebodys_redis_server_was_away(space: Space) -> None:
    """The server is away for longer than redis-py keeps retrying. DI-engine does not notice a
    shorter outage.
    """
    server, service = redis_server()
    main = server["spec"]["containers"][0]
    away = "while [ -e /tmp/away ]; do sleep 0.2; done"
    main["command"] = [
        "/bin/bash",
        "-c",
        f"while :; do {shlex.join(main['command'])}; {away}; done",
    ]
    start_redis(space, server, service)
    space.apply(*ticks(host="redis"))
    space.until("all hear each other", hear_each_other(space), REAL_SECONDS)
    before = space.uids("ticks")
    space.kubectl("exec", "redis", "--", "sh", "-c", "touch /tmp/away; redis-cli shutdown nosave")
    space.until(
        "DI-engine has noticed everywhere",
        said(space, "cannot receive messages, retrying"),
        REAL_SECONDS,
    )
    space.until("no rank hears another one", hear_nobody(space), REAL_SECONDS)
    space.kubectl("exec", "redis", "--", "rm", "/tmp/away")
    space.until("all hear each other again", hear_each_other(space), REAL_SECONDS)
    assert space.uids("ticks") == before
    assert space.status("ticks").get("restarts", 0) == 0
    end(space)
