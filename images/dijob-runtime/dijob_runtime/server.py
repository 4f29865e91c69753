"""Client of the operator's HTTP server, for programs in the pods of a DIJob. It changes the number
of replicas, and sends the training's progress.

A pod has the server's address and a token only if the cluster's administrator has enabled the
server (docs/server.md). Reporting must never disrupt the training, so `post_progress` never blocks
and never raises.
"""

from __future__ import annotations

import atexit
import json
import os
import threading
import time
from contextlib import suppress
from http.client import HTTPException
from multiprocessing.util import Finalize
from typing import Any
from urllib.error import HTTPError
from urllib.request import ProxyHandler, Request, build_opener

from dijob_runtime.messages import log_message

URL = "DI_SERVER_URL"
TOKEN = "DI_SERVER_TOKEN_FILE"
TIMEOUT_SECONDS = 10.0
# This timeout is shorter, because a process waits for its last report before it exits.
REPORT_TIMEOUT_SECONDS = 3.0
# The minimum interval between two reports of a process. The last values are always sent.
REPORT_SECONDS = 10.0


class ServerError(RuntimeError):
    """A request failed. `status` is the HTTP status, or 0 if there was no response."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


def request_replicas(replicas: int) -> int:
    """Set the job's total number of replicas, and return the number that the server confirms.

    The function returns before the operator creates or deletes pods. Raises ServerError with the
    server's reason if the job cannot have this number.
    """
    answer = _send_request("PUT", "replicas", {"replicas": replicas})
    try:
        return int(answer["data"]["replicas"])
    except (LookupError, TypeError, ValueError):
        at = os.environ[URL]
        raise ServerError(200, f"{at} is not a DIJob server: it answered {answer!r:.80}") from None


def post_progress(news: dict[str, Any]) -> None:
    """Send values to the server soon. A thread sends the newest values every 10 s."""
    _reporter.add(news)


def complain(what: str, why: Exception) -> None:
    """Log once that a value is not reported."""
    _reporter.complain(what, why)


class _Reporter:
    """Sends the newest values that this process has reported. A forked process has its own
    reporter.
    """

    def __init__(self) -> None:
        # The lock is reentrant, because a signal handler may report while its own thread holds the
        # lock.
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
        # The finalizer is needed for Python before 3.13. In these versions, a process that was
        # forked by multiprocessing runs finalizers, but no atexit functions. If `send` runs twice,
        # the second call has nothing to send.
        atexit.register(self.send)
        Finalize(None, self.send, exitpriority=0)
        # If no thread can be started, the newest values are sent when the process exits.
        with suppress(RuntimeError):
            threading.Thread(target=self._run, name="dijob-report", daemon=True).start()

    def _run(self) -> None:
        while True:
            self.send()
            time.sleep(REPORT_SECONDS)

    def send(self) -> None:
        """Send the values that have not been sent yet. When the process exits, this also waits for
        a request that the thread is sending.
        """
        if self._pid != os.getpid():
            return  # a fork has copied this object with its locks, which may never be released
        with self._sending:
            with self._lock:
                news, self._news = self._news, {}
            if not news:
                return
            try:
                _send_request("POST", "progress", news, REPORT_TIMEOUT_SECONDS)
            except Exception as error:  # a failure must end neither the thread nor the program
                self.complain("progress", error)

    def complain(self, what: str, why: Exception) -> None:
        """Log once that a value is not reported."""
        if what not in self._complained:
            self._complained.add(what)
            with suppress(Exception):  # stderr may be closed
                log_message(f"WARNING: could not report {what}: {why}")


_reporter = _Reporter()


def _start_reporter() -> None:
    global _reporter
    _reporter = _Reporter()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_start_reporter)


def _send_request(
    method: str, what: str, body: dict[str, Any], timeout: float = TIMEOUT_SECONDS
) -> Any:
    """Send a request and return the decoded response. The caller must check the response, because
    another server may be listening at this address.
    """
    try:
        base, token_file, job = (os.environ[name] for name in (URL, TOKEN, "DI_JOB_ID"))
    except KeyError as missing:
        raise ServerError(
            0,
            f"{missing.args[0]} is not set: this is not a pod of a DIJob, or the cluster has no"
            " DIJob server (the chart value server.enabled)",
        ) from None
    try:
        # The token is read for each request, because the kubelet replaces it before it expires.
        with open(token_file) as file:
            token = file.read().strip()
        request = Request(
            f"{base.rstrip('/')}/v2alpha1/{job}/{what}",
            data=json.dumps(body).encode(),
            headers={"Authorization": "Bearer " + token, "Content-Type": "application/json"},
            method=method,
        )
        # Proxies are not used, because those in the template are for addresses outside the cluster.
        with build_opener(ProxyHandler({})).open(request, timeout=timeout) as answer:
            return json.loads(answer.read())
    except HTTPError as error:
        raise ServerError(error.code, _error_reason(error)) from error
    except (OSError, HTTPException, ValueError) as error:
        raise ServerError(
            0, f"the request to the DIJob server at {base} failed: {error}"
        ) from error


def _error_reason(error: HTTPError) -> str:
    """Return the reason from the server's response, or the HTTP status if the response has none."""
    try:
        return str(json.loads(error.read())["message"])
    except (ValueError, KeyError, TypeError, OSError):
        return f"HTTP {error.code} {error.reason}"
