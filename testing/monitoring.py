"""The chart's dashboard and alerts, and Debian's Prometheus for the tests."""

import fcntl
import json
import os
import re
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[1]
BOARD = ROOT / "charts/dijob/files/dashboard.json"
ALERTS = ROOT / "charts/dijob/files/alerts.yaml"
# Labels that Prometheus sets for its targets.
TARGET = {"job", "instance", "namespace"}
PACKAGE = "prometheus"


def panels() -> list[dict[str, Any]]:
    """Return the dashboard's panels without its rows."""
    found = json.loads(BOARD.read_text())["panels"]
    return [panel for panel in found if panel["type"] != "row"]


def board_queries() -> list[tuple[str, str]]:
    """Return the title and the PromQL of each query on the dashboard, with the variables set for a
    scrape interval of one second.
    """
    return [
        (f"{panel['title']} {target['refId']}", _filled(target["expr"]))
        for panel in panels()
        for target in panel["targets"]
    ]


def queries() -> list[tuple[str, str]]:
    """Return the queries of the dashboard and of the alerts."""
    groups = yaml.safe_load(ALERTS.read_text())["groups"]
    alerts = [(rule["alert"], rule["expr"]) for group in groups for rule in group["rules"]]
    return board_queries() + alerts


def _filled(expr: str) -> str:
    expr = expr.replace("$__rate_interval", "20s").replace("$__range", "20s").replace("$job", ".*")
    assert "$" not in expr, f"a variable without a value: {expr}"
    return expr


def asked(expr: str) -> tuple[set[str], set[str]]:
    """Return which of our series and which labels a query uses."""
    names = set(re.findall(r"\b(?:dijob|process)_\w+", expr))
    lists = re.findall(r"\b(?:by|on) \(([^)]*)\)", expr)
    labels = {label.strip() for each in lists for label in each.split(",")}
    labels |= {label for each in re.findall(r"\{([^}]*)\}", expr) for label in _matched(each)}
    return names, labels


def _matched(matchers: str) -> Iterator[str]:
    yield from re.findall(r"(\w+)\s*(?:=~|!~|!=|=)", matchers)


def debian_prometheus() -> Path:
    """Return the folder with Debian's `prometheus` and `promtool`, extracted into the cache."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "dijob"
    cache.mkdir(parents=True, exist_ok=True)
    with (cache / "prometheus.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not _candidate():
            subprocess.run(["apt-get", "-qq", "update"], check=True)
        version = _candidate()
        assert version, f"apt has no package {PACKAGE}"
        folder = cache / f"{PACKAGE}-{re.sub(r'[^0-9.]', '-', version)}"
        if not folder.exists():
            with tempfile.TemporaryDirectory(prefix=f"{PACKAGE}-", dir=cache) as work:
                subprocess.run(["apt-get", "-qq", "download", PACKAGE], cwd=work, check=True)
                (package,) = Path(work).glob("*.deb")
                subprocess.run(["dpkg", "-x", str(package), f"{work}/files"], check=True)
                Path(f"{work}/files/usr/bin").rename(folder)
    return folder


def _candidate() -> str:
    """Return the version that apt would install, or ""."""
    said = subprocess.run(
        ["apt-cache", "policy", PACKAGE], capture_output=True, text=True, check=True
    ).stdout
    found = re.search(r"Candidate: (\S+)", said)
    return found.group(1) if found and found.group(1) != "(none)" else ""
