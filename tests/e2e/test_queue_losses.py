"""A lost peer is found again with each message queue. (Without losses: test_queues.py.)"""

import pytest
from jobs import DITASK, REAL_SECONDS, config_map, job, mounted
from space import Space, measured
from test_queues import QUEUES, over

pytestmark = [pytest.mark.e2e, pytest.mark.long]

# Node 0 coordinates: it learns from events which nodes exist, and the others answer its requests.
PEERS = """
import os, time, zlib
from ding.framework import task
from ding.framework.context import OnlineRLContext

NODES, BIG = int(os.environ["DI_WORLD_SIZE"]), 64 * 2**20


def main():
    with task.start(async_mode=False, ctx=OnlineRLContext()):
        me, last, sums, over = task.router.node_id, {}, {}, []
        task.on("tick", lambda node: last.__setitem__(node, time.monotonic()))
        task.on("sum", lambda node, number, value: sums.__setitem__((node, number), value))
        task.on("big", lambda number, data: task.emit("sum", me, number, zlib.crc32(data)))
        task.on("over", lambda: over.append(True))

        def tick():
            try:
                task.emit("tick", me)
            except Exception as error:  # over redis, while its server is away
                print("not sent:", error)
            time.sleep(0.2)

        def away():
            return [n for n in range(NODES) if time.monotonic() - last.get(n, -99) > 3]

        def until(true, what):
            end = time.monotonic() + 240
            while not true():
                assert time.monotonic() < end, "not within 240 s: %s; away: %s" % (what, away())
                tick()
            print(what)

        def everybody_gets_64_mb(number):
            data = bytes(bytearray(os.urandom(2**20)) * 64)
            until(lambda: not away(), "all are here, %d" % number)
            task.emit("big", number, data, only_remote=True)
            want = {(n, number): zlib.crc32(data) for n in range(1, NODES)}
            got = lambda: {key: value for key, value in sums.items() if key[1] == number}
            until(lambda: got() == want, "all got 64 MB, %d" % number)

        if me:
            until(lambda: over, "it is over")
            return
        everybody_gets_64_mb(1)
        until(lambda: {2, 3} <= set(away()), "the pod of nodes 2 and 3 is away")
        everybody_gets_64_mb(2)
        for _ in range(15):
            task.emit("over", only_remote=True)
            tick()
        print("the suite has passed")
"""


@QUEUES
def test_all_ranks_receive_64_mb_before_and_after_a_loss(space: Space, queue: str) -> None:
    mount, volume = mounted("peers-code", "/code")
    env = [{"name": "PYTHONUNBUFFERED", "value": "1"}, {"name": "OMP_NUM_THREADS", "value": "1"}]
    main = {"image": DITASK, "env": env, "workingDir": "/code", **mount}
    main["command"] = ["ditask", "--package", "/code", "--main", "main.main"]
    made = job("peers", main, pod=volume, replicas=3, parallelWorkers=2, **over(queue))
    space.apply(config_map("peers-code", main_py=PEERS), made)

    def lacks(words: str) -> str:
        said = space.logs("peers-0")
        return "" if words in said else said[-2000:] or "nothing said"

    space.until("all got 64 MB", lambda: lacks("all got 64 MB, 1"), REAL_SECONDS)
    first = {pod["metadata"]["name"]: pod["metadata"]["uid"] for pod in space.pods("peers")}
    space.kubectl("delete", "pod", "peers-1", "--grace-period=1", "--wait=false")
    space.until("it is missed", lambda: lacks("the pod of nodes 2 and 3 is away"), 60)
    waited = space.until("all got 64 MB again", lambda: lacks("all got 64 MB, 2"), REAL_SECONDS)
    measured(
        f"seconds from the loss of a pod until all got 64 MB again, over {queue}", f"{waited:.0f}"
    )
    space.until_true("peers", "Succeeded", 120)
    assert "the suite has passed" in space.logs("peers-0")
    assert space.status("peers").get("restarts", 0) == 0
    after = {pod["metadata"]["name"]: pod["metadata"]["uid"] for pod in space.pods("peers")}
    assert {name for name in first if after[name] != first[name]} == {"peers-1"}
