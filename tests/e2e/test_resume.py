"""DI-engine's own pipelines resume from the newest complete checkpoint on a volume."""

import re
from pathlib import Path

import pytest
from identity import kill_program
from jobs import EXAMPLES, REAL_SECONDS, program
from space import Space
from volumes import volume

pytestmark = pytest.mark.e2e

RESUMES = re.compile(r"dijob: resumes (\S+) at iteration (\d+), environment step (\d+), from")
SAVED = re.compile(r"iteration_(\d+)\.pth\.tar")
PPO = "cartpole_ppo_seed0"
# DI-engine's own DQN with DDP. DI-engine 0.5.3 needs a GPU for it. The first lines make it run on a
# CPU.
DDP = """
import torch

torch.cuda.synchronize, torch.Tensor.cuda = lambda: None, lambda tensor: tensor
from ding.worker.learner.learner_hook import LogReduceHook

LogReduceHook.__call__ = lambda *_: None
from dizoo.classic_control.cartpole.config.cartpole_dqn_ddp_config import create_config, main_config
from ding.entry import serial_pipeline
from ding.utils import to_ddp_config

main_config.exp_name = "ddp"
main_config.policy.cuda = False
create_config.env_manager.type = "base"
main_config.policy.learn.learner = {"hook": {"save_ckpt_after_iter": 20}}
main_config.env.stop_value = 1000
torch.distributed.init_process_group("gloo")
serial_pipeline((to_ddp_config(main_config), create_config), seed=0)
"""


def newest(experiment: Path) -> tuple[int, Path]:
    """Return the highest iteration of the saved checkpoints, and its file; -1 without any."""
    found = [
        (int(match[1]), path)
        for path in experiment.glob("ckpt/*")
        if (match := SAVED.fullmatch(path.name))
    ]
    return max(found, default=(-1, experiment))


def until_saved(space: Space, experiment: Path, iteration: int) -> int:
    """Wait for a checkpoint of this iteration or a later one. Return its iteration."""

    def problem() -> str:
        saved, _ = newest(experiment)
        return "" if saved >= iteration else f"saved iteration {saved}"

    space.until(f"iteration {iteration} is saved", problem, REAL_SECONDS)
    return newest(experiment)[0]


def until_resumed(space: Space, pod: str) -> tuple[int, int]:
    """Wait until a rank resumes. Return its iteration and environment step."""

    def problem() -> str:
        log = space.logs(pod)
        return "" if RESUMES.search(log) else f"it has not resumed: {log[-300:]}"

    space.until(f"{pod} resumes", problem, REAL_SECONDS)
    found = RESUMES.search(space.logs(pod))
    assert found is not None
    return int(found[2]), int(found[3])


def test_ppo_resumes_after_a_kill_and_after_delete_and_apply(space: Space, tmp_path: Path) -> None:
    out = tmp_path / "out"
    job = EXAMPLES / "resume.yaml"
    with volume(space, "cartpole", out):
        space.kubectl("apply", "-f", str(EXAMPLES / "volume.yaml"), "-f", str(job))
        saved = until_saved(space, out / PPO, 40)
        kill_program(space, "resume-0")
        iteration, step = until_resumed(space, "resume-0")
        assert iteration >= saved
        assert step > iteration

        later = until_saved(space, out / PPO, iteration + 40)
        # The pod must have ended before its newest checkpoint is known.
        space.kubectl("delete", "-f", str(job), "--cascade=foreground")
        last, path = newest(out / PPO)
        path.write_bytes(path.read_bytes()[:1000])
        (out / PPO / "ckpt/ckpt_best.pth.tar").unlink()
        space.kubectl("apply", "-f", str(job))
        again, _ = until_resumed(space, "resume-0")
        assert iteration < later - 20 <= again < last
        assert f"skipped incomplete checkpoints in {PPO}: {path.name}" in space.logs("resume-0")
        space.kubectl("delete", "-f", str(job))
    assert [each.name for each in out.iterdir()] == [PPO]


def test_dqn_with_ddp_resumes_on_all_ranks(space: Space, tmp_path: Path) -> None:
    """Both pods are replaced (a gang restart). Only rank 0 reads the checkpoint."""
    out = tmp_path / "out"
    *others, job = program("ddp", ["python3", "/code/main.py"], DDP, runtime="torch")
    pod = job["spec"]["template"]["spec"]
    pod["volumes"].append({"name": "out", "persistentVolumeClaim": {"claimName": "cartpole"}})
    pod["containers"][0]["workingDir"] = "/out"
    pod["containers"][0]["volumeMounts"].append({"name": "out", "mountPath": "/out"})
    with volume(space, "cartpole", out):
        space.kubectl("apply", "-f", str(EXAMPLES / "volume.yaml"))
        space.apply(*others, job)
        saved = until_saved(space, out / "ddp", 20)
        kill_program(space, "ddp-0")
        iteration, _ = until_resumed(space, "ddp-0")
        assert iteration >= saved
        until_saved(space, out / "ddp", iteration + 20)
    assert [each.name for each in out.iterdir()] == ["ddp"]
