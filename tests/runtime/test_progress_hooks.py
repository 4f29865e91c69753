"""The hooks that report DI-engine's progress, with stand-ins for its modules, and the file for the
launcher. tests/field runs DI-engine itself.
"""

import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from dijob_runtime import progress, waiting
from dijob_runtime.hook import environments, fetcher, learner, pipelines, tables
from dijob_runtime.waiting import WaitMeter


@pytest.fixture
def written(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> Iterator[Callable[[], dict[str, Any]]]:
    """Return a function that returns the content of this process's file."""
    meter = WaitMeter()
    for module in (progress, fetcher, waiting):
        monkeypatch.setattr(module, "meter", meter)
    monkeypatch.setenv("DIJOB_PROGRESS", str(tmp_path / "progress"))
    monkeypatch.delenv("DI_SERVER_URL", raising=False)
    file = progress._ProgressFile()
    file._started = True  # this test writes in place of the thread
    monkeypatch.setattr(progress, "_file", file)

    def read() -> dict[str, Any]:
        file.write()
        path = tmp_path / f"progress-{os.getpid()}"
        return json.loads(path.read_text()) if path.exists() else {}

    yield read
    file._pid = 0  # nothing is written when this process exits


def module(name: str, **content: Any) -> ModuleType:
    made = ModuleType(name)
    vars(made).update(content)
    return made


class BaseLearner:
    def __init__(self) -> None:
        self.train_iter, self.collector_envstep = 0, -1

    def train(self, data: list[int], envstep: int = -1) -> str:
        self.train_iter, self.collector_envstep = self.train_iter + len(data), envstep
        return "loss"


def test_a_step_of_the_learner_is_reported(written: Callable[[], dict[str, Any]]) -> None:
    class Learner(BaseLearner):
        pass

    learner.patch(module("base_learner", BaseLearner=Learner))
    made = Learner()
    assert made.train([1, 2], envstep=64) == "loss"
    known = written()
    assert (known["iteration"], known["envStep"]) == (2, 64)
    made.train([1])
    assert (written()["iteration"], written()["envStep"]) == (3, 64)


def test_the_table_of_an_evaluator_is_reported_and_others_are_not(
    written: Callable[[], dict[str, Any]],
) -> None:
    class LoggerFactory:
        @staticmethod
        def get_tabulate_vars_hor(variables: dict[str, Any]) -> str:
            return f"table of {len(variables)}"

    tables.patch(module("log_helper", LoggerFactory=LoggerFactory))
    assert LoggerFactory.get_tabulate_vars_hor({"reward_mean": 3.0}) == "table of 1"
    assert written() == {}
    row = {"train_iter": 7, "reward_mean": 9.5, "reward_std": 1.0}
    assert LoggerFactory.get_tabulate_vars_hor(row) == "table of 3"
    assert written()["episodeReturn"] == 9.5


def test_a_middleware_reports_what_it_has_done(written: Callable[[], dict[str, Any]]) -> None:
    void = object()

    def make_trainer(*, active: bool = True) -> Any:
        def _train(ctx: Any) -> None:
            if ctx.train_data is not None:
                ctx.train_iter += 1

        return _train if active else void

    def make_evaluator() -> Any:
        def _evaluate(ctx: Any) -> None:
            if ctx.train_iter % 2:
                ctx.eval_value = float(ctx.train_iter)

        return _evaluate

    training = module("trainer", trainer=make_trainer)
    pipelines.patch(training)
    evaluating = module("evaluator", interaction_evaluator=make_evaluator)
    pipelines.patch(evaluating)
    assert training.trainer(active=False) is void
    train, evaluate = training.trainer(), evaluating.interaction_evaluator()
    assert train.__name__ == "_train"
    ctx = SimpleNamespace(train_data=None, train_iter=0, env_step=8, eval_value=float("-inf"))
    train(ctx)
    evaluate(ctx)
    assert written() == {}
    ctx.train_data = [1]
    train(ctx)
    evaluate(ctx)
    known = written()
    known.pop("moved")
    assert known == {"iteration": 1, "envStep": 8, "episodeReturn": 1.0}


def test_a_process_that_trains_is_active_while_it_collects(
    written: Callable[[], dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    class Manager:
        def launch(self) -> None:
            """Start nothing."""

        def step(self, action: int) -> int:
            return action + 1

    managers = module("managers", Manager=Manager, int=int)
    Manager.__module__ = "managers"
    environments.patch(managers)
    now = [100.0]
    monkeypatch.setattr("dijob_runtime.progress.time.time", lambda: now[0])
    assert Manager().step(1) == 2
    assert written() == {}
    progress.note_training(1, None)
    assert written()["moved"] == 100.0
    now[0] = 200.0
    Manager().step(1)
    assert written()["moved"] == 200.0


def steps_of(ctx: Any, data: Any) -> Iterator[None]:
    ctx.train_data = data.pop(0)
    if ctx.train_data is not None:
        yield
        ctx.after += 1


def test_a_step_without_data_counts_as_waiting_until_there_is_some(
    written: Callable[[], dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [0.0]
    meter = WaitMeter(lambda: now[0])
    for each in (progress, fetcher):
        monkeypatch.setattr(each, "meter", meter)
    data = [None, [1], [1]]

    def make(cfg: Any, buffer_: Any) -> Any:
        return lambda ctx: steps_of(ctx, data)

    known = module("data_processor", offpolicy_data_fetcher=make)
    fetcher.patch(known)
    from collections import deque

    storage: deque[int] = deque([1], maxlen=4)
    fetch = known.offpolicy_data_fetcher({}, SimpleNamespace(storage=storage))
    ctx = SimpleNamespace(after=0)
    progress.note_training(1, 2)
    assert list(fetch(ctx)) == []
    assert "waitingPercent" not in written(), "the measurement begins now"
    now[0] = 5.0
    assert list(fetch(ctx)) == [None]
    assert ctx.after == 1
    now[0] = 10.0
    known_values = written()
    assert (known_values["waitingPercent"], known_values["bufferPercent"]) == (50, 25)


def test_the_share_of_waiting_is_an_average_of_the_last_half_minute() -> None:
    now = [0.0]
    meter = WaitMeter(lambda: now[0])
    meter.add_wait(1.0)
    assert not meter.measure(), "only a process that trains is measured"
    meter.trains = True
    now[0] = 20.0
    meter.add_wait(20.0)
    assert not meter.measure(), "the start does not count"
    shares = []
    for waits in (True,) * 5 + (False,) * 90:
        now[0] += 1.0
        meter.add_wait(1.0 if waits else 0.0)
        meter.measure()
        shares.append(meter.values["waitingPercent"])
    assert shares[4] == 100
    assert 35 <= shares[5 + 29] <= 38
    assert shares[-1] <= 5


def test_the_newest_values_are_written_last_when_the_process_exits(
    written: Callable[[], dict[str, Any]],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The thread may be writing older values at that time."""
    usual, exits, writing = os.replace, threading.Event(), threading.Event()

    def replace(source: str, target: str) -> None:
        if threading.current_thread() is thread:
            writing.set()
            exits.wait(0.2)
        usual(source, target)

    monkeypatch.setattr("dijob_runtime.progress.os.replace", replace)
    progress.report(iteration=1)
    thread = threading.Thread(target=progress._file.write)
    thread.start()
    writing.wait()
    progress.report(iteration=2)
    progress._file.write()
    exits.set()
    thread.join()
    assert written()["iteration"] == 2
    assert capsys.readouterr().err == ""


def test_a_file_that_cannot_be_written_is_logged_once(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    program = (
        "import dijob_runtime; from dijob_runtime import progress\n"
        "for i in range(3): dijob_runtime.report(iteration=i, signal=2.5); progress._file.write()\n"
        "print('went on')"
    )
    for folder, complaints in ((tmp_path, 0), (tmp_path / "missing", 1)):
        monkeypatch.setenv("DIJOB_PROGRESS", str(folder / "progress"))
        done = subprocess.run(
            [sys.executable, "-c", program], text=True, capture_output=True, check=True
        )
        assert done.stdout == "went on\n"
        assert done.stderr.count("could not report progress") == complaints
    (file,) = tmp_path.glob("progress-*")
    assert json.loads(file.read_text())["signal"] == 2.5
