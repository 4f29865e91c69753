"""A thousand jobs with 4,000 pods: a restarted operator writes nothing about them and sees a new
job at once. Also the memory of a leader and of a standby.
"""

import os
import time
from dataclasses import replace
from pathlib import Path

import pytest
from cluster import Cluster
from cluster.waiting import until_async
from faults.lab.channel import open_channel
from faults.lab.kube import Kube, make_namespace
from faults.lab.load import quiet
from faults.lab.restarts import RANKS, Crowd
from faults.lab.running import Operator
from ports import free_port

pytestmark = pytest.mark.apiserver

# `make scale` uses 1,000 jobs; `make test` uses fewer, since their creation takes most of the time.
JOBS = int(os.environ.get("DIJOB_SCALE_JOBS", "150"))
FIRST_POD_SECONDS = 5.0
# The bound applies to an operator that has the cores to itself; one start must meet it.
STARTS = 5
PEAK_MB = 250.0
# Seconds until a leader or a standby has its initial lists.
READY_SECONDS = 60.0


async def test_a_restart_among_a_thousand_jobs(plane: Cluster, kube: Kube, tmp_path: Path) -> None:
    namespace = f"scale-{os.getpid()}"
    await make_namespace(kube, namespace)
    operator = Operator(plane.kubeconfig, tmp_path / "operator.log", (namespace,))
    await _restarts(plane, Crowd(kube, namespace, operator, JOBS))


# Only in `make scale`: the objects need a control plane of their own, and half a minute.
@pytest.mark.long
async def test_a_restart_while_thousands_of_launchers_reconnect(
    channel_plane: Cluster, channel_kube: Kube, tmp_path: Path
) -> None:
    namespace = f"scale-{os.getpid()}"
    await make_namespace(channel_kube, namespace)
    async with open_channel(channel_kube.access, namespace) as channel:
        log = tmp_path / "operator.log"
        operator = Operator(channel_plane.kubeconfig, log, (namespace,), channel.options())
        await _restarts(channel_plane, Crowd(channel_kube, namespace, operator, JOBS, channel=True))


async def _restarts(plane: Cluster, crowd: Crowd) -> None:
    kube, namespace, operator = crowd.kube, crowd.namespace, crowd.operator
    begin = time.monotonic()
    try:
        await crowd.fill()
        await quiet(plane)
        print(
            f"\nMEASURED {JOBS} jobs x {RANKS} pods made, as copies of one, in:"
            f" {time.monotonic() - begin:.0f} s"
        )
        starts = []
        for number in range(STARTS):
            seen = await crowd.restart(plane.audit_log, number)
            starts.append(seen.seconds)
            print(f"MEASURED start to a new job's first pod: {seen.seconds:.1f} s")
            print(
                f"MEASURED CPU until all {JOBS} jobs had their pass: {seen.cpu:.1f} s, peak RSS:"
                f" {seen.peak:.0f} MB"
            )
            assert not seen.writes, f"about jobs that needed none: {seen.writes}; {operator.tail()}"
            assert seen.peak < PEAK_MB
            await operator.kill()
            if seen.seconds <= FIRST_POD_SECONDS:
                break
        assert min(starts) <= FIRST_POD_SECONDS, f"{starts}; {operator.tail()}"
        await _memory_of_a_pair(operator)
    finally:
        await operator.kill()
        await kube.delete(f"/api/v1/namespaces/{namespace}")


async def _memory_of_a_pair(like: Operator) -> None:
    """Check that leader and standby, which both hold all objects, need the same memory."""
    lease = f"--lease={like.namespaces[0]}/dijob"
    # Two processes cannot serve the channel at the same port of this machine.
    elsewhere = [f"--channel-port={free_port()}"] * any("channel" in one for one in like.arguments)
    acts, waits = (
        replace(like, arguments=(*like.arguments, *options), starts=0)
        for options in ((lease, "--identity=a"), (lease, "--identity=b", *elsewhere))
    )
    async with acts:

        async def not_acting() -> str:
            leader, passes = [await acts.metric(f"dijob_{of}") for of in ("leader", "passes_total")]
            return "" if leader == 1 and passes >= JOBS else f"{leader=:g}, {passes:g} passes"

        await until_async("one acts", not_acting, READY_SECONDS, acts.evidence)
        async with waits:
            await until_async("the other is ready", waits.unready, READY_SECONDS, waits.evidence)
            assert await waits.metric("dijob_leader") == 0, waits.tail()
            peaks = {one: who.usage().peak for one, who in (("acts", acts), ("waits", waits))}
    for one, peak in peaks.items():
        print(f"MEASURED peak RSS of the operator that {one} among {JOBS} jobs: {peak:.0f} MB")
        assert peak < PEAK_MB
    assert peaks["waits"] <= peaks["acts"] * 1.1, peaks
