"""Each runtime by its real program on real pods, and the commands of DI-engine's pages as they are printed there."""

import re
import shlex
from collections.abc import Callable

import pytest
import yaml
from archives import ROOT
from jobs import DITASK, LIGHT, REAL_SECONDS, config_map, job, mounted, shell
from space import Body, Space, measured

pytestmark = pytest.mark.e2e

EXAMPLES = ROOT / "examples"
# torch alone takes a second or two to import, DI-engine many.
TORCH_SECONDS = 240
REAL: Body = {
    "image": DITASK,
    "env": [{"name": "PYTHONUNBUFFERED", "value": "1"}, {"name": "OMP_NUM_THREADS", "value": "1"}],
}


def program(name: str, command: list[str], text: str, **spec: object) -> list[Body]:
    """A job of the ditask image that runs /code/main.py, and the ConfigMap with it."""
    mount, volume = mounted(f"{name}-code", "/code")
    main = {**REAL, "command": command, "workingDir": "/code", **mount}
    return [config_map(f"{name}-code", main_py=text), job(name, main, pod=volume, **spec)]


def succeeded(space: Space, file: str, name: str) -> None:
    """Apply an example, and wait for its end."""
    space.kubectl("apply", "-f", str(EXAMPLES / file))
    waited = space.until_true(name, "Succeeded", REAL_SECONDS)
    measured(f"seconds until {file} has Succeeded", f"{waited:.0f}")
    assert space.status(name).get("restarts", 0) == 0


# --- torch ---------------------------------------------------------------------------------------------------------


def test_torchrun_without_a_flag_sums_the_collectors_statistics(space: Space) -> None:
    succeeded(space, "torch.yaml", "ddp")
    first, second = space.logs("ddp-0"), space.logs("ddp-1")
    assert "collected 10 episodes, 100 steps, world size 4" in first
    assert "collected" not in second
    heard = re.findall(r"rank (\d) \(local rank (\d) of (\d)\) heard 10 episodes", first + second)
    assert sorted(heard) == [("0", "0", "0"), ("1", "1", "0"), ("2", "0", "1"), ("3", "1", "1")]


def uids(space: Space, name: str) -> set[str]:
    return {pod["metadata"]["uid"] for pod in space.pods(name)}


LOOP = """
import os
import torch
import torch.distributed as dist

dist.init_process_group("gloo")
steps = 0
while steps < 10 or os.environ["DI_EPOCH"] == "1":
    one = torch.ones(1)
    dist.all_reduce(one)
    steps += 1
    if dist.get_rank() == 0 and steps in (1, 10):
        print("epoch", os.environ["DI_EPOCH"], "step", steps, "ranks", int(one.item()))
"""


def test_a_lost_pod_restarts_the_group(space: Space) -> None:
    """The others hang in their allreduce, or fail in it: either way all begin anew together, and nothing is charged."""
    space.apply(*program("group", ["torchrun", "main.py"], LOOP, runtime="torch"))
    space.until(
        "it computes", lambda: "" if "epoch 1 step 1 ranks 2" in space.logs("group-0") else "not yet", TORCH_SECONDS
    )
    before = uids(space, "group")
    space.kubectl("delete", "pod", "group-1", "--wait=false")
    waited = space.until_true("group", "Succeeded", TORCH_SECONDS)
    measured("seconds from the loss of a pod of torchrun's until its group has finished anew", f"{waited:.0f}")
    status = space.status("group")
    assert (status["epoch"], status["renewals"], status.get("restarts", 0)) == (2, 1, 0)
    assert "epoch 2 step 10 ranks 2" in space.logs("group-0")
    assert not before & uids(space, "group"), "in new pods: no rendezvous meets an old process"


def test_a_crash_restarts_the_group_and_is_charged_once(space: Space) -> None:
    crash = LOOP.replace("steps += 1", "steps += 1\n    if steps == 50 and dist.get_rank() == 1: raise SystemExit(3)")
    space.apply(*program("crash", ["torchrun", "main.py"], crash, runtime="torch"))
    space.until_true("crash", "Succeeded", TORCH_SECONDS)
    status = space.status("crash")
    assert (status["epoch"], status["renewals"], status["restarts"]) == (2, 1, 1)
    assert status["lastRenewal"]["message"].endswith("and runtime: torch says RestartJob")


def test_the_command_of_the_ddp_page_runs_until_it_asks_for_cuda(space: Space) -> None:
    """DI-engine's DDPContext is NCCL's alone; there is no GPU here, so the rest of the page is not exercised."""
    printed = "python -m torch.distributed.launch --nproc_per_node=2 --master_port=29501"
    page = f"{printed} ./dizoo/atari/config/serial/pong/pong_dqn_ddp_config.py"
    made = job("pong", {**REAL, "command": ["/bin/bash", "-c", f"cd /usr/local/lib/python3.11/dist-packages; {page}"]})
    made["spec"] |= {"runtime": "torch", "parallelWorkers": 2, "backoffLimit": 0}
    space.apply(made)
    space.until_true("pong", "Failed", REAL_SECONDS)
    logs = space.logs("pong-0") + space.logs("pong-1")
    assert "DDPContext" in logs
    assert "NCCL" in logs
    assert "RANK expected, but not set" not in logs


def test_a_rendezvous_that_never_comes_about_ends_with_the_rank_that_did_not_come(space: Space) -> None:
    """DI-engine's own patience with it is 60,000 s."""
    wait = 'import torch.distributed as dist; dist.init_process_group("gloo"); print("met")'
    made = job("alone", {**REAL, "command": ["python3", "-c", wait]})
    template = made["spec"].pop("template")
    made["spec"].pop("replicas")
    absent = {"spec": {"containers": [{"name": "di-container", "image": "127.0.0.1:9/absent:1", "command": ["true"]}]}}
    made["spec"] |= {
        "runtime": "torch",
        "startupDeadlineSeconds": 40,
        "tasks": [{"type": "learner", "template": template}, {"type": "collector", "template": absent}],
    }
    space.apply(made)
    space.until_true("alone", "Failed", 90)
    failed = space.condition("alone", "Failed")
    assert failed["reason"] == "StartupDeadlineExceeded"
    assert "rank 1" in failed["message"]
    assert "127.0.0.1:9/absent:1" in failed["message"]


# --- slurm ---------------------------------------------------------------------------------------------------------


def test_ditask_for_slurm_runs_unchanged(space: Space) -> None:
    succeeded(space, "slurm.yaml", "cluster")
    for rank in range(3):
        said = re.findall(
            r"node (\d) of 6 heard nodes \[(.*)\]; task (\d) of 3 on (\S+)", space.logs(f"cluster-{rank}")
        )
        assert len(said) == 2, space.logs(f"cluster-{rank}")
        for node, heard, task, host in said:
            assert heard == ", ".join(str(other) for other in range(6) if other != int(node))
            assert (int(node) // 2, task, host) == (rank, str(rank), f"cluster-{rank}")


SPEC = '{"tasks": [{"node_ids": 0, "ports": 16001}, {"node_ids": 1, "attach_to": "$node.0"}]}'


def test_a_platform_spec_names_its_peers_by_their_nodes(space: Space) -> None:
    """`$node.0` is resolved by DI-engine's own parser (ding 0.5.3, slurm_parser.py), to the task's name and port."""
    (_, hello) = yaml.safe_load_all((EXAMPLES / "slurm.yaml").read_text())
    text = hello["data"]["hello.py"].replace("* 2  # --parallel-workers 2", "")
    mount, volume = mounted("spec-code", "/code/hello")
    flags = ["--platform", "slurm", "--platform-spec", SPEC]
    command = ["ditask", "--package", "hello", "--main", "hello.main", *flags]
    main = {**REAL, "command": command, "workingDir": "/code", **mount}
    space.apply(config_map("spec-code", hello_py=text), job("spec", main, pod=volume, runtime="slurm"))
    space.until_true("spec", "Succeeded", REAL_SECONDS)
    assert "node 0 of 2 heard nodes [1]; task 0 of 2 on spec-0" in space.logs("spec-0")
    assert "node 1 of 2 heard nodes [0]; task 1 of 2 on spec-1" in space.logs("spec-1")


SRUN = """
set -e
first=${SLURM_NODELIST%%[*}0
getent hosts "$first" >/dev/null
number=$((SLURM_JOB_ID))
echo "$SLURM_PROCID $SLURM_LOCALID $SLURM_NTASKS $SLURM_NNODES $SLURM_NODELIST $SLURMD_NODENAME $first $number"
"""


def test_a_script_that_was_written_for_srun(space: Space) -> None:
    """Also after it has grown, by names that have no dot in them."""
    space.apply(shell("srun", SRUN + "exec sleep 3600", runtime="slurm", maxReplicas=3, minReplicas=2, replicas=2))
    space.until_true("srun", "PeersReady")
    assert [space.logs(f"srun-{rank}").split()[:7] for rank in range(2)] == [
        [str(rank), "0", "2", "2", "srun-[0-1]", f"srun-{rank}", "srun-0"] for rank in range(2)
    ]
    space.kubectl("scale", "dijob/srun", "--replicas=3")
    space.until("rank 2 has begun", lambda: "" if space.logs("srun-2") else "not yet", 60)
    assert space.logs("srun-2").split()[:7] == ["2", "0", "3", "3", "srun-[0-2]", "srun-2", "srun-0"]


# --- a script of one's own, and OneFlow ------------------------------------------------------------------------------


def test_a_script_asks_for_its_arguments_in_a_job_and_on_one_machine(space: Space) -> None:
    succeeded(space, "runner.yaml", "script")
    assert "Get msg: Hi, from nodes [1, 2, 3]" in space.logs("script-0")
    template = space.job("script")["spec"]["template"]["spec"]
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "machine"},
        "spec": {**template, "restartPolicy": "Never"},
    }
    space.apply(pod)
    said = "Get msg: Hi, from nodes [1]\n"
    space.until("the pod's processes meet", lambda: "" if said in space.logs("machine") else "not yet", REAL_SECONDS)


def test_the_machines_of_oneflow_meet_on_its_control_port(space: Space) -> None:
    succeeded(space, "oneflow.yaml", "flow")
    assert "master: machines [0, 1, 2] are here" in space.logs("flow-0")
    assert "machine 2 has met the master" in space.logs("flow-2")


# --- torchrpc ------------------------------------------------------------------------------------------------------


def test_a_learner_and_its_collectors_over_torchrpc(space: Space) -> None:
    succeeded(space, "torchrpc.yaml", "rpc")
    assert "5 versions of 4 MB sent, episodes of version 5 from nodes [1, 2]" in space.logs("rpc-learner-0")


# As they are printed on the page.
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
    """The collector's as it is printed, the learner's with :cpu for :cuda: there is no GPU here."""
    code = """
import time
from ding.framework import task
from ding.framework.context import OnlineRLContext

def main():
    with task.start(async_mode=False, ctx=OnlineRLContext()):
        heard, me = set(), task.router.node_id
        task.on("here", heard.add)
        for _ in range(600):
            task.emit("here", me)
            time.sleep(0.2)
            if heard == {0, 1}:
                break
        for _ in range(10):
            task.emit("here", me)
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
        (["/bin/bash", "-c", PRINTED["learner"]], "torchrpc:cuda asks for GPUs, and this process sees none"),
        (
            ["ditask", "--main", "main.main", "--mq_type", "torchrpc:cpu", "--cuda-device-map", "1-0-0"],
            "'1-0-0' is not <peer node id>_<local gpu>_<peer gpu>",
        ),
    ],
    ids=["no GPU", "device map"],
)
def test_what_torchrpc_cannot_do_stands_in_the_status(space: Space, command: list[str], words: str) -> None:
    code, made = program("refused", command, "def main(): pass", backoffLimit=0, replicas=2)
    code["data"]["atari_dqn_dist_rdma.py"] = code["data"]["main.py"]
    space.apply(made, code)
    space.until_true("refused", "Failed", REAL_SECONDS)
    assert words in space.status("refused")["firstFailure"]["message"]


def test_an_image_without_dijob_runtime_is_told_what_it_lacks(space: Space) -> None:
    """The ditask of the light image is a script of ours that stands for any image's."""
    code = "#!/usr/bin/env python3\nprint('never')\n"
    mount, volume = mounted("bare-code", "/code")
    path = {"name": "PATH", "value": "/code:/usr/local/bin:/usr/bin:/bin"}
    main = {"image": LIGHT, "command": ["ditask", "--main", "a.b"], "env": [path], **mount}
    queue = {"type": "torchrpc:cpu"}
    space.apply(config_map("bare-code", ditask=code), job("bare", main, pod=volume, messageQueue=queue, backoffLimit=0))
    space.until_true("bare", "Failed", 90)
    assert "needs dijob-runtime in this image" in space.status("bare")["firstFailure"]["message"]


# --- redis ---------------------------------------------------------------------------------------------------------


def redis(*flags: str) -> list[Body]:
    """Debian's Redis server in a pod of its own, by the name of a Service."""
    command = ["redis-server", "--protected-mode", "no", "--save", "", "--appendonly", "no", *flags]
    container = {"name": "redis", "image": LIGHT, "imagePullPolicy": "IfNotPresent", "command": command}
    meta = {"name": "redis", "labels": {"app": "redis"}}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": {"containers": [container]}}
    ports = {"selector": {"app": "redis"}, "ports": [{"port": 6379}]}
    return [pod, {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "redis"}, "spec": ports}]


def test_ditask_over_redis_with_distinct_node_ids(space: Space) -> None:
    """The example of the star, whose result needs every rank, without a word about redis in its command."""
    made, code = yaml.safe_load_all((EXAMPLES / "star.yaml").read_text())
    # Redis knows no topology: the workers hear of each other too.
    made["spec"] |= {"replicas": 3, "messageQueue": {"type": "redis", "host": "redis"}}
    space.apply(*redis(), made, code)
    space.until_true("star", "Succeeded", REAL_SECONDS)
    assert "pi is 3.14159, from nodes [1, 2]" in space.logs("star-0")
    assert space.status("star").get("restarts", 0) == 0


def test_the_operator_runs_a_redis_server_for_the_job(space: Space) -> None:
    """It is there before anybody begins, for this job's ranks alone, and ends with the job."""
    space.kubectl("apply", "-f", str(EXAMPLES / "redis.yaml"))
    space.until_true("redis", "Running", REAL_SECONDS)
    assert space.condition("redis", "BrokerReady")["status"] == "True"
    objects = space.kubectl("get", "pod/redis-mq", "service/redis-mq", "networkpolicy/redis-mq", "-o", "name")
    assert len(objects.split()) == 3
    assert space.status("redis")["replicas"] == 3
    space.until_true("redis", "Succeeded", REAL_SECONDS)
    for rank in range(3):
        said = re.findall(r"node (\d) has heard of nodes (\[.*\])", space.logs(f"redis-{rank}"))
        assert sorted(said) == [(str(n), str([m for m in range(6) if m != n])) for n in (2 * rank, 2 * rank + 1)]
    space.until_gone("redis-mq", lambda: [name for name in space.children() if name == "pod/redis-mq"], 20)


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
    """Three ranks that say whether they hear each other."""
    command = ["ditask", "--package", "/code", "--main", "main.main"]
    return program("ticks", command, TICKS, replicas=3, messageQueue={"type": "redis", **queue})


def said(space: Space, word: str, *, after: str = "") -> Callable[[], str]:
    """Why not all of them have said one word yet (the last time `after` another)."""

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
        space.execute(f"ticks-{rank}", "touch", "/tmp/enough")
    space.until_true("ticks", "Succeeded", 60)


def test_a_redis_server_of_the_jobs_own_is_made_anew_and_all_begin_anew_in_their_pods(space: Space) -> None:
    """A connection to one that is gone can take TCP minutes to give up, or for ever."""
    space.apply(*ticks())
    space.until("all hear each other", hear_each_other(space), REAL_SECONDS)
    before = uids(space, "ticks")
    space.kubectl("delete", "pod", "ticks-mq", "--wait=false")
    space.until("the loss is told", lambda: "" if space.status("ticks").get("renewals") else "not yet", 60)
    assert space.status("ticks")["lastRenewal"]["reason"] == "BrokerLost"
    waited = space.until_true("ticks", "PeersReady", REAL_SECONDS)
    waited += space.until("all hear each other again", hear_each_other(space), REAL_SECONDS)
    measured("seconds from the loss of a Redis server of the job's own until all hear each other", f"{waited:.0f}")
    status = space.status("ticks")
    assert (status["epoch"], status["renewals"], status.get("restarts", 0)) == (2, 1, 0)
    assert uids(space, "ticks") == before
    end(space)


def test_ranks_hear_again_when_somebodys_redis_server_was_away(space: Space) -> None:
    """For longer than redis-py tries again: within its patience DI-engine does not even notice."""
    server, service = redis()
    main = server["spec"]["containers"][0]
    away = "while [ -e /tmp/away ]; do sleep 0.2; done"
    main["command"] = ["/bin/bash", "-c", f"while :; do {shlex.join(main['command'])}; {away}; done"]
    space.apply(server, service, *ticks(host="redis"))
    space.until("all hear each other", hear_each_other(space), REAL_SECONDS)
    before = uids(space, "ticks")
    space.kubectl("exec", "redis", "--", "sh", "-c", "touch /tmp/away; redis-cli shutdown nosave")
    space.until("DI-engine has noticed everywhere", said(space, "Meet exception when listening"), 60)
    space.until("nobody hears anybody", hear_nobody(space), 60)
    space.kubectl("exec", "redis", "--", "rm", "/tmp/away")
    space.until("all hear each other again", hear_each_other(space), 60)
    assert uids(space, "ticks") == before
    assert space.status("ticks").get("restarts", 0) == 0
    end(space)


@pytest.mark.parametrize(
    ("flags", "host", "words"),
    [
        ((), "absent", "cannot reach redis (absent: "),
        (("--requirepass", "secret"), "redis", "(redis: it asks for a password, which DI-engine does not know)"),
        (("--port", "7000"), "redis", "(redis: Connection refused)"),
    ],
    ids=["no such name", "a password", "refuses"],
)
def test_a_redis_server_that_does_not_serve_is_named_in_the_status(
    space: Space, flags: tuple[str, ...], host: str, words: str
) -> None:
    env = [*REAL["env"], {"name": "DIJOB_REACH_SECONDS", "value": "5"}]
    main = {**REAL, "env": env, "command": ["ditask", "--package", "x", "--main", "x.main"]}
    space.apply(*redis(*flags), job("lost", main, messageQueue={"type": "redis", "host": host}, backoffLimit=0))
    space.until_true("lost", "Failed", 90)
    assert words in space.status("lost")["firstFailure"]["message"]
