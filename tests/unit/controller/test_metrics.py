"""/metrics serves what docs/metrics.md documents, with a bounded number of series."""

import re
from collections import Counter
from pathlib import Path

import pytest
from dijob.controller import health, metrics
from dijob.controller.cache.children import Children
from dijob.controller.queue.workqueue import WorkQueue
from dijob.controller.reconcile import Reconciler
from dijob.controller.watch.arrivals import Arrivals
from dijob.controller.watch.audit import Audit
from dijob.controller.watch.job_watch import JobWatch
from dijob.core.options import Options
from dijob.history import metrics as history
from dijob.kube.api import Api
from dijob.kube.availability import Availability
from dijob.server import metrics as server
from fakes.fake_api import FakeApi
from prometheus_client import generate_latest
from samples.builders import job_body
from unit.exposed import families, series

DOC = Path(__file__).parents[3] / "docs/metrics.md"


def watchdog(api: Api) -> tuple[health.Watchdog, Reconciler]:
    children = Children.of(())
    reconciler = Reconciler(api, children, Options())
    queue = WorkQueue(reconciler.reconcile)
    audit = Audit(api, reconciler, queue, ())
    watch = JobWatch(api, Arrivals(reconciler, queue, children), ())
    return health.Watchdog(children, reconciler.jobs, audit, Availability(), watch), reconciler


def test_every_series_is_documented() -> None:
    ours = DOC.read_text().partition("## The HTTP server's")[0]
    rows = re.findall(r"^\| `((?:dijob|process)_\w+)` \|([^|]*)\|", ours, re.MULTILINE)
    assert {name: set(re.findall(r"`(\w+)`", labels)) for name, labels in rows} == families()


def test_the_help_of_each_metric_is_made_of_sentences() -> None:
    for registry in (metrics.REGISTRY, server.REGISTRY, history.REGISTRY):
        for family in registry.collect():
            assert family.documentation.endswith((".", "?")), family.name


def test_names_follow_prometheus_conventions() -> None:
    """https://prometheus.io/docs/practices/naming"""
    for family in metrics.REGISTRY.collect():
        name = family.name
        assert re.fullmatch(r"[a-z][a-z0-9_]*", name)
        assert family.type != "counter" or f"{name}_total" in series(), name
        assert family.type != "histogram" or name.endswith("_seconds"), name
        assert family.type != "gauge" or not name.endswith("_total"), name
        assert family.documentation, name


def test_no_label_is_by_job_or_pod() -> None:
    labels = {label for names in families().values() for label in names}
    # Prometheus itself sets `job`, `instance` and `namespace` for its targets.
    assert not labels & {"job", "instance", "namespace", "pod", "name", "uid", "rank", "node"}


def told() -> dict[tuple[str, str], float]:
    text = generate_latest(metrics.REGISTRY).decode()
    rows = re.findall(r'^dijob_jobs\{job_namespace="(.+)",phase="(\w+)"\} (\S+)$', text, re.M)
    return {(namespace, phase): float(count) for namespace, phase, count in rows}


def test_jobs_are_counted_by_namespace_and_phase() -> None:
    found, reconciler = watchdog(FakeApi().api())
    known = (("a", "Running"), ("a", "Running"), ("b", "Running"), ("b", ""))
    for number, (namespace, phase) in enumerate(known):
        body = job_body(status={"phase": phase} if phase else None)
        body["metadata"] |= {
            "name": f"job{number}",
            "uid": f"uid{number}",
            "namespace": namespace,
        }
        reconciler.jobs.put(body)
    found.measure()
    assert told() == {("a", "Running"): 2, ("b", "Running"): 1, ("b", "New"): 1}
    for number in (2, 3):
        reconciler.jobs.pop(f"uid{number}")
    found.measure()
    assert told() == {("a", "Running"): 2}, "a namespace without jobs has no series"


def test_jobs_are_counted_by_activity() -> None:
    found, reconciler = watchdog(FakeApi().api())
    activities = ("Running", "Running", "Recovering", "Ended", "Dreaming", None)
    for number, activity in enumerate(activities):
        body = job_body(status={"goodput": {"activity": activity}} if activity else None)
        body["metadata"] |= {"name": f"job{number}", "uid": f"uid{number}"}
        reconciler.jobs.put(body)
    found.measure()
    text = generate_latest(metrics.REGISTRY).decode()
    rows = re.findall(r'^dijob_jobs_by_activity\{activity="(\w+)"\} (\S+)$', text, re.M)
    assert {activity: float(jobs) for activity, jobs in rows} == {
        "Running": 2,
        "Recovering": 1,
        "Starting": 0,
        "Waiting": 0,
    }


def test_running_jobs_that_make_no_progress_are_counted() -> None:
    found, reconciler = watchdog(FakeApi().api())
    since = {"since": "2026-05-04T12:00:00Z"}
    statuses = (("Running", since), ("Running", {"restarted": "0"}), ("Failed", since))
    for number, (phase, stall) in enumerate((*statuses, ("Running", "forged"), ("Running", None))):
        body = job_body(status={"phase": phase, "stall": stall})
        body["metadata"] |= {"name": f"job{number}", "uid": f"uid{number}"}
        reconciler.jobs.put(body)
    found.measure()
    assert "\ndijob_jobs_stalled 1.0\n" in generate_latest(metrics.REGISTRY).decode()


def test_the_number_of_namespaces_with_series_is_limited() -> None:
    most = health.MOST_NAMESPACES
    phases = Counter({(f"ns{number}", "Running"): 2 for number in range(most)})
    phases |= {("small", "Running"): 1, ("tiny", "Running"): 1, ("tiny", "Failed"): 0}
    shown = health.limit_namespaces(phases)
    assert len({namespace for namespace, _ in shown}) == most + 1
    assert shown[health.OTHERS, "Running"] == 2
    assert shown.total() == phases.total()


@pytest.mark.parametrize("former", metrics.FORMER_NAMES)
def test_metrics_of_version_0_1_0_keep_their_names(former: str) -> None:
    metrics.QUARANTINED.labels("pods")
    metrics.RECONCILE_SECONDS.observe(0.3)
    metric = metrics.FORMER_NAMES[former]
    (new,) = metric.describe()
    lines = generate_latest(metrics.REGISTRY).decode().splitlines()

    def series(name: str) -> list[str]:
        return [line.removeprefix(name) for line in lines if line.startswith(name)]

    assert series(former) == series(new.name) != []
