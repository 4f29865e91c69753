"""DI-engine's own pipelines resume from the newest complete checkpoint on a volume."""

import re
from pathlib import Path

import pytest
import yaml
from identity import kill_program
from jobs import EXAMPLES, REAL_SECONDS
from space import Body, Space
from volumes import volume

pytestmark = pytest.mark.e2e

RESUMES = re.compile(r"dijob: resumes (\S+) at iteration (\d+), environment step (\d+), from")
SAVED = re.compile(r"iteration_(\d+)\.pth\.tar")
PPO = "cartpole_ppo_seed0"
DDP = "cartpole-ddp"
SETTINGS = """\
    main_config.exp_name = "ddp"
    main_config.policy.learn.learner = {"hook": {"save_ckpt_after_iter": 20}}
    main_config.env.stop_value = 1000
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
        assert until_progress(space, "resume", iteration)["envStep"] >= step
        # The pod must have ended before its newest checkpoint is known.
        space.kubectl("delete", "-f", str(job), "--cascade=foreground", timeout=REAL_SECONDS)
        last, path = newest(out / PPO)
        path.write_bytes(path.read_bytes()[:1000])
        (out / PPO / "ckpt/ckpt_best.pth.tar").unlink()
        space.kubectl("apply", "-f", str(job))
        again, _ = until_resumed(space, "resume-0")
        assert iteration < later - 20 <= again < last
        assert f"skipped incomplete checkpoints in {PPO}: {path.name}" in space.logs("resume-0")
        space.kubectl("delete", "-f", str(job))
    assert [each.name for each in out.iterdir()] == [PPO]


def until_progress(space: Space, name: str, iteration: int) -> Body:
    """Wait until the status has this iteration or a later one. Return its progress."""

    def problem() -> str:
        known = space.status(name).get("progress", {})
        return "" if known.get("iteration", -1) >= iteration else f"{known}"

    space.until(f"{name} reports iteration {iteration}", problem, REAL_SECONDS)
    known: Body = space.status(name)["progress"]
    return known


def ddp_with_volume() -> list[Body]:
    """Return the DDP example with its experiment on a volume. It never reaches its target."""
    job, code = yaml.safe_load_all((EXAMPLES / f"{DDP}.yaml").read_text())
    volumes = job["spec"]["template"]["spec"]["volumes"]
    assert volumes[-1].pop("emptyDir") == {}
    volumes[-1]["persistentVolumeClaim"] = {"claimName": "cartpole"}
    with_context = "    with DDPContext():"
    assert code["data"]["train.py"].count(with_context) == 1
    code["data"]["train.py"] = code["data"]["train.py"].replace(
        with_context, SETTINGS + with_context
    )
    return [job, code]


def test_dqn_with_ddp_reports_progress_and_resumes_on_all_ranks(
    space: Space, tmp_path: Path
) -> None:
    """Both pods are replaced (a gang restart). Only rank 0 reads the checkpoint."""
    out = tmp_path / "out"
    with volume(space, "cartpole", out):
        space.kubectl("apply", "-f", str(EXAMPLES / "volume.yaml"))
        space.apply(*ddp_with_volume())
        saved = until_saved(space, out / "ddp", 20)
        assert until_progress(space, DDP, saved)["envStep"] > 0
        kill_program(space, f"{DDP}-0")
        iteration, _ = until_resumed(space, f"{DDP}-0")
        assert iteration >= saved
        until_saved(space, out / "ddp", iteration + 20)
    assert [each.name for each in out.iterdir()] == ["ddp"]
