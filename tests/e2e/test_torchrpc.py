"""torchrpc as the message queue, with the commands of DI-engine's page, and the status of jobs for
which torchrpc cannot work.
"""

import pytest
from jobs import LIGHT, REAL, REAL_SECONDS, config_map, job, mounted, program, succeeded
from space import Space

pytestmark = pytest.mark.e2e


def test_a_learner_and_its_collectors_over_torchrpc(space: Space) -> None:
    succeeded(space, "torchrpc.yaml", "rpc")
    assert "5 versions of 4 MB sent, episodes of version 5 from nodes [1, 2]" in space.logs(
        "rpc-learner-0"
    )
    assert "Traceback" not in "".join(space.logs(pod) for pod in space.names("rpc"))


# The commands as printed on the page.
PRINTED = {
    "learner": """
    export INIT_METHOD="tcp://XX.XX.XX.XX:12345"
    ditask --package . \\
        --main atari_dqn_dist_rdma.main \\
        --parallel-workers 1 \\
        --labels learner \\
        --mq-type torchrpc:cuda \\
        --init-method=${INIT_METHOD} \\
        --cuda-device-map 1_0_0 \\
        --node-ids 0
""",
    "collector": """
    export INIT_METHOD="tcp://XX.XX.XX.XX:12345"
    ditask --package . \\
        --main atari_dqn_dist_rdma.main \\
        --parallel-workers 1 \\
        --labels collector \\
        --mq-type torchrpc \\
        --init-method=${INIT_METHOD} \\
        --global_rank 1 \\
        --attach-to 0_0_0 \\
        --node-ids 1
""",
}


def test_the_commands_of_the_torchrpc_page(space: Space) -> None:
    """The learner's command has :cpu instead of :cuda, because there is no GPU here."""
    code = """
import time
from ding.framework import task
from ding.framework.context import OnlineRLContext

def main():
    with task.start(async_mode=False, ctx=OnlineRLContext()):
        heard, done, me = set(), set(), task.router.node_id
        task.on("here", heard.add)
        task.on("done", done.add)
        for _ in range(600):
            task.emit("here", me)
            if heard == {0, 1}:
                task.emit("done", me)
            time.sleep(0.2)
            if done == {0, 1}:  # no process leaves before the other one has heard it
                break
        for _ in range(10):
            task.emit("done", me)
            time.sleep(0.2)
        print("node", me, "of", sorted(task.router.labels), "has heard", sorted(heard))
"""
    mount, volume = mounted("page-code", "/code")
    made, tasks = job("page", {}, backoffLimit=0), []
    for kind, printed in PRINTED.items():
        command = ["/bin/bash", "-c", printed.replace("torchrpc:cuda", "torchrpc:cpu")]
        main = {**REAL, "command": command, "workingDir": "/code", **mount}
        tasks.append({"type": kind, "template": job("", main, pod=volume)["spec"]["template"]})
    made["spec"] = {"tasks": tasks, "backoffLimit": 0}
    space.apply(config_map("page-code", atari_dqn_dist_rdma_py=code), made)
    space.until_true("page", "Succeeded", REAL_SECONDS)
    assert "node 0 of ['learner'] has heard [0, 1]" in space.logs("page-learner-0")
    assert "node 1 of ['collector'] has heard [0, 1]" in space.logs("page-collector-0")


@pytest.mark.parametrize(
    ("command", "words"),
    [
        (
            ["/bin/bash", "-c", PRINTED["learner"]],
            "torchrpc:cuda needs GPUs, but this process has none",
        ),
        (
            [
                "ditask",
                "--main",
                "main.main",
                "--mq_type",
                "torchrpc:cpu",
                "--cuda-device-map",
                "1-0-0",
            ],
            "'1-0-0' is not <peer node id>_<local gpu>_<peer gpu>",
        ),
    ],
    ids=["no GPU", "device map"],
)
def test_the_status_reports_why_torchrpc_cannot_run(
    space: Space, command: list[str], words: str
) -> None:
    code, made = program("refused", command, "def main(): pass", backoffLimit=0, replicas=2)
    code["data"]["atari_dqn_dist_rdma.py"] = code["data"]["main.py"]
    space.apply(made, code)
    space.until_true("refused", "Failed", REAL_SECONDS)
    assert words in space.status("refused")["firstFailure"]["message"]


def test_an_image_without_di_engine_is_reported(space: Space) -> None:
    """The light image's ditask is a script of this project that represents that of any image."""
    code = "#!/usr/bin/env python3\nprint('never')\n"
    mount, volume = mounted("bare-code", "/code")
    path = {"name": "PATH", "value": "/code:/usr/local/bin:/usr/bin:/bin"}
    main = {"image": LIGHT, "command": ["ditask", "--main", "a.b"], "env": [path], **mount}
    queue = {"type": "torchrpc:cpu"}
    space.apply(
        config_map("bare-code", ditask=code),
        job("bare", main, pod=volume, messageQueue=queue, backoffLimit=0),
    )
    space.until_true("bare", "Failed", 90)
    assert (
        "needs DI-engine and torch 1.13 or newer in this image"
        in space.status("bare")["firstFailure"]["message"]
    )
