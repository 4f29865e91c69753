"""A real Prometheus scrapes a real operator: all queries of dashboard and alerts have data."""

import json
import os
import subprocess
import sys
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import yaml
from apiserver.plane import Plane, job
from cluster.waiting import until_true
from dijob import __version__
from monitoring import ALERTS, asked, board_queries, debian_prometheus, queries
from planes import ROOT
from ports import free_port

pytestmark = pytest.mark.apiserver

NAME = "measured"
SECONDS = 100
(GROUP,) = yaml.safe_load(ALERTS.read_text())["groups"]
ALERT_NAMES = [rule["alert"] for rule in GROUP["rules"]]


def fetched(url: str) -> str:
    with urllib.request.urlopen(url, timeout=10) as answer:
        text: str = answer.read().decode()
    return text


@dataclass(frozen=True)
class Prometheus:
    """A Prometheus that scrapes the operator each second."""

    port: int
    log: Path

    def api(self, path: str, **query: str) -> Any:
        """Return the data of a response."""
        words = urllib.parse.urlencode(query)
        answer = json.loads(fetched(f"http://127.0.0.1:{self.port}/api/v1/{path}?{words}"))
        assert answer["status"] == "success", answer
        return answer["data"]

    def values(self, expr: str) -> list[float]:
        """Return the current values of a query, without NaN."""
        found = [float(each["value"][1]) for each in self.api("query", query=expr)["result"]]
        return [value for value in found if value == value]

    def scrapes(self) -> bool:
        try:
            return self.values("up") == [1, 1]
        except OSError:
            return False

    def until(self, what: str, expr: str) -> None:
        """Wait until a query has a value other than 0."""
        until_true(what, lambda: any(self.values(expr)), SECONDS, lambda: self.values(expr))


@pytest.fixture
def history(plane: Plane, tmp_path: Path) -> Iterator[int]:
    """Run a history with one answered request. Yield the port of its metrics."""
    port, health = free_port(), free_port()
    config = plane.cluster.kubeconfig
    told = [f"--kubeconfig={config}", f"--port={port}", f"--health-port={health}"]
    argv = [sys.executable, "-m", "dijob.history", f"--sqlite={tmp_path}/history.db", *told]
    env = {**os.environ, "PYTHONPATH": str(ROOT / "operator")}
    log = tmp_path / "history.log"
    with log.open("wb") as out:
        process = subprocess.Popen(argv, env=env, stdout=out, stderr=out)
    try:
        until_true("an answer", lambda: _refuses(port), SECONDS, log.read_text)
        yield health
    finally:
        process.terminate()
        assert process.wait(20) == 0, log.read_text()


def _refuses(port: int) -> bool:
    try:
        fetched(f"http://127.0.0.1:{port}/v1/jobs")
    except urllib.error.HTTPError as error:
        return error.code == 401
    except OSError:
        pass
    return False


@pytest.fixture
def prometheus(plane: Plane, history: int, tmp_path: Path) -> Iterator[Prometheus]:
    targets = [f"127.0.0.1:{port}" for port in (plane.port, history)]
    config = {
        "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
        "rule_files": [str(ALERTS)],
        "scrape_configs": [{"job_name": "dijob", "static_configs": [{"targets": targets}]}],
    }
    (tmp_path / "config.yaml").write_text(yaml.safe_dump(config))
    found = Prometheus(free_port(), tmp_path / "log")
    argv = [
        str(debian_prometheus() / "prometheus"),
        f"--config.file={tmp_path}/config.yaml",
        f"--storage.tsdb.path={tmp_path}/data",
        f"--web.listen-address=127.0.0.1:{found.port}",
    ]
    with found.log.open("wb") as log:
        process = subprocess.Popen(argv, cwd=tmp_path, stdout=log, stderr=log)
        try:
            until_true("a scrape", found.scrapes, SECONDS, lambda: found.log.read_text()[-2000:])
            yield found
        finally:
            process.kill()
            process.wait(10)


@pytest.fixture
def measured(plane: Plane, prometheus: Prometheus) -> Iterator[None]:
    """Start a job and let it recover from a loss while Prometheus scrapes."""
    try:
        plane.apply(job(NAME))
        plane.until_condition(NAME, "Running", "True", seconds=60)
        prometheus.until("the start", "increase(dijob_start_duration_seconds_count[1h])")
        plane.kubectl("delete", "pod", f"{NAME}-1", "--wait=false")
        lost = 'increase(dijob_restarts_total{cause=~"PodLost|PodDeleted"}[1h])'
        prometheus.until("the loss", lost)
        prometheus.until("the recovery", "increase(dijob_recovery_duration_seconds_count[1h])")
        _report_progress(plane)
        prometheus.until("its progress", "dijob_job_figure")
        prometheus.until("its phase", 'dijob_jobs{job_namespace="default", phase="Running"}')
        yield
    finally:
        # Its name is not used again, so the garbage collector may delete its pods later.
        plane.kubectl("delete", "dijob", NAME, "--ignore-not-found", "--wait=false")


def _report_progress(plane: Plane) -> None:
    """Store the progress that a program would have reported: simulated pods run none."""
    now = f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}"
    progress = {"time": now, "iteration": 1, "waitingPercent": 20}
    patch = json.dumps({"status": {"progress": progress}})
    plane.kubectl("patch", "dijob", NAME, "--type=merge", "--subresource=status", "-p", patch)


@pytest.mark.usefixtures("measured")
def test_all_queries_of_dashboard_and_alerts_have_data(
    plane: Plane, history: int, prometheus: Prometheus
) -> None:
    exposed = "".join(fetched(f"http://127.0.0.1:{n}/metrics") for n in (plane.port, history))
    for where, expr in queries():
        for name in asked(expr)[0]:
            assert f"\n{name}{{" in exposed or f"\n{name} " in exposed, f"{where}: no {name}"

    def unanswered() -> list[str]:
        return [where for where, expr in board_queries() if not prometheus.values(expr)]

    until_true("each panel has data", lambda: not unanswered(), SECONDS, unanswered)
    (group,) = prometheus.api("rules")["groups"]
    states = {rule["name"]: (rule["health"], rule["state"]) for rule in group["rules"]}
    assert states == dict.fromkeys(ALERT_NAMES, ("ok", "inactive"))
    assert prometheus.values(f'dijob_build_info{{version="{__version__}"}}') == [1]
