"""A new operator writes nothing about unchanged jobs, and handles new jobs at once."""

import pytest
from faults.lab.exchange import Asked, Fault
from faults.lab.kube import pods
from faults.lab.lane import Lane
from faults.lab.waits import SOON, calm, ended, first_pod, pods_of, renewed, running, versions

pytestmark = pytest.mark.apiserver


async def test_a_restart_without_changes_writes_nothing(lane: Lane) -> None:
    """A new operator reconciles running and finished jobs and writes nothing, not even an event."""
    await running(lane, "a", "b", "c")
    await lane.kube.patch(
        pods(lane.namespace, "c-1"), {"metadata": {"annotations": {"test.dijob/exit": "1"}}}
    )
    await renewed(lane, "c")
    await lane.operator.kill()
    before = {name: await versions(lane, name) for name in ("a", "b", "c")}
    lane.proxy.writes.clear()
    lane.proxy.requests.clear()
    await lane.operator.start()
    await lane.reconciled(3)
    await lane.until("no more pods made", calm(lane, 2.0), SOON)
    told = [str(asked) for asked in lane.proxy.requests if asked.method != "GET"]
    assert told == [], lane.evidence()
    assert {name: await versions(lane, name) for name in before} == before


async def test_a_new_job_does_not_wait_for_the_initial_list(lane: Lane) -> None:
    """A list of thousands of pods takes seconds (here: forever). Existing jobs wait for it, but a
    new job does not.
    """
    await running(lane, "a")
    await lane.operator.kill()
    before = await versions(lane, "a")
    await lane.kube.delete(pods(lane.namespace, "a-1"))

    def everybodys(asked: Asked) -> Fault | None:
        return (
            Fault(503)
            if asked.path.endswith("/pods") and "/job=" not in asked.selector and not asked.write
            else None
        )

    lane.proxy.answer = everybodys
    await lane.apply("b")
    await lane.operator.start()
    await first_pod(lane, "b")
    await lane.until("all pods of b", lambda: pods_of(lane, "b", 4), SOON)
    await lane.until("no more pods made", calm(lane, 2.0), SOON)
    assert {**(await versions(lane, "a")), "a-1": before["a-1"]} == before, lane.evidence()
    lane.proxy.answer = lambda asked: None
    await lane.reaches("b", "Running", 40)
    await renewed(lane, "a", 40)
    assert lane.census.of("b") == 4
    assert not lane.operator.died()


@pytest.mark.long
async def test_a_deleted_namespace_does_not_affect_the_others(lane: Lane) -> None:
    """The Role is deleted with the namespace, so an operator of given namespaces gets 403. It
    serves the others. When the namespace is back, the process ends, and the kubelet restarts it
    with all of them. (chart/test_chart_operator tests the deletion.)
    """
    await running(lane, "a")
    await lane.operator.kill()

    def gone(asked: Asked) -> Fault | None:
        return Fault(403, reason="Forbidden") if "/namespaces/gone/" in asked.path else None

    lane.proxy.answer = gone
    lane.operator.namespaces = (lane.namespace, "gone")
    await lane.kube.delete(pods(lane.namespace, "a-1"))
    await lane.operator.start()
    await renewed(lane, "a", 40)
    await running(lane, "b")
    assert "skipping namespaces" in lane.operator.log.read_text()
    lane.proxy.answer = lambda asked: None
    await lane.until("the end when it is back", ended(lane), 60)
    assert "exited with 0" in lane.operator.died()
    await lane.operator.start()
    await lane.watching(within="/namespaces/gone")
    assert {name: lane.census.of(name) for name in "ab"} == {"a": 5, "b": 4}
