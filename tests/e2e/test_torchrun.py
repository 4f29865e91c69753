"""runtime: torch with torchrun and similar programs on real pods: gang start and gang restart."""

import re

import pytest
from jobs import REAL, REAL_SECONDS, job, program, succeeded
from space import Space, measured

pytestmark = pytest.mark.e2e

# The import of torch alone takes a second or two, that of DI-engine many.
TORCH_SECONDS = 240


def test_torchrun_without_a_flag_sums_the_collectors_statistics(space: Space) -> None:
    succeeded(space, "torch.yaml", "ddp")
    first, second = space.logs("ddp-0"), space.logs("ddp-1")
    assert "collected 10 episodes, 100 steps, world size 4" in first
    assert "collected" not in second
    said = r"rank (\d) \(local rank (\d) in pod (\d)\): 10 episodes in total"
    heard = re.findall(said, first + second)
    assert sorted(heard) == [("0", "0", "0"), ("1", "1", "0"), ("2", "0", "1"), ("3", "1", "1")]


LEAVE = """
# A rank that leaves while another one is still in its last step aborts the other one.
store = dist.distributed_c10d._get_default_store()
store.set(f"done {dist.get_rank()}", "1")
if dist.get_rank() == 0:
    store.wait([f"done {rank}" for rank in range(dist.get_world_size())])
"""
LOOP = (
    """
import os
import torch
import torch.distributed as dist

dist.init_process_group("gloo")
steps = 0
while steps < 10 or os.environ["DI_LIST_NUMBER"] == "1":
    one = torch.ones(1)
    dist.all_reduce(one)
    steps += 1
    if dist.get_rank() == 0 and steps in (1, 10):
        print("list", os.environ["DI_LIST_NUMBER"], "step", steps, "ranks", int(one.item()))
"""
    + LEAVE
)
# Rank 1 continues when rank 0 has exited, and fails when a file appears.
OUTLIVED = (
    """
import os
import time
import torch
import torch.distributed as dist

dist.init_process_group("gloo")
one = torch.ones(1)
dist.all_reduce(one)
print("list", os.environ["DI_LIST_NUMBER"], "ranks", int(one.item()))
"""
    + LEAVE
    + """
while dist.get_rank() == 1 and os.environ["DI_LIST_NUMBER"] == "1":
    if os.path.exists("/tmp/fail"):
        raise SystemExit(3)
    time.sleep(0.1)
"""
)


def test_a_lost_pod_restarts_the_group(space: Space) -> None:
    """The other ranks hang or fail in their allreduce. In both cases all ranks restart, and no
    failure is counted.
    """
    space.apply(*program("group", ["torchrun", "main.py"], LOOP, runtime="torch"))
    space.until(
        "it computes",
        lambda: "" if "list 1 step 1 ranks 2" in space.logs("group-0") else "not yet",
        TORCH_SECONDS,
    )
    before = space.uids("group")
    space.kubectl("delete", "pod", "group-1", "--wait=false")
    waited = space.until_true("group", "Succeeded", TORCH_SECONDS)
    measured(
        "seconds from the loss of a pod of torchrun's until its group has finished again",
        f"{waited:.0f}",
    )
    status = space.status("group")
    assert (status["listNumber"], status["renewals"], status.get("restarts", 0)) == (2, 1, 0)
    assert "list 2 step 10 ranks 2" in space.logs("group-0")
    assert not before & space.uids("group"), "in new pods: no rendezvous meets an old process"


@pytest.mark.long
def test_a_crash_restarts_the_group_and_counts_once(space: Space) -> None:
    crash = LOOP.replace(
        "steps += 1", "steps += 1\n    if steps == 50 and dist.get_rank() == 1: raise SystemExit(3)"
    )
    space.apply(*program("crash", ["torchrun", "main.py"], crash, runtime="torch"))
    space.until_true("crash", "Succeeded", TORCH_SECONDS)
    status = space.status("crash")
    assert (status["listNumber"], status["renewals"], status["restarts"]) == (2, 1, 1)
    assert status["lastRenewal"]["message"].endswith("and runtime: torch says RestartJob")


def test_a_succeeded_rank_restarts_with_a_rank_that_fails_later(space: Space) -> None:
    """Without torchrun, whose agents wait for each other for 5 minutes before they exit."""
    space.apply(*program("outlived", ["python3", "main.py"], OUTLIVED, runtime="torch"))
    space.until(
        "rank 0 has succeeded",
        lambda: "" if space.status("outlived").get("succeededRanks") == "0" else "not yet",
        TORCH_SECONDS,
    )
    before = space.uids("outlived")
    space.touch("outlived-1", "/tmp/fail")
    waited = space.until_true("outlived", "Succeeded", TORCH_SECONDS)
    measured(
        "seconds from a failure after rank 0's success until both have finished", f"{waited:.0f}"
    )
    status = space.status("outlived")
    assert (status["listNumber"], status["renewals"], status["restarts"]) == (2, 1, 1)
    assert status["lastRenewal"]["message"].endswith(
        "rank 0, which had succeeded, restarts as well"
    )
    assert status["succeededRanks"] == "0-1"
    assert "list 2 ranks 2" in space.logs("outlived-0")
    assert not before & space.uids("outlived"), "in new pods: the finished one is in the way"


@pytest.mark.long
def test_the_command_of_the_ddp_page_joins_its_group_without_a_gpu(space: Space) -> None:
    """The image has no OpenCV, so all four processes join the group over gloo, and then fail."""
    printed = "python -m torch.distributed.launch --nproc_per_node=2 --master_port=29501"
    page = f"{printed} ./dizoo/atari/config/serial/pong/pong_dqn_ddp_config.py"
    main = {
        **REAL,
        "command": ["/bin/bash", "-c", f"cd /usr/local/lib/python3.11/dist-packages; {page}"],
    }
    # The log of a container that restarts is empty.
    made = job("pong", main, pod={"restartPolicy": "Never"})
    made["spec"] |= {"runtime": "torch", "parallelWorkers": 2, "backoffLimit": 0}
    space.apply(made)
    space.until_true("pong", "Failed", REAL_SECONDS)
    # The kubelet may have restarted it before the pod was ended.
    logs = space.all_logs("pong-0") + space.all_logs("pong-1")
    # The pod that has not failed is deleted with its log.
    assert logs.count("dist_init uses gloo instead of nccl") in {2, 4}
    # pong_dqn_ddp_config.py enters DDPContext before it imports the environment.
    assert "No module named 'cv2'" in logs
    assert "RANK expected, but not set" not in logs


@pytest.mark.long
def test_a_rendezvous_that_never_completes_fails_the_missing_rank(
    space: Space,
) -> None:
    """DI-engine's own timeout for it is 60,000 s."""
    wait = 'import torch.distributed as dist; dist.init_process_group("gloo"); print("met")'
    made = job("alone", {**REAL, "command": ["python3", "-c", wait]})
    template = made["spec"].pop("template")
    made["spec"].pop("replicas")
    absent = {
        "spec": {
            "containers": [
                {"name": "di-container", "image": "127.0.0.1:9/absent:1", "command": ["true"]}
            ]
        }
    }
    made["spec"] |= {
        "runtime": "torch",
        "startupDeadlineSeconds": 40,
        "tasks": [
            {"type": "learner", "template": template},
            {"type": "collector", "template": absent},
        ],
    }
    space.apply(made)
    space.until_true("alone", "Failed", 90)
    failed = space.condition("alone", "Failed")
    assert failed["reason"] == "StartupDeadlineExceeded"
    assert "rank 1" in failed["message"]
    assert "127.0.0.1:9/absent:1" in failed["message"]
