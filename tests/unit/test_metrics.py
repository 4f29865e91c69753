"""What /metrics serves is what docs/operations.md says."""

import re
from pathlib import Path
from typing import Any

from dijob.core.options import Options
from dijob.shell import health, metrics
from dijob.shell.api import Api
from dijob.shell.audit import Audit
from dijob.shell.children import Children
from dijob.shell.pulse import Pulse
from dijob.shell.reconcile import Reconciler
from dijob.shell.workqueue import WorkQueue
from prometheus_client import generate_latest
from unit.builders import job_body
from unit.fake_api import FakeApi

DOC = Path(__file__).parents[2] / "docs/operations.md"


def watchdog(api: Api) -> tuple[health.Watchdog, Reconciler]:
    children = Children.of(())
    reconciler = Reconciler(api, children, Options())
    audit = Audit(api, reconciler, WorkQueue(reconciler.reconcile), ())
    return health.Watchdog(children, reconciler.jobs, audit, Pulse()), reconciler


def test_every_series_is_in_the_document() -> None:
    rows = re.findall(r"^\| `(dijob_\w+)` \|([^|]*)\|", DOC.read_text(), re.MULTILINE)
    documented = {
        name.removesuffix("_total"): set(re.findall(r"`(\w+)`", labels)) for name, labels in rows
    }
    # The library gives labels of series that have samples only.
    names: Any = metrics.REGISTRY._collector_to_names
    assert documented == {collector._name: set(collector._labelnames) for collector in names}


def test_jobs_are_counted_by_phase() -> None:
    found, reconciler = watchdog(FakeApi().api())
    for number, phase in enumerate(("Running", "Running", "")):
        body = job_body(status={"phase": phase} if phase else None)
        body["metadata"] |= {"name": f"job{number}", "uid": f"uid{number}"}
        reconciler.jobs.put(body)
    found.problems()
    told = dict(
        re.findall(
            r'^dijob_jobs\{phase="(\w+)"\} (\S+)$', generate_latest(metrics.REGISTRY).decode(), re.M
        )
    )
    assert {phase: count for phase, count in told.items() if count != "0.0"} == {
        "New": "1.0",
        "Running": "2.0",
    }
