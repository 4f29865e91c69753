"""The operator's HTTP server, asked from a pod of a DIJob: another size, and how far the training
is. The pod has its address and its token only where the cluster's administrator has switched it on
(docs/server.md).
"""

from __future__ import annotations

import atexit
import json
import math
import operator
import os
import threading
import time
from contextlib import suppress
from http.client import HTTPException
from multiprocessing.util import Finalize
from typing import Any, SupportsFloat
from urllib.error import HTTPError
from urllib.request import ProxyHandler, Request, build_opener

from dijob_runtime.said import say

URL = "DI_SERVER_URL"
TOKEN = "DI_SERVER_TOKEN_FILE"
TIMEOUT_SECONDS = 10.0
# The end of a process waits for its last report.
REPORT_TIMEOUT_SECONDS = 3.0
# A process sends what it reports at most so often, the last of it always.
REPORT_SECONDS = 10.0


class ServerError(RuntimeError):
    """The server has not done what it was asked for: `status` is its HTTP status, 0 where there was
    no answer.
    """

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


def request_replicas(replicas: int) -> int:
    """Ask for so many replicas of this job in all; gives how many it is to have.

    The operator starts or ends pods then: this returns before. ServerError where the job cannot
    have so many, with the server's reason.
    """
    answer = _ask("PUT", "replicas", {"replicas": replicas})
    try:
        return int(answer["data"]["replicas"])
    except (LookupError, TypeError, ValueError):
        at = os.environ[URL]
        raise ServerError(200, f"{at} is not a DIJob server: it answered {answer!r:.80}") from None


def report(
    iteration: SupportsFloat | None = None,
    env_step: SupportsFloat | None = None,
    episode_return: SupportsFloat | None = None,
) -> None:
    """Say how far the training is, for `kubectl get dijobs` and the job's status.

    As often as wanted: it returns at once, sends now and then from a thread of its own, and does
    nothing where there is no server. What cannot be sent is said once on stderr, and stops nobody;
    so is a figure that is no finite number, and the others are sent without it.
    """
    if not os.environ.get(URL):
        return
    said = {"iteration": iteration, "env_step": env_step, "episode_return": episode_return}
    news = {}
    for name, value in said.items():
        if value is not None:
            try:
                news[name] = _figure(name, value)
            except Exception as error:  # a tensor's own conversion may raise anything
                _reporter.complain(name, error)
    if news:
        _reporter.add(news)


def _figure(name: str, value: Any) -> float:
    """The value as JSON has it and as the server takes it: finite, and a count as a whole number.
    Where it is none, ValueError, or what its conversion raises.
    """
    try:
        number: float = operator.index(value)
    except TypeError:
        number = float(value)
    if not math.isfinite(number):
        raise ValueError(f"{number} is not a finite number")
    return number if name == "episode_return" else int(number)


class _Reporter:
    """Sends the newest of what was reported by this process; a forked one has another."""

    def __init__(self) -> None:
        # A signal's handler may report while its thread does.
        self._lock = threading.RLock()
        self._sending = threading.Lock()
        self._news: dict[str, Any] = {}
        self._pid = os.getpid()
        self._started = False
        self._complained: set[str] = set()

    def add(self, news: dict[str, Any]) -> None:
        with self._lock:
            self._news.update(news)
            if self._started:
                return
            self._started = True
        # A process that multiprocessing has forked ends without atexit before Python 3.13. Where
        # both are called, the second finds nothing new.
        atexit.register(self.send)
        Finalize(None, self.send, exitpriority=0)
        # Where no thread can be had, what is newest is sent at the end.
        with suppress(RuntimeError):
            threading.Thread(target=self._run, name="dijob-report", daemon=True).start()

    def _run(self) -> None:
        while True:
            self.send()
            time.sleep(REPORT_SECONDS)

    def send(self) -> None:
        """Send what is new, after what is being sent: at the end of the process this waits for
        it.
        """
        if self._pid != os.getpid():
            return  # a fork has copied it, with locks that may be held for ever
        with self._sending:
            with self._lock:
                news, self._news = self._news, {}
            if not news:
                return
            try:
                _ask("POST", "progress", news, REPORT_TIMEOUT_SECONDS)
            except Exception as error:  # whatever it is, what comes next is sent
                self.complain("progress", error)

    def complain(self, what: str, why: Exception) -> None:
        """Say that it is not reported, once."""
        if what not in self._complained:
            self._complained.add(what)
            with suppress(Exception):  # stderr may be closed
                say(f"WARNING: {what} is not reported: {why}")


_reporter = _Reporter()


def _begin() -> None:
    global _reporter
    _reporter = _Reporter()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_begin)


def _ask(method: str, what: str, body: dict[str, Any], timeout: float = TIMEOUT_SECONDS) -> Any:
    """The server's answer, which another one may have given in its place."""
    try:
        base, token_file, job = (os.environ[name] for name in (URL, TOKEN, "DI_JOB_ID"))
    except KeyError as missing:
        raise ServerError(
            0,
            f"{missing.args[0]} is not set: this is not a pod of a DIJob, or the cluster has no"
            " DIJob server (the chart's value server.enabled)",
        ) from None
    try:
        # It is renewed in its file.
        with open(token_file) as file:
            token = file.read().strip()
        request = Request(
            f"{base.rstrip('/')}/v2alpha1/{job}/{what}",
            data=json.dumps(body).encode(),
            headers={"Authorization": "Bearer " + token, "Content-Type": "application/json"},
            method=method,
        )
        # A proxy of the template's is for the world outside.
        with build_opener(ProxyHandler({})).open(request, timeout=timeout) as answer:
            return json.loads(answer.read())
    except HTTPError as error:
        raise ServerError(error.code, _sentence(error)) from error
    except (OSError, HTTPException, ValueError) as error:
        raise ServerError(
            0, f"the request to the DIJob server at {base} failed: {error}"
        ) from error


def _sentence(error: HTTPError) -> str:
    """The server's reason."""
    try:
        return str(json.loads(error.read())["message"])
    except (ValueError, KeyError, TypeError, OSError):
        return f"HTTP {error.code} {error.reason}"
