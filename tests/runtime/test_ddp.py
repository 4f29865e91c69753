"""The patches of DI-engine's data-parallel functions, on test doubles with their interfaces (ding
0.5.3). tests/e2e/test_local.py tests them with DI-engine and torch.
"""

import sys
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from dijob_runtime import devices
from dijob_runtime.hook import ddp, dist_context, learner_hook, termination_checker


class Numbers(list[float]):
    """A stand-in for a tensor of one number."""

    def item(self) -> float:
        return self[0]


@pytest.fixture(autouse=True)
def torch(monkeypatch: pytest.MonkeyPatch) -> Any:
    """A pod of a job without a GPU, and a stand-in for torch."""
    monkeypatch.setenv("DI_NODES", "10.0.0.1,10.0.0.2")
    monkeypatch.setenv("DI_RANK", "1")
    monkeypatch.setattr(devices, "DEVICE_FILES", ())
    cuda = SimpleNamespace(is_available=lambda: False, current_device=lambda: 3)
    found = SimpleNamespace(cuda=cuda, float64=float, tensor=Numbers)
    found.as_tensor = lambda numbers, dtype: Numbers(map(dtype, numbers))
    monkeypatch.setitem(sys.modules, "torch", found)
    return found


def helper() -> Any:
    """Return ding.utils.pytorch_ddp_dist_helper, which fails without a GPU as the real one does."""
    calls: list[Any] = []

    def dist_init(backend: str = "nccl", addr: Any = None, gpus: int = 0) -> Any:
        calls.append((backend, addr))
        return 1 % gpus, 2

    def reduce_number(x: Any, op: str) -> Any:
        calls.append((type(x), op))
        return x

    module: Any = SimpleNamespace(
        calls=calls,
        dist_init=dist_init,
        allreduce_data=reduce_number,
        reduce_data=reduce_number,
        synchronize=lambda: 1 / 0,
        get_rank=lambda: 1,
        get_world_size=lambda: 2,
    )
    ddp.patch(module)
    return module


def test_dist_init_uses_gloo_without_a_gpu(capsys: pytest.CaptureFixture[str]) -> None:
    module = helper()
    assert module.dist_init() == (1, 2)
    assert module.dist_init(addr="10.0.0.1") == (1, 2)
    assert module.calls == [("gloo", None), ("gloo", "10.0.0.1")]
    assert capsys.readouterr().err.splitlines() == [f"dijob: {ddp.NOTE}"] * 2


def test_the_users_own_gloo_is_used_without_a_message(capsys: pytest.CaptureFixture[str]) -> None:
    assert helper().dist_init("gloo") == (1, 2)
    assert capsys.readouterr().err == ""


def test_numbers_are_reduced_on_the_cpu_with_the_same_type_on_all_ranks() -> None:
    """The duration of a collector's episodes is 0 or a float. With tensors of two types, gloo
    aborted the process.
    """
    module = helper()
    found = [module.allreduce_data(5, "sum"), module.reduce_data(1.5, "avg")]
    assert [repr(each) for each in found] == ["5", "1.5"]
    assert module.allreduce_data(tensor := Numbers([1.0]), "avg") is tensor
    assert module.calls == [(Numbers, "sum"), (Numbers, "avg"), (Numbers, "avg")]
    module.synchronize()


def test_the_average_of_integers_can_be_a_fraction() -> None:
    module: Any = SimpleNamespace(
        dist_init=None, allreduce_data=lambda x, op: Numbers([x[0] / 2]), reduce_data=None
    )
    ddp.patch(module)
    assert module.allreduce_data(5, "avg") == 2.5


@pytest.mark.parametrize("gpu", ["a GPU", "a GPU that torch cannot use", "no job"])
def test_nothing_is_changed_with_a_gpu_or_outside_a_job(
    gpu: str, torch: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    """A broken driver is reported by NCCL. The other ranks would wait for a rank that uses gloo."""
    if gpu == "no job":
        monkeypatch.delenv("DI_NODES")
        monkeypatch.delenv("DI_RANK")
    elif gpu == "a GPU":
        torch.cuda.is_available = lambda: True
    else:
        (tmp_path / "nvidia0").touch()
        monkeypatch.setattr(devices, "DEVICE_FILES", (f"{tmp_path}/nvidia[0-9]*",))
    with pytest.raises(ZeroDivisionError):
        helper().dist_init()


def learners_hooks(**names: Any) -> Any:
    """Return ding.worker.learner.learner_hook with a LogReduceHook that doubles the log."""

    class LogReduceHook:
        def __call__(self, engine: Any) -> None:
            engine.log_buffer = {name: each * 2 for name, each in engine.log_buffer.items()}

    module: Any = SimpleNamespace(LogReduceHook=LogReduceHook, **names)
    learner_hook.patch(module)
    return module


@pytest.mark.parametrize(("gpu", "device"), [(True, 3), (False, "cpu")])
def test_the_learner_reduces_its_log_on_the_current_device(
    torch: Any, gpu: bool, device: Any
) -> None:
    """DI-engine 0.5.3 uses the rank as the GPU's number."""
    torch.cuda.is_available = lambda: gpu
    assert learners_hooks(get_rank=lambda: 1).get_rank() == device


def test_arrays_in_the_learners_log_are_reduced_like_tensors(
    torch: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """LightZero's MuZero logs the priorities of a batch as an array."""
    monkeypatch.setitem(sys.modules, "numpy", SimpleNamespace(ndarray=bytes))
    torch.as_tensor = list
    module = learners_hooks()
    engine = SimpleNamespace(log_buffer={"priority": b"ab", "loss": 0.5})
    module.LogReduceHook()(engine)
    assert engine.log_buffer == {"priority": [97, 98, 97, 98], "loss": 1.0}
    assert not hasattr(module, "get_rank")


def utils(**names: Any) -> Any:
    module = ModuleType("ding.utils")
    vars(module).update(names)
    dist_context.patch(module)
    return module


def test_a_program_that_imports_distcontext_gets_ddpcontext(
    capsys: pytest.CaptureFixture[str],
) -> None:
    module = utils(DDPContext="the context")
    assert capsys.readouterr().err == ""
    assert [module.DistContext, module.DistContext] == ["the context"] * 2
    says = "dijob: ding.utils has no DistContext, so the program gets DDPContext\n"
    assert capsys.readouterr().err == says
    with pytest.raises(AttributeError, match=r"^module 'ding.utils' has no attribute 'other'$"):
        _ = module.other


def test_the_distcontext_of_linklink_is_kept() -> None:
    assert utils(DistContext="its own").DistContext == "its own"


@pytest.mark.parametrize(
    ("rank", "step", "finished", "ends"),
    [(0, 11, False, True), (0, 10, False, False), (0, 1, True, True), (1, 11, True, False)],
    ids=["the limit", "below the limit", "the task has finished", "another rank follows rank 0"],
)
def test_rank_0_ends_the_task_of_all_ranks(
    rank: int, step: int, finished: bool, ends: bool
) -> None:
    sent: list[Any] = []
    module: Any = SimpleNamespace(
        ddp_termination_checker=None,
        task=SimpleNamespace(finish=finished),
        broadcast=lambda flag, source: sent.append((list(flag), source)),
        logging=SimpleNamespace(info=lambda text: None),
    )
    termination_checker.patch(module)
    module.ddp_termination_checker(max_env_step=10, rank=rank)(SimpleNamespace(env_step=step))
    assert (sent, module.task.finish) == ([([int(ends)], 0)], ends)
