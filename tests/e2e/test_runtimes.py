"""Each runtime by its real program on real pods, and the commands of DI-engine's pages as they are printed there."""

import re

import pytest
import yaml
from jobs import EXAMPLES, REAL, REAL_SECONDS, config_map, job, mounted, program, shell, succeeded
from space import Space, measured

pytestmark = pytest.mark.e2e

# torch alone takes a second or two to import, DI-engine many.
TORCH_SECONDS = 240


# --- torch ---------------------------------------------------------------------------------------------------------


def test_torchrun_without_a_flag_sums_the_collectors_statistics(space: Space) -> None:
    succeeded(space, "torch.yaml", "ddp")
    first, second = space.logs("ddp-0"), space.logs("ddp-1")
    assert "collected 10 episodes, 100 steps, world size 4" in first
    assert "collected" not in second
    heard = re.findall(r"rank (\d) \(local rank (\d) of (\d)\) heard 10 episodes", first + second)
    assert sorted(heard) == [("0", "0", "0"), ("1", "1", "0"), ("2", "0", "1"), ("3", "1", "1")]


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
    before = space.uids("group")
    space.kubectl("delete", "pod", "group-1", "--wait=false")
    waited = space.until_true("group", "Succeeded", TORCH_SECONDS)
    measured("seconds from the loss of a pod of torchrun's until its group has finished anew", f"{waited:.0f}")
    status = space.status("group")
    assert (status["epoch"], status["renewals"], status.get("restarts", 0)) == (2, 1, 0)
    assert "epoch 2 step 10 ranks 2" in space.logs("group-0")
    assert not before & space.uids("group"), "in new pods: no rendezvous meets an old process"


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
    # Its kubelet may have started it again before the pod was ended.
    logs = space.all_logs("pong-0") + space.all_logs("pong-1")
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


def until_logged(space: Space, pod: str) -> None:
    """Until the program has printed something: a container runs before its program does."""
    space.until(f"{pod} says something", lambda: "" if space.logs(pod) else "not yet", 60)


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
    for rank in range(2):
        until_logged(space, f"srun-{rank}")
        said = space.logs(f"srun-{rank}").split()[:7]
        assert said == [str(rank), "0", "2", "2", "srun-[0-1]", f"srun-{rank}", "srun-0"]
    space.kubectl("scale", "dijob/srun", "--replicas=3")
    until_logged(space, "srun-2")
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
