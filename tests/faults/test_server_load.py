"""Constant load on the HTTP server does not slow down the operator's reconciliations."""

import asyncio
import itertools
import os
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import aiohttp
import pytest
from cluster import Cluster
from faults.lab.kube import Kube, jobs
from faults.lab.lane import Lane
from planes import ROOT
from ports import free_port

pytestmark = [pytest.mark.apiserver, pytest.mark.long]

JOBS = [f"job-{number}" for number in range(8)]
REQUESTS_PER_MINUTE, SECONDS, ROUNDS = 10_000, 30.0, 3
MOST_TIMES = 1.2


async def churn(lane: Lane, kube: Kube) -> None:
    """Scale jobs up and down until canceled."""
    for size in itertools.cycle((3, 4)):
        for name in JOBS:
            await kube.patch(jobs(lane.namespace, name), {"spec": {"replicas": size}})
            await asyncio.sleep(0.1)


async def flood(url: str, tokens: list[str], counts: dict[int, int]) -> None:
    """Send requests until canceled, each with another token; every fourth is invalid."""
    async with aiohttp.ClientSession() as session, asyncio.TaskGroup() as group:

        async def ask(number: int) -> None:
            name, token = f"job-{number % len(JOBS)}", tokens[number % len(JOBS)]
            token = f"wrong-{number}" if number % 4 == 3 else token
            headers = {"Authorization": f"Bearer {token}"}
            async with session.get(f"{url.format(name=name)}", headers=headers) as answer:
                counts[answer.status] = counts.get(answer.status, 0) + 1

        begin = time.monotonic()
        for number in itertools.count():
            group.create_task(ask(number))
            due = begin + number * 60 / REQUESTS_PER_MINUTE
            await asyncio.sleep(max(0.0, due - time.monotonic()))


@asynccontextmanager
async def server(plane: Cluster, log: Path) -> AsyncIterator[int]:
    """Run the server as a process, and yield its port."""
    port = free_port()
    told = [f"--kubeconfig={plane.kubeconfig}", f"--port={port}", "--health-port=0"]
    env = {**os.environ, "PYTHONPATH": str(ROOT / "operator")}
    with log.open("ab") as out:
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "dijob.server", *told, env=env, stdout=out, stderr=out
        )
        try:
            yield port
        finally:
            process.terminate()
            await process.wait()


def p99(values: list[float]) -> float:
    return sorted(values)[int(len(values) * 0.99)]


async def test_ten_thousand_requests_a_minute_slow_no_reconciliation(
    lane: Lane, kube: Kube, plane: Cluster, tmp_path: Path
) -> None:
    notes = tmp_path / "passes"
    await lane.operator.kill()
    lane.operator.passes = notes
    await lane.operator.start()
    for name in JOBS:
        await lane.apply(name, minReplicas=3, maxReplicas=4, replicas=4)
    for name in JOBS:
        await lane.reaches(name, "Running", 60)
    tokens = [await kube.pod_token(lane.namespace, f"{name}-0", "di-server") for name in JOBS]
    measured: dict[bool, list[float]] = {False: [], True: []}
    counts: dict[int, int] = {}
    async with server(plane, tmp_path / "server.log") as port:
        url = f"http://127.0.0.1:{port}/v2alpha1/{lane.namespace}.{{name}}/replicas"
        for busy in [False, True] * ROUNDS:
            before = len(notes.read_text().splitlines())
            tasks = [asyncio.create_task(churn(lane, kube))]
            if busy:
                tasks.append(asyncio.create_task(flood(url, tokens, counts)))
            await asyncio.sleep(SECONDS)
            for task in tasks:
                task.cancel()
                with suppress(asyncio.CancelledError):
                    await task
            measured[busy] += [float(line) for line in notes.read_text().splitlines()[before:]]
    slow, fast = p99(measured[True]), p99(measured[False])
    asked = sum(counts.values()) * 60 / (SECONDS * ROUNDS)
    print(
        f"MEASURED p99 of a pass: {fast * 1000:.1f} ms without, {slow * 1000:.1f} ms with"
        f" {asked:.0f} requests a minute ({counts}), {slow / fast:.2f} times;"
        f" {len(measured[False])} and {len(measured[True])} passes"
    )
    assert asked > 0.8 * REQUESTS_PER_MINUTE
    assert {200, 401, 429} <= counts.keys() <= {200, 401, 429}, counts
    assert slow <= MOST_TIMES * fast
