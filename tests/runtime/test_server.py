"""dijob_runtime as a client of the operator's HTTP server: results, the server's reasons, and its
own errors.
"""

import json
import logging
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import dijob_runtime
import pytest
from dijob_runtime import ServerError, server
from dijob_runtime.hook import progress

JOB = "5d571f46-ffb7-46dc-92d2-29d6768afe1a"


class Server(ThreadingHTTPServer):
    """Responds as the test specifies, and records the requests."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.status, self.answer = 200, json.dumps({"data": {"replicas": 5}})
        self.pause = 0.0
        self.asked: list[tuple[str, str, Any]] = []
        self.came = threading.Event()


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_PUT(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        assert self.headers["Authorization"] == "Bearer secret"
        time.sleep(self.server.pause)  # the server needs this long to respond
        self.server.asked.append((self.command, self.path, body))
        self.server.came.set()
        self.send_response(self.server.status)
        self.end_headers()
        self.wfile.write(self.server.answer.encode())

    do_POST = do_PUT

    def log_message(self, *_: Any) -> None:
        """Log nothing."""


@pytest.fixture
def peer(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Server]:
    """The server, and the environment of a pod that has its address."""
    (tmp_path / "token").write_text("secret\n")
    with Server() as made:
        thread = threading.Thread(target=made.serve_forever, daemon=True)
        thread.start()
        monkeypatch.setenv("DI_SERVER_URL", f"http://127.0.0.1:{made.server_port}")
        monkeypatch.setenv("DI_SERVER_TOKEN_FILE", str(tmp_path / "token"))
        monkeypatch.setenv("DI_JOB_ID", JOB)
        # It would fail: no proxy listens there.
        monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
        monkeypatch.setattr(server, "_reporter", server._Reporter())
        yield made
        made.shutdown()
        thread.join()


def test_a_size_is_asked_for(peer: Server) -> None:
    assert server.request_replicas(5) == 5
    assert peer.asked == [("PUT", f"/v2alpha1/{JOB}/replicas", {"replicas": 5})]


@pytest.mark.parametrize(
    ("status", "answer", "words"),
    [
        pytest.param(422, '{"message": "allow 1 to 4"}', "allow 1 to 4", id="a reason"),
        pytest.param(502, "<html>", "HTTP 502", id="what stands between"),
        pytest.param(503, "[]", "HTTP 503", id="another form"),
    ],
)
def test_a_refusal_has_the_servers_reason(
    peer: Server, status: int, answer: str, words: str
) -> None:
    peer.status, peer.answer = status, answer
    with pytest.raises(ServerError, match=words) as caught:
        server.request_replicas(9)
    assert caught.value.status == status


@pytest.mark.parametrize("answer", ["[]", "{}", '{"data": {"replicas": "many"}}', '{"data": 5}'])
def test_a_response_of_another_server_is_reported(peer: Server, answer: str) -> None:
    peer.answer = answer
    with pytest.raises(ServerError, match=r"is not a DIJob server: it answered [\[{]"):
        server.request_replicas(5)


def test_without_a_server_the_error_names_the_missing_variable(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("DI_SERVER_URL", raising=False)
    with pytest.raises(ServerError, match=r"DI_SERVER_URL is not set.*server\.enabled"):
        server.request_replicas(2)
    dijob_runtime.report(iteration=1)  # has no effect


def test_the_end_of_a_process_waits_for_its_last_report(peer: Server) -> None:
    peer.pause = 0.3
    dijob_runtime.report(iteration=7)
    server._reporter.send()  # like atexit
    assert [body for _, _, body in peer.asked] == [{"iteration": 7}]


FORKS = """
import os, sys, threading
import dijob_runtime
from dijob_runtime import server

dijob_runtime.report(iteration=1)
locked, go = threading.Event(), threading.Event()

def hold():
    with server._reporter._lock, server._reporter._sending:
        locked.set()
        go.wait()

threading.Thread(target=hold).start()
locked.wait()
if os.fork() == 0:
    dijob_runtime.report(iteration=2)
    sys.exit(3)  # like the end of a program, with its registered functions
_, status = os.wait()
go.set()
print(os.WEXITSTATUS(status))
"""
# Python 3.12 and later cannot start threads after the main thread has ended.
NO_THREADS = """
import threading
import dijob_runtime
from dijob_runtime import server

def start(self):
    raise RuntimeError("can't start new thread")

threading.Thread.start = start
dijob_runtime.report(iteration=4)
print("went on")
"""


@pytest.mark.parametrize(
    ("program", "printed", "sent"),
    [
        pytest.param(FORKS, "3", {1, 2}, id="a fork while the parent is reporting"),
        pytest.param(NO_THREADS, "went on", {4}, id="no thread to be had"),
    ],
)
def test_a_report_stops_no_program_and_is_sent_at_its_end(
    peer: Server, program: str, printed: str, sent: set[int]
) -> None:
    argv = [sys.executable, "-c", program]
    done = subprocess.run(argv, text=True, capture_output=True, timeout=30, check=False)
    assert (done.returncode, done.stdout.strip()) == (0, printed), done.stderr
    assert {body["iteration"] for _, _, body in peer.asked} == sent


WORKER = """
import multiprocessing, sys, threading
import dijob_runtime
from dijob_runtime import server

def work():
    threading.Thread.start = lambda _: None  # the thread sends nothing before the end
    dijob_runtime.report(iteration=5)

if __name__ == "__main__":
    worker = multiprocessing.get_context(sys.argv[1]).Process(target=work)
    worker.start()
    worker.join()
"""


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_a_worker_process_sends_its_last_report_once(
    peer: Server, tmp_path: Path, method: str
) -> None:
    program = tmp_path / "program.py"
    program.write_text(WORKER)
    argv = [sys.executable, str(program), method]
    done = subprocess.run(argv, text=True, capture_output=True, timeout=30, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert [body for _, _, body in peer.asked] == [{"iteration": 5}]


def test_a_server_that_does_not_respond_blocks_no_program(
    peer: Server, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("DI_SERVER_URL", "http://127.0.0.1:9")
    with pytest.raises(ServerError, match=r"127\.0\.0\.1:9"):
        server.request_replicas(2)
    reporter = server._Reporter()
    for number in range(2):
        reporter._news = {"iteration": number}
        reporter.send()
    assert capsys.readouterr().err.count("could not report progress") == 1


class Whole:
    """Like numpy's int64 or an integer tensor."""

    def __index__(self) -> int:
        return 3


class Real:
    """Like numpy's float32 or a tensor with one number."""

    def __init__(self, value: float) -> None:
        self.value = value

    def __float__(self) -> float:
        return self.value


@pytest.mark.parametrize(
    ("said", "sent"),
    [
        ({"iteration": Whole()}, {"iteration": 3}),
        ({"iteration": Real(3.0), "env_step": 4.5}, {"iteration": 3, "env_step": 4}),
        ({"episode_return": Real(3.0)}, {"episode_return": 3.0}),
        ({"iteration": 3, "episode_return": float("nan")}, {"iteration": 3}),
        ({"iteration": Real(float("inf")), "env_step": 4}, {"env_step": 4}),
        ({"iteration": 3, "episode_return": 10**400}, {"iteration": 3}),
        ({"iteration": 3, "episode_return": [7.5]}, {"iteration": 3}),
    ],
    ids=["integer", "counts that are floats", "float", "no number", "infinite", "huge", "list"],
)
def test_a_figure_is_sent_as_the_server_takes_it_or_left_out_with_a_word(
    peer: Server, capsys: pytest.CaptureFixture[str], said: dict[str, Any], sent: dict[str, Any]
) -> None:
    for _ in range(2):
        dijob_runtime.report(**said)
    server._reporter.send()
    assert {json.dumps(body) for _, _, body in peer.asked} == {json.dumps(sent)}
    left_out = capsys.readouterr().err.splitlines()
    assert [line.split()[5].rstrip(":") for line in left_out] == [
        name for name in said if name not in sent
    ]


@pytest.mark.usefixtures("peer")
def test_a_closed_stderr_is_no_reason_to_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    with open(os.devnull, "w") as closed:
        monkeypatch.setattr(sys, "stderr", closed)
    dijob_runtime.report(episode_return=float("nan"))


def test_an_answer_of_another_form_does_not_end_the_reporting(
    peer: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "REPORT_SECONDS", 0.01)
    peer.answer = "[]"
    for number in range(2):
        peer.came.clear()
        dijob_runtime.report(iteration=number)
        assert peer.came.wait(10)
    assert [body for _, _, body in peer.asked] == [{"iteration": 0}, {"iteration": 1}]


def test_progress_that_di_engine_logs_is_reported(
    peer: Server, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    made = logging.getLogRecordFactory()
    monkeypatch.setattr(server, "REPORT_SECONDS", 0.01)
    try:
        progress.watch_log()
        log = logging.getLogger("ding")
        with caplog.at_level("INFO"):
            log.info("of %s consequence", "no")
            log.info("Training: Train Iter(100)\tEnv Step(6400)\tLoss(0.123)")
            assert peer.came.wait(10)
            assert peer.asked[0][1:] == (
                f"/v2alpha1/{JOB}/progress",
                {"iteration": 100, "env_step": 6400},
            )
        assert [record.getMessage()[:2] for record in caplog.records] == ["of", "Tr"]
    finally:
        logging.setLogRecordFactory(made)
