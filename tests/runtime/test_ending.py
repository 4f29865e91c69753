"""H15: SIGTERM ends the processes of a program, after their `finally` blocks. The packages below
have the interfaces of mpire 2.10 and DI-engine 0.5.3. tests/e2e/test_ends.py tests the real ones.
"""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from cluster.waiting import until, until_true
from dijob_runtime.hook.parallel import _with_exit_code

RUNTIME = Path(__file__).parents[2] / "images/dijob-runtime"
# Each worker starts a new Python process.
START_SECONDS = 60
# A program that does not end would run for longer.
END_SECONDS = 30

# A worker ends only when its parent has received its result (mpire/worker.py, run).
MPIRE = """
import multiprocessing, os, signal, time
from types import SimpleNamespace


class AbstractWorker(multiprocessing.get_context("spawn").Process):
    def __init__(self, func, args):
        super().__init__()
        self.map_params, self.args = SimpleNamespace(func=func), args
        self.received = multiprocessing.get_context("spawn").Event()

    def _set_signal_handlers(self):
        signal.signal(signal.SIGTERM, self._on_kill_exit_gracefully)

    def _on_kill_exit_gracefully(self, *_):
        raise RuntimeError("Worker was killed")

    def run(self):
        self._set_signal_handlers()
        try:
            if os.environ.get("MODE") == "before the program":
                # With one write, so that the lines of two workers are not mixed.
                os.write(1, b"begun\\n")
                time.sleep(60)
            self.map_params.func(*self.args)
        except (Exception, SystemExit):
            pass
        finally:
            while not self.received.is_set():
                time.sleep(0.01)
"""

PARALLEL = """
from mpire.worker import AbstractWorker


class Parallel:
    @classmethod
    def runner(cls, n_parallel_workers, mq_type="nng", attach_to=None, protocol="ipc",
               address=None, ports=None, topology="mesh", labels=None, node_ids=None):
        def run(main):
            params = {"n_parallel_workers": n_parallel_workers}
            if n_parallel_workers == 1:
                cls._subprocess_runner(params, (main, (), {}))
                return
            made = [AbstractWorker(cls._subprocess_runner, (params, (main, (), {})))
                    for _ in range(n_parallel_workers)]
            for worker in made:
                worker.start()
            try:
                for worker in made:
                    worker.join()
            finally:
                for worker in made:
                    worker.received.set()
        return run

    @classmethod
    def _subprocess_runner(cls, runner_kwargs, main_params):
        main, args, kwargs = main_params
        cls()._supervised_runner(main, *args, **kwargs)

    def _supervised_runner(self, main, *args, **kwargs):
        main(*args, **kwargs)

    _mq = None

    def _handle_message(self, topic, msg):
        pass

    def on(self, event, fn):
        pass

    once = on
"""

PROGRAM = """
import ctypes, multiprocessing, os, signal, sys, threading, time
from ding.framework.parallel import Parallel
from dijob_runtime.hook import ending

MODE, WORKERS = os.environ["MODE"], int(os.environ["WORKERS"])
ending.STUCK_SECONDS = ending.LEAVE_SECONDS = 0.5


def say(text):
    # A signal handler must not print while the main thread does.
    os.write(1, f"{text}\\n".encode())


def own(*_):
    say("own handler")
    sys.exit(0)


def endless(begun):
    say(begun)
    while True:
        time.sleep(0.01)


def child():
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        endless("child begun")
    finally:
        say("child's finally")


def say_when_stuck(lock):
    # glibc (lowlevellock.h): the first word of a mutex is 2 if a thread waits for it.
    while lock.raw[0] != 2:
        time.sleep(0.001)
    say("begun")


def stuck():
    lock = ctypes.create_string_buffer(64)
    threading.Thread(target=say_when_stuck, args=(lock,), daemon=True).start()
    for _ in range(2):
        ctypes.CDLL(None).pthread_mutex_lock(lock)


def main():
    if MODE == "handler in main":
        signal.signal(signal.SIGTERM, own)
    if MODE == "thread":
        threading.Thread(target=endless, args=("thread begun",)).start()
    if MODE == "forked child":
        multiprocessing.get_context("fork").Process(target=child).start()
    try:
        if MODE == "in C":
            stuck()
        try:
            endless("begun")
        except Exception:
            say("swallowed")
            time.sleep(60)
    finally:
        time.sleep(0.3)
        say("finally")


if MODE == "handler of the module":
    signal.signal(signal.SIGTERM, own)
if __name__ == "__main__":
    Parallel.runner(n_parallel_workers=WORKERS)(main)
"""


class Program:
    """The processes of a pod, simulated by a process group."""

    def __init__(self, folder: Path, mode: str, workers: int) -> None:
        self.log, self.workers = folder / "log", workers
        variables = {"MODE": mode, "WORKERS": str(workers), "DIJOB_WORKERS_ASSUMED": "1"}
        variables |= {"DI_NODES": "127.0.0.1", "DI_RANK": "0", "DIJOB_REACH_SECONDS": "0"}
        variables["PYTHONPATH"] = f"{RUNTIME}/hook:{RUNTIME}:{folder}"
        with self.log.open("w") as log:
            self.main = subprocess.Popen(
                [sys.executable, str(folder / "main.py")],
                stdout=log,
                stderr=log,
                start_new_session=True,
                env=variables,
            )

    def said(self, what: str) -> int:
        return self.log.read_text().splitlines().count(what)

    def has_begun(self, what: str = "begun") -> None:
        until_true(what, lambda: self.said(what) == self.workers, START_SECONDS, self.log.read_text)

    def end(self) -> int:
        """Send SIGTERM to all processes, like the launcher. Return the first one's exit code."""
        os.killpg(self.main.pid, signal.SIGTERM)
        until("all processes end", self._left, END_SECONDS, self.log.read_text)
        return self.main.wait()

    def _left(self) -> str:
        self.main.poll()
        try:
            os.killpg(self.main.pid, 0)
        except ProcessLookupError:
            return ""
        return "some still run"

    def kill(self) -> None:
        if self._left():
            os.killpg(self.main.pid, signal.SIGKILL)
        self.main.wait()


@pytest.fixture
def program(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Program]:
    for path, text in {
        "mpire/__init__.py": "",
        "mpire/worker.py": MPIRE,
        "ding/__init__.py": "",
        "ding/framework/__init__.py": "",
        "ding/framework/parallel.py": PARALLEL,
        "main.py": PROGRAM,
    }.items():
        file = tmp_path / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    made = Program(tmp_path, *request.param)
    yield made
    made.kill()


@pytest.mark.parametrize("program", [("", 1), ("", 2)], indirect=True)
def test_the_finally_blocks_of_each_process_run(program: Program) -> None:
    """H15: with two workers, each worker used to wait for its dead parent. `except Exception`
    around the program does not catch the end, as it did catch mpire's RuntimeError.
    """
    program.has_begun()
    code = program.end()
    assert program.said("finally") == program.workers
    assert program.said("swallowed") == 0
    # The parent of workers keeps Python's default action.
    assert code == (143 if program.workers == 1 else -signal.SIGTERM)


@pytest.mark.parametrize(
    "program",
    [
        (mode, workers)
        for mode in ("handler in main", "handler of the module")
        for workers in (1, 2)
    ],
    indirect=True,
)
def test_the_programs_own_handler_wins(program: Program) -> None:
    """H15: this includes a handler that the module sets and that mpire replaces in each worker."""
    program.has_begun()
    program.end()
    assert program.said("own handler") >= program.workers
    assert program.said("finally") == program.workers


@pytest.mark.parametrize("program", [("before the program", 2)], indirect=True)
def test_a_worker_that_has_not_begun_its_program_ends_too(program: Program) -> None:
    """H15: mpire has set its handler, but has not yet called DI-engine."""
    program.has_begun()
    program.end()
    assert program.said("finally") == 0


@pytest.mark.parametrize("program", [("in C", 1), ("in C", 2)], indirect=True)
def test_a_main_thread_in_a_c_library_holds_up_nothing(program: Program) -> None:
    """H15: this happens in an allreduce with a lost peer."""
    program.has_begun()
    program.end()
    assert "the main thread did not react to SIGTERM" in program.log.read_text()


@pytest.mark.parametrize("program", [("thread", 1), ("thread", 2)], indirect=True)
def test_a_thread_of_the_programs_holds_up_nothing(program: Program) -> None:
    program.has_begun()
    program.has_begun("thread begun")
    program.end()
    assert program.said("finally") == program.workers


@pytest.mark.parametrize("program", [("forked child", 1)], indirect=True)
def test_a_forked_child_has_pythons_default_action(program: Program) -> None:
    program.has_begun()
    program.has_begun("child begun")
    program.end()
    assert (program.said("finally"), program.said("child's finally")) == (1, 0)


@pytest.mark.parametrize(("code", "found"), [(3, 3), ("no data", "no data"), (None, None), (0, 0)])
def test_the_exit_code_of_a_worker_is_that_of_the_rank(code: object, found: object) -> None:
    """mpire recreates the worker's SystemExit with __new__, which does not set the code. So
    sys.exit(3) used to be a success.
    """

    def run() -> None:
        error = SystemExit.__new__(SystemExit)
        error.args = () if code is None else (code,)
        raise error

    with pytest.raises(SystemExit) as raised:
        _with_exit_code(run)()
    assert raised.value.code == found
