"""Faults of the apiserver and the network: the operator recovers in bounded time, and creates
nothing twice.
"""

import asyncio
import random
import time
from typing import Any

import pytest
from faults.lab.exchange import Asked, Fault
from faults.lab.kube import pods, services
from faults.lab.lane import Lane
from faults.lab.waits import SOON, calm, ended, first_pod, renewed, running

pytestmark = pytest.mark.apiserver

GONE = {
    "type": "ERROR",
    "object": {"kind": "Status", "code": 410, "reason": "Expired", "message": "too old"},
}
BROKEN = {
    "type": "ERROR",
    "object": {"kind": "Status", "code": 500, "reason": "InternalError", "message": "etcd"},
}


def measured(name: str, seconds: float) -> None:
    """Print a measured figure."""
    print(f"\nMEASURED {name}: {seconds:.1f} s")


async def test_a_watch_that_is_cut(lane: Lane) -> None:
    """Every watch is reset. A pod that is lost, and a job that is created then, are noticed."""
    await running(lane, "a")
    assert lane.proxy.cut_watches() >= 3
    begin = time.monotonic()
    await lane.kube.delete(pods(lane.namespace, "a-1"))
    await lane.apply("b")
    await first_pod(lane, "b")
    measured("cut watches, new job's first pod", time.monotonic() - begin)
    await renewed(lane, "a")
    await lane.reaches("b", "Running")
    assert not lane.operator.died()
    assert lane.census.of("b") == 4


@pytest.mark.parametrize(("part", "refusals"), [("/pods", 2), ("/services", 2), ("/dijobs", 0)])
async def test_a_watch_that_is_too_old(lane: Lane, part: str, refusals: int) -> None:
    """ERROR 410 in the stream, and HTTP 410 on the next watches, cause a new list and no writes."""
    await running(lane, "a")
    before, left = len(lane.proxy.writes), [refusals]

    def first(asked: Asked) -> Fault | None:
        if asked.watch and part in asked.path and left[0] > 0:
            left[0] -= 1
            return Fault(410, reason="Expired")
        return None

    lane.proxy.answer = first
    assert await lane.proxy.tell_watches(GONE, part) == 1
    await lane.until(f"{refusals} x HTTP 410", lambda: lacking(left[0]), SOON)
    await lane.watching()
    assert lane.proxy.writes[before:] == [], lane.evidence()
    begin = time.monotonic()
    await running(lane, "b")
    measured(f"410 on {part}, new job Running", time.monotonic() - begin)
    assert (lane.census.of("a"), lane.census.of("b")) == (4, 4)
    assert not lane.operator.died()


async def lacking(count: int) -> str:
    return f"{count} are still to come" if count else ""


async def test_a_watch_that_ends_in_error_500(lane: Lane) -> None:
    """kopf ends on any ERROR other than 410. Then the process must end too, so that the kubelet
    restarts it.
    """
    await running(lane, "a")
    assert await lane.proxy.tell_watches(BROKEN) >= 3
    begin = time.monotonic()

    await lane.until("the operator's end", ended(lane), SOON)
    measured("ERROR 500 on all watches, end of the process", time.monotonic() - begin)
    assert "exited with 1" in lane.operator.died()
    await lane.operator.start()
    await running(lane, "b")
    assert (lane.census.of("a"), lane.census.of("b")) == (4, 4)


async def test_a_pod_whose_deletion_was_never_shown(lane: Lane) -> None:
    """The DELETED event is lost. The next list shows that the pod is gone."""
    await running(lane, "a")

    def hide(asked: Asked, event: dict[str, Any]) -> bool:
        return asked.path.endswith("/pods") and event["object"]["metadata"].get("name") == "a-1"

    lane.proxy.hide = hide
    await lane.kube.delete(pods(lane.namespace, "a-1"))
    await lane.until("the event was swallowed", lambda: swallowed(lane), SOON)
    lane.proxy.hide = lambda asked, event: False
    assert lane.census.of("a") == 4, "it was seen although it was hidden"
    await lane.proxy.tell_watches(GONE, "/pods")
    measured("lost DELETED, renewed after the list", await renewed(lane, "a"))


async def swallowed(lane: Lane) -> str:
    return "" if lane.proxy.hidden else "nothing hidden yet"


async def test_twenty_seconds_of_503(lane: Lane) -> None:
    """All reads, writes and watches fail. New jobs and lost pods are noticed within 10 s
    afterwards.
    """
    await running(lane, "a", "c")
    lane.proxy.answer = lambda asked: Fault(503, reason="ServiceUnavailable")
    lane.proxy.cut_watches()
    await lane.apply("b")
    await lane.kube.delete(pods(lane.namespace, "c-1"))
    await asyncio.wait_for(silence(lane, 20), 25)
    lane.proxy.answer = lambda asked: None
    begin = time.monotonic()
    await lane.until("the loss of c-1 is told", lambda: loss_told(lane, "c"), 10)
    measured("503 for 20 s, lost pod noticed after it", time.monotonic() - begin)
    await first_pod(lane, "b", 10)
    measured("503 for 20 s, new job's first pod after it", time.monotonic() - begin)
    await lane.reaches("b", "Running", 40)
    await renewed(lane, "c")
    assert not lane.operator.died()
    assert (lane.census.of("a"), lane.census.of("b")) == (4, 4)


async def loss_told(lane: Lane, job: str) -> str:
    status = await lane.status(job)
    return "" if status.get("renewals") else f"status {status}"


async def silence(lane: Lane, seconds: float) -> None:
    """Wait for the duration of a fault. Fail early if the operator ends."""
    end = time.monotonic() + seconds

    async def over() -> str:
        assert not lane.operator.died(), lane.evidence()
        return "" if time.monotonic() >= end else "not over"

    await lane.until("the end of the fault", over, seconds + 5)


async def test_too_many_requests(lane: Lane) -> None:
    """429 on all writes for 8 s: the operator retries rarely, and continues afterwards."""
    lane.proxy.answer = lambda asked: Fault(429, 1, "TooManyRequests") if asked.write else None
    await lane.apply("a")
    await asyncio.wait_for(silence(lane, 8), 12)
    refused = lane.proxy.faults
    lane.proxy.answer = lambda asked: None
    await lane.reaches("a", "Running", 40)
    print(f"\nMEASURED writes that met 429 in 8 s: {refused}")
    assert 1 <= refused <= 24, f"{refused} writes in 8 s of 429"
    assert lane.census.of("a") == 4


@pytest.mark.parametrize("status", [409, 500])
async def test_five_percent_of_all_calls_fail(lane: Lane, status: int) -> None:
    """Random requests of every kind fail. Ten jobs still start, each with exactly four pods."""
    dice = random.Random(status)
    lane.proxy.answer = lambda asked: (
        Fault(status) if not asked.watch and dice.random() < 0.05 else None
    )
    names = [f"j{number}" for number in range(10)]
    begin = time.monotonic()
    await running(lane, *names)
    measured(f"10 jobs with 5 % {status}, {lane.proxy.faults} faults", time.monotonic() - begin)
    assert lane.proxy.faults > 0
    still = [name for name in names if not lane.census.moved_of(name)]
    assert len(still) >= 7, f"kwok has moved {lane.census.moved}"
    assert {name: lane.census.of(name) for name in still} == dict.fromkeys(still, 4), (
        lane.evidence()
    )


async def test_deleted_while_the_operator_is_down(lane: Lane) -> None:
    """The garbage collector works without the operator, because there are no finalizers."""
    await running(lane, "a")
    await lane.operator.kill()
    await lane.remove("a")

    async def left() -> str:
        names = list(await lane.pods("a"))
        service = await lane.kube.find(services(lane.namespace, "a"))
        return f"still there: {names}, service {service is not None}" if names or service else ""

    measured("children gone without an operator", await lane.until("all children gone", left, 100))
    await lane.operator.start()
    await lane.watching()
    await running(lane, "b")
    assert (lane.census.of("a"), lane.census.of("b")) == (4, 4)


async def test_a_deletion_in_a_gap_of_the_watch(lane: Lane) -> None:
    """The operator receives only the deletions of the pods, not of the job. It reads the job
    before it replaces them.
    """
    await running(lane, "a")

    def hide(asked: Asked, event: dict[str, Any]) -> bool:
        return asked.path.endswith("/dijobs") and event["object"]["metadata"].get("name") == "a"

    lane.proxy.hide = hide
    await lane.remove("a")

    async def pods_left() -> str:
        names, events = list(await lane.pods("a")), lane.census.deleted.total()
        return f"{names}, {events} deleted" if names or events < 4 else ""

    # The garbage collector looks for new kinds every 30 s, and this may be the first test after the
    # CRD was created.
    await lane.until("all pods gone", pods_left, 100)
    await lane.until("no more pods made", calm(lane), SOON)
    made = lane.census.of("a") - 4
    print(f"\nMEASURED pods made for a job that was gone: {made}")
    assert made <= 4, f"{lane.census.added}; {lane.evidence()}"

    async def left() -> str:
        return str(list(await lane.pods("a")) or "")

    await lane.until("the garbage collector has deleted them", left, 100)
