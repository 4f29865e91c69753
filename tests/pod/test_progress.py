"""The progress of a program reaches the operator: the real program, launcher and channel, without a
cluster.
"""

import asyncio
import sys
from pathlib import Path

from dijob import names
from dijob.controller.cache.children import Children
from dijob.controller.channel.launchers import Launchers
from dijob.controller.channel.server import ChannelServer, LauncherConnection
from dijob.core.observed.progress import ProgressReport
from pod.boxes import Box
from samples.builders import LIST, OWNER, STARTED, view

HOME = "127.0.0.1"
RUNTIME = Path(__file__).parents[2] / "images/dijob-runtime"
PROGRAM = """
import dijob_runtime
dijob_runtime.report(iteration=7, env_step=80)
dijob_runtime.report(iteration=8, episode_return=9.5, signal=2)
input()
dijob_runtime.report(iteration=9)
"""


async def test_what_a_program_reports_reaches_the_operator_also_at_its_end(box: Box) -> None:
    """The values within the last second before the end are not lost."""
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
        [box.launch, sys.executable, "-c", PROGRAM],
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

    async def until_reported(iteration: int) -> ProgressReport:
        async with asyncio.timeout(60):
            while not received or received[-1].iteration != iteration:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        return received[-1]

    try:
        first = await until_reported(8)
        assert first.values == {
            "iteration": 8,
            "env_step": 80,
            "episode_return": 9.5,
            "signal": 2.0,
        }
        assert process.stdin
        process.stdin.write("\n")
        process.stdin.flush()
        assert (await until_reported(9)).values == {**first.values, "iteration": 9}
        assert await asyncio.to_thread(process.wait, 30) == 0
    finally:
        listening.close()
        server.close()
