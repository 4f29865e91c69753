"""Which jobs wait for others when the operator starts."""

from types import SimpleNamespace
from typing import Any, cast

import pytest
from dijob.controller.cache.children import Children
from dijob.controller.cache.jobs import Jobs
from dijob.controller.queue.workqueue import Key, WorkQueue
from dijob.controller.reconcile import Reconciler
from dijob.controller.watch.arrivals import Arrivals
from samples.builders import job_body

NEW = {"observedGeneration": -1, "readyReplicas": 0, "restarts": 0}


@pytest.mark.parametrize(
    ("status", "type_", "listed", "waits"),
    [
        pytest.param(None, None, False, False, id="new"),
        pytest.param(NEW, None, False, False, id="new, with the defaults of the CRD"),
        pytest.param({**NEW, "phase": "Running"}, None, True, True, id="started before"),
        pytest.param({"phase": "Running"}, "MODIFIED", False, True, id="pods not listed"),
        pytest.param({"phase": "Running"}, "MODIFIED", True, False, id="changed"),
    ],
)
def test_a_job_that_was_just_created_does_not_wait_behind_others(
    status: dict[str, Any] | None, type_: str | None, listed: bool, waits: bool
) -> None:
    added: list[tuple[Key, bool]] = []

    def add(key: Key, background: bool = False) -> None:
        added.append((key, background))

    arrivals = Arrivals(
        cast(Reconciler, SimpleNamespace(jobs=Jobs())),
        cast(WorkQueue, SimpleNamespace(add=add)),
        cast(Children, SimpleNamespace(listed=listed)),
    )
    arrivals.seen(type_, job_body() | ({} if status is None else {"status": status}))
    assert added == [(("ns", "job"), waits)]
