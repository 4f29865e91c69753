"""The progress of a program reaches the operator: the real program, launcher and channel, without a
cluster.
"""

import asyncio
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path

import pytest
from dijob import names
from dijob.controller.cache.children import Children
from dijob.controller.channel.launchers import Launchers
from dijob.controller.channel.server import ChannelServer, LauncherConnection
from dijob.core.observed.progress import ProgressReport
from dijob.core.observed.stacks import shorten_stack
from pod.boxes import Box
from samples.builders import LIST, NOW, OWNER, STARTED, view

HOME = "127.0.0.1"
Received = list[ProgressReport]
Process = subprocess.Popen[str]
RUNTIME = Path(__file__).parents[2] / "images/dijob-runtime"
PROGRAM = """
import dijob_runtime
dijob_runtime.report(iteration=7, env_step=80)
dijob_runtime.report(iteration=8, episode_return=9.5, signal=2)
input()
dijob_runtime.report(iteration=9)
"""


# A thread reports progress once the main thread is in its sixth line.
HANGING = """
import sys, threading, time, dijob_runtime

def hang(lock):
    lock.acquire()
    lock.acquire()

def report(main):
    at = None
    while at is None or (at.f_code, at.f_lineno) != (hang.__code__, 6):
        time.sleep(0.01)
        at = sys._current_frames()[main]
    dijob_runtime.report(iteration=7)

threading.Thread(target=report, args=[threading.get_ident()], daemon=True).start()
hang(threading.Lock())
"""


@asynccontextmanager
async def started(box: Box, program: str) -> AsyncIterator[tuple[Launchers, Received, Process]]:
    """Run a program below the real launcher, which is connected to a real channel."""
    children, received = Children.of(()), list[ProgressReport]()
    children.pods.put(view(0, ip=HOME, channel_key="key", started=STARTED))
    launchers = Launchers(children.pods)
    launchers.on_progress = lambda _, report: received.append(report)
    launchers.serve()
    launchers.listen()
    server = ChannelServer(launchers)
    listening = await asyncio.get_running_loop().create_server(
        lambda: LauncherConnection(server), HOME, 0
    )
    port = listening.sockets[0].getsockname()[1]
    namespace, name, uid = OWNER.split("/")
    process = box.start(
        [box.launch, sys.executable, "-c", program],
        DIJOB_CHANNEL=f"{HOME}:{port} job-0 key",
        DI_JOB_NAMESPACE=namespace,
        DI_JOB_NAME=name,
        DI_JOB_ID=uid,
        DI_RANK="0",
        DI_POD_IP=HOME,
        PYTHONPATH=str(RUNTIME),
    )
    addresses = ",".join([HOME, *LIST.split(",")[1:]])
    said = {names.ANNOTATION_LIST_NUMBER: "1", names.ANNOTATION_IPS: addresses}
    launchers.send(children.pods.of(OWNER)[0], said)
    try:
        yield launchers, received, process
    finally:
        listening.close()
        server.close()


async def until(condition: Callable[[], object]) -> None:
    async with asyncio.timeout(60):
        while not condition():  # noqa: ASYNC110
            await asyncio.sleep(0.01)


async def test_what_a_program_reports_reaches_the_operator_also_at_its_end(box: Box) -> None:
    """The values within the last second before the end are not lost."""
    async with started(box, PROGRAM) as (_, received, process):
        await until(lambda: received and received[-1].iteration == 8)
        first = received[-1].values
        assert first == {"iteration": 8, "env_step": 80, "episode_return": 9.5, "signal": 2.0}
        assert process.stdin
        process.stdin.write("\n")
        process.stdin.flush()
        await until(lambda: received[-1].iteration == 9)
        assert received[-1].values == {**first, "iteration": 9}
        assert await asyncio.to_thread(process.wait, 30) == 0


async def test_a_program_that_hangs_shows_where_it_is(box: Box) -> None:
    async with started(box, HANGING) as (launchers, received, process):
        await until(lambda: received)
        (pod,) = launchers.pods.of(OWNER)
        before = launchers.progress_of(pod, NOW)
        assert (before.connected, before.iteration, before.asked) == (True, 7, False)
        launchers.ask_stack(pod)
        await until(lambda: launchers.progress_of(pod, NOW).stack is not None)
        after = launchers.progress_of(pod, NOW)
        assert after.moved == pytest.approx(before.moved, abs=timedelta(seconds=60))
        assert shorten_stack(after.stack or "") == "hang (<string>:6) < <module> (<string>:16)"
        # The program goes on: it still waits for the lock.
        assert process.poll() is None
        process.terminate()
        await asyncio.to_thread(process.wait, 30)
