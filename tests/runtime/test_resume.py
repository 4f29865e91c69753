"""Which folder and which checkpoint a restarted training resumes, with a stand-in for DI-engine.
tests/e2e/test_resume.py runs DI-engine itself.
"""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from dijob_runtime import resume
from dijob_runtime.hook import resume as hook

MOUNTS = """\
1 0 0:1 / / rw - overlay overlay rw
2 1 0:2 / /data rw - nfs server:/share rw
3 1 0:3 / /data/my\\040runs rw - nfs server:/runs rw
"""
ENV = {"DI_JOB_NAMESPACE": "team", "DI_JOB_NAME": "cartpole", "DI_RANK": "0"}


@pytest.mark.parametrize(
    ("folder", "found"),
    [
        ("/home/exp", None),
        ("/database/exp", None),
        ("/data", "/data"),
        ("/data/exp", "/data"),
        ("/data/a/b/exp", "/data"),
        ("/data/my runs/exp", "/data/my runs"),
    ],
)
def test_the_volume_below_which_a_folder_is(folder: str, found: str | None) -> None:
    assert resume.find_mount(Path(folder), MOUNTS) == found


@pytest.mark.skipif(os.geteuid() != 0, reason="mounting needs root")
def test_a_real_mount_is_found(tmp_path: Path) -> None:
    (tmp_path / "my volume").mkdir()
    program = (
        "from dijob_runtime.hook.resume import _find_mount as f;"
        "print(f('my volume/exp') is not None and f('my volume/exp').endswith('/my volume'))"
    )
    script = 'mount -t tmpfs none "my volume" && exec "$@"'
    done = subprocess.run(
        ["unshare", "--mount", "sh", "-ec", script, "sh", sys.executable, "-c", program],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(Path(resume.__file__).parents[1])},
        capture_output=True,
        text=True,
        check=True,
        timeout=30,
    )
    assert done.stdout == "True\n"


CONFIG: dict[str, Any] = {
    "exp_name": "exp",
    "env": {"stop_value": 195, "collector_env_num": 8},
    "policy": {"learn": {"learning_rate": 0.1, "batch_size": 64}, "model": {"hidden": [64]}},
}
CREATE: dict[str, Any] = {"policy": {"type": "ppo"}}


def changed(path: str, value: Any) -> dict[str, Any]:
    """Return CONFIG with another value at a dotted path."""
    config = json.loads(json.dumps(CONFIG))
    *above, last = path.split(".")
    part = config
    for name in above:
        part = part.setdefault(name, {})
    part[last] = value
    return dict(config)


@pytest.mark.parametrize(
    ("config", "seed", "env", "same"),
    [
        (CONFIG, 0, {}, True),
        (changed("env.stop_value", 300), 0, {}, True),
        (changed("policy.learn.batch_size", 32), 0, {}, True),
        (changed("policy.learn.learner.hook.save_ckpt_after_iter", 5), 0, {}, True),
        (changed("policy.learn.learning_rate", 0.2), 0, {}, False),
        (changed("policy.model.hidden", [32]), 0, {}, False),
        (CONFIG, 1, {}, False),
        (CONFIG, 0, {"DI_JOB_NAME": "other"}, False),
        (CONFIG, 0, {"DI_RANK": "1"}, False),
        (CONFIG, 0, {"DI_JOB_ID": "applied-again"}, True),
    ],
    ids=[
        "nothing",
        "length",
        "size of a batch",
        "interval of checkpoints",
        "hyperparameter",
        "network",
        "seed",
        "job",
        "rank",
        "a new job of the same name",
    ],
)
def test_which_changes_make_it_another_run(
    config: Any, seed: int, env: dict[str, str], same: bool
) -> None:
    first = resume.describe_run(CONFIG, CREATE, 0, ENV)
    assert (resume.describe_run(config, CREATE, seed, {**ENV, **env}) == first) is same


def test_the_address_of_a_function_is_not_part_of_the_configuration() -> None:
    runs = [resume.describe_run({"f": lambda: None}, {}, 0, ENV) for _ in range(2)]
    assert runs[0] == runs[1]


@pytest.fixture(autouse=True)
def _fresh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A pod with a volume at the working directory, and a process without locks."""
    pod = tmp_path / "pod"
    pod.mkdir()
    volume = tmp_path / "volume"
    volume.mkdir()
    monkeypatch.chdir(volume)
    monkeypatch.setattr(resume, "FOLDER", pod)
    monkeypatch.setattr(resume, "_locks", {})
    monkeypatch.setattr(hook, "FOLDER", pod)
    monkeypatch.setattr(hook, "_find_mount", lambda _: str(volume))
    monkeypatch.setattr(hook, "_to_load", {})
    monkeypatch.setattr(hook, "_collectors", [])
    for name, value in ENV.items():
        monkeypatch.setenv(name, value)


def with_record(name: str, record: Any) -> None:
    Path(name).mkdir()
    resume.write_record(Path(name), record)


def test_the_newest_folder_of_this_run_is_found() -> None:
    for name, record in {
        "exp": "old",
        "exp_240101_000000": "mine",
        "exp_240102_000000": "mine",
        "exp_240103_000000": "other",
        "exp_240104_backup": "mine",
    }.items():
        with_record(name, record)
    assert resume.find_folder("./exp", "mine", any_record=False) == "./exp_240102_000000"
    assert resume.find_folder("./exp", "none", any_record=False) is None
    assert resume.find_folder("./exp", "none", any_record=True) == "./exp"


def test_a_folder_that_another_process_uses_is_not_resumed(tmp_path: Path) -> None:
    with_record("exp", "mine")
    program = (
        "from dijob_runtime import resume as r; import sys; from pathlib import Path;"
        "r.FOLDER = Path(sys.argv[1]); print(r.lock_folder(Path('exp')), flush=True); input()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program, str(tmp_path / "pod")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(Path(resume.__file__).parents[1])},
        text=True,
    ) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "True\n"
        assert resume.find_folder("exp", "mine", any_record=False) is None
        other.kill()
        other.wait()
    assert resume.find_folder("exp", "mine", any_record=False) == "exp"
    assert resume.find_folder("exp", "mine", any_record=False) is None  # this process uses it


def test_a_broken_record_in_a_folder_beside_it_is_ignored() -> None:
    with_record("exp", "mine")
    for number, text in enumerate(["", "[" * 100_000, "\\udc00", "[]"]):
        folder = Path(f"exp_24010{number}_000000")
        folder.mkdir()
        (folder / resume.RECORD).write_text(text)
    assert resume.find_folder("exp", "mine", any_record=False) == "exp"


def test_a_full_volume_does_not_destroy_the_record_of_a_folder() -> None:
    """A training that fills its volume restarts, and resumes its folder."""
    with_record("exp", "mine")
    program = (
        "import resource, sys; from pathlib import Path; from dijob_runtime import resume;"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0));"
        "resume.write_record(Path('exp'), sys.argv[1])"
    )
    for record in ("mine", "other"):
        subprocess.run(
            [sys.executable, "-c", program, record],
            env={**os.environ, "PYTHONPATH": str(Path(resume.__file__).parents[1])},
            capture_output=True,
            check=False,
            timeout=30,
        )
        assert resume.read_record(Path("exp")) == "mine"
    assert [path.name for path in Path("exp").iterdir()] == [resume.RECORD]


class Collector:
    """DI-engine's collector, which has counted no steps."""

    def __init__(self, exp_name: str) -> None:
        self._exp_name, self._total_envstep_count = exp_name, 0


class Learner:
    """DI-engine's learner, with the hook that loads a checkpoint (ding 0.5.3, learner_hook.py)."""

    rank = train_iter = collector_envstep = 0

    def __init__(self, config: Any) -> None:
        self.exp_name = config.exp_name
        self._path = config.policy.learn.learner.hook.load_ckpt_before_run

    def call_hook(self, name: str) -> None:
        if name == "before_run" and self._path:
            loaded = read_file(self._path)
            self.train_iter, self.collector_envstep = loaded["last_iter"], loaded["last_step"]


def read_file(path: str) -> Any:
    return json.loads(Path(path).read_text())


def compile_config(
    cfg: Any,
    seed: int = 0,
    create_cfg: Any = None,
    save_cfg: bool = True,
    renew_dir: bool = True,
) -> Any:
    """DI-engine's function without its defaults (ding 0.5.3, ding/config/config.py)."""
    name = cfg["exp_name"]
    if os.path.exists(name) and renew_dir:
        name += "_240101_000000"
    os.makedirs(name, exist_ok=True)
    given = cfg["policy"]["learn"].get("learner", {}).get("hook", {})
    loaded = SimpleNamespace(load_ckpt_before_run=given.get("load_ckpt_before_run", ""))
    learn = SimpleNamespace(learner=SimpleNamespace(hook=loaded))
    return SimpleNamespace(exp_name=name, policy=SimpleNamespace(learn=learn))


PIPELINE = """
def pipeline(config, create, **more):
    made = compile_config(config, create_cfg=create, **more)
    learner = BaseLearner(made)
    collector = ISerialCollector(made.exp_name)
    learner.call_hook("before_run")
    return learner, collector
"""


def engine(
    monkeypatch: pytest.MonkeyPatch,
    caller: str = "ding.entry.serial_entry",
    compiles: Callable[..., Any] = compile_config,
) -> Any:
    """Return a patched DI-engine's pipeline in a module of the given name."""
    known: Any = ModuleType("ding.config.config")
    known.compile_config = compiles
    known.BaseLearner = type("BaseLearner", (Learner,), {})
    collector = type("ISerialCollector", (Collector,), {})
    utils = SimpleNamespace(read_file=read_file, get_rank=lambda: 0, get_world_size=lambda: 1)
    monkeypatch.setitem(sys.modules, "ding.utils", utils)
    worker: Any = ModuleType("ding.worker")
    worker.ISerialCollector = collector
    monkeypatch.setitem(sys.modules, "ding.worker", worker)
    hook.patch(known)
    names = {**vars(known), "ISerialCollector": collector, "__name__": caller}
    exec(PIPELINE, names)
    return names["pipeline"]


def save(name: str, iteration: int, text: str | None = None) -> None:
    """Write a checkpoint, the newest one so far."""
    folder = Path("exp/ckpt")
    folder.mkdir(exist_ok=True)
    path = folder / name
    path.write_text(text or json.dumps({"last_iter": iteration, "last_step": iteration * 10}))
    os.utime(path, ns=(iteration, iteration))


def restart(monkeypatch: pytest.MonkeyPatch) -> None:
    """End the process: its locks are gone."""
    for descriptor in resume._locks.values():
        os.close(descriptor)
    monkeypatch.setattr(resume, "_locks", {})


def test_a_restarted_training_resumes_at_its_newest_complete_checkpoint(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    learner, _ = engine(monkeypatch)(changed("exp_name", "exp"), CREATE)
    assert (learner.exp_name, learner.train_iter) == ("exp", 0)
    save("iteration_100.pth.tar", 100)
    save("ckpt_best.pth.tar", 200)
    save("iteration_300.pth.tar", 300, '{"last_iter": 3')
    restart(monkeypatch)
    learner, collector = engine(monkeypatch)(changed("exp_name", "exp"), CREATE)
    assert (learner.exp_name, learner.train_iter) == ("exp", 200)
    assert collector._total_envstep_count == 2000
    assert capsys.readouterr().err == (
        "dijob: skipped incomplete checkpoints in exp: iteration_300.pth.tar\n"
        "dijob: resumes exp at iteration 200, environment step 2000, from ckpt_best.pth.tar\n"
    )


@pytest.mark.parametrize(
    ("config", "more", "caller", "env"),
    [
        (CONFIG, {}, "ding.entry.serial_entry", {"DIJOB_RESUME": "off"}),
        (CONFIG, {}, "ding.entry.serial_entry", {"DI_RANK": ""}),
        (CONFIG, {}, "__main__", {}),
        (CONFIG, {"seed": 1}, "ding.entry.serial_entry", {}),
        (changed("policy.learn.resume_training", True), {}, "ding.entry.serial_entry", {}),
        (changed("reward_model", {}), {}, "ding.entry.serial_entry_reward_model_onpolicy", {}),
    ],
    ids=["off", "no job", "own loop", "other seed", "user's flag", "reward model"],
)
def test_otherwise_di_engine_creates_a_new_folder(
    config: Any,
    more: Any,
    caller: str,
    env: dict[str, str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    engine(monkeypatch)(changed("exp_name", "exp"), CREATE)
    save("iteration_100.pth.tar", 100)
    restart(monkeypatch)
    for name, value in env.items():
        monkeypatch.setenv(name, value)
    learner, _ = engine(monkeypatch, caller)(config, CREATE, **more)
    assert (learner.exp_name, learner.train_iter) == ("exp_240101_000000", 0)


def test_the_users_checkpoint_is_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    engine(monkeypatch)(changed("exp_name", "exp"), CREATE)
    save("iteration_100.pth.tar", 100)
    restart(monkeypatch)
    save("mine.pth.tar", 7)
    path = "policy.learn.learner.hook.load_ckpt_before_run"
    learner, _ = engine(monkeypatch)(changed(path, "exp/ckpt/mine.pth.tar"), CREATE)
    assert (learner.exp_name, learner.train_iter) == ("exp_240101_000000", 7)


def test_without_a_volume_nothing_is_recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hook, "_find_mount", lambda _: None)
    engine(monkeypatch)(changed("exp_name", "exp"), CREATE)
    assert not Path("exp", resume.RECORD).exists()


def test_a_folder_of_another_job_is_resumed_only_on_request(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("exp").mkdir()
    save("iteration_100.pth.tar", 100)
    learner, _ = engine(monkeypatch)(changed("exp_name", "exp"), CREATE)
    assert learner.exp_name == "exp_240101_000000"
    assert "DIJOB_RESUME=always resumes it" in capsys.readouterr().err
    restart(monkeypatch)
    (Path(learner.exp_name) / resume.RECORD).unlink()
    monkeypatch.setenv("DIJOB_RESUME", "always")
    learner, _ = engine(monkeypatch)(changed("exp_name", "exp"), CREATE)
    assert (learner.exp_name, learner.train_iter) == ("exp", 100)


def test_a_checkpoint_that_does_not_fit_is_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    engine(monkeypatch)(changed("exp_name", "exp"), CREATE)
    save("iteration_1.pth.tar", 1, '{"last_iter": 1}')
    restart(monkeypatch)
    with pytest.raises(KeyError):
        engine(monkeypatch)(changed("exp_name", "exp"), CREATE)
    assert "iteration_1.pth.tar cannot be loaded: remove the folder exp" in capsys.readouterr().err


def test_another_rank_of_a_ddp_training_loads_what_rank_0_has_read(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The other rank has no volume, and its own folder of that name."""
    run = engine(monkeypatch)
    content = json.dumps({"last_iter": 5, "last_step": 50}).encode()

    def broadcast(box: list[Any], source: int) -> None:
        assert (box, source) == ([None], 0)
        box[0] = ("exp_240101_000000", "/elsewhere/iteration_5.pth.tar", content)

    distributed = SimpleNamespace(broadcast_object_list=broadcast)
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(distributed=distributed))
    vars(sys.modules["ding.utils"]).update(get_rank=lambda: 1, get_world_size=lambda: 2)
    monkeypatch.setattr(Learner, "rank", 1)
    learner, _ = run(changed("exp_name", "exp"), CREATE)
    assert (learner.exp_name, learner.train_iter) == ("exp_240101_000000", 5)
    assert not Path(learner.exp_name, resume.RECORD).exists()
    assert capsys.readouterr().err == ""


def test_a_link_to_a_checkpoint_that_is_gone_is_not_a_checkpoint(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    engine(monkeypatch)(changed("exp_name", "exp"), CREATE)
    save("iteration_5.pth.tar", 5)
    Path("exp/ckpt/latest.pth.tar").symlink_to("iteration_9.pth.tar")
    restart(monkeypatch)
    learner, _ = engine(monkeypatch)(changed("exp_name", "exp"), CREATE)
    assert (learner.exp_name, learner.train_iter) == ("exp", 5)


def test_an_unexpected_error_starts_a_new_training(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    engine(monkeypatch)(changed("exp_name", "exp"), CREATE)
    save("iteration_5.pth.tar", 5)
    restart(monkeypatch)

    def stale(*_: Any) -> None:
        raise OSError("Stale file handle")

    monkeypatch.setattr(hook, "find_folder", stale)
    learner, _ = engine(monkeypatch)(changed("exp_name", "exp"), CREATE)
    assert (learner.exp_name, learner.train_iter) == ("exp_240101_000000", 0)
    assert "Stale file handle" in capsys.readouterr().err


def test_an_older_di_engine_is_left_alone(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Until 0.4.5, compile_config cannot keep a folder."""

    def old(cfg: Any, seed: int = 0, create_cfg: Any = None, save_cfg: bool = True) -> Any:
        return compile_config(cfg, seed, create_cfg, save_cfg)

    engine(monkeypatch, compiles=old)(changed("exp_name", "exp"), CREATE)
    assert "cannot resume with this version of DI-engine" in capsys.readouterr().err
