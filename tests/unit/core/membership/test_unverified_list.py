"""A peer list that the status names but that nothing verifies any more. The job reports it even if
the job is paused or its template has changed, and no other list can be published.
"""

from collections.abc import Callable

import pytest
from dijob.api.model import DIJob
from dijob.core.plan import make_plan
from dijob.names import Runtime
from samples.builders import job, later, listed, observed, paused, record, running, says


def unproven(owner: DIJob) -> DIJob:
    """Return a job whose operator has stored revision 2 and crashed before any pod had it. The
    address of a pod has changed since.
    """
    proof = record(2, "10.0.0.7,10.0.0.1,10.0.0.2")
    status = owner.status.model_copy(update={"list_number": 2, "address_list": proof})
    return DIJob(metadata=owner.metadata, spec=owner.spec, status=status)


def edited(owner: DIJob) -> DIJob:
    """Return the job with another template."""
    other = job({"nodeSelector": {"a": "b"}}, runtime=owner.spec.runtime)
    return DIJob(metadata=owner.metadata, spec=other.spec, status=owner.status)


WAITS: dict[str, Callable[[DIJob], DIJob]] = {"paused": paused, "TemplateChanged": edited}


@pytest.mark.parametrize("waits", WAITS.values(), ids=WAITS)
@pytest.mark.parametrize("runtime", Runtime)
def test_a_job_that_cannot_publish_a_list_reports_that_its_ranks_lack_the_newest(
    runtime: Runtime, waits: Callable[[DIJob], DIJob]
) -> None:
    owner = waits(unproven(running(runtime=runtime)))
    decided = make_plan(owner, observed(*(listed(rank, owner) for rank in range(3))), later(5))
    assert not decided.actions
    assert says(decided)["AddressesReady"][0] == "False"
    assert says(decided)["PeersReady"][0] == "False"
