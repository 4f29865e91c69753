"""What the operator remembers about a job between reconciliations."""

from dijob.controller.observe.memory import JobMemory
from dijob.core.observed.views import ApiRejection, Creation, Pod, RejectionCause
from samples.builders import NOW, Body, job_body, later, view


def version(number: int, generation: int) -> Body:
    body = job_body()
    body["metadata"] |= {"resourceVersion": str(number), "generation": generation}
    return body


def test_a_rejected_request_is_retried_when_the_spec_changes() -> None:
    memory = JobMemory()
    memory.parse(version(1, 1))
    rejected, forbidden = (
        ApiRejection(why, "no", later(300))
        for why in (RejectionCause.REJECTED, RejectionCause.FORBIDDEN)
    )
    memory.rejections = {"pod/job-0": rejected, "pod/job-1": forbidden}
    memory.parse(version(2, 1))
    assert set(memory.rejections) == {"pod/job-0", "pod/job-1"}
    memory.parse(version(3, 2))
    assert set(memory.rejections) == {"pod/job-1"}


def refused(rank: int) -> Pod:
    """Return a pod that its node did not admit."""
    return view(rank, ip="", phase="Failed", disrupted=True, complaint="NodePorts: no")


def test_the_message_of_a_node_is_kept_until_a_pod_of_that_name_has_an_address() -> None:
    memory = JobMemory()
    memory.created("job-1", NOW)
    memory.saw_pods([view(0), refused(1)], NOW)
    memory.saw_pods([view(0)], NOW)
    memory.created("job-1", NOW)
    memory.saw_pods([view(0), view(1, uid="another", ip="")], NOW)
    assert memory.creations == {"job-1": Creation(2, NOW, rejected="NodePorts: no")}
    memory.saw_pods([view(0), view(1, uid="another")], NOW)
    assert memory.creations == {"job-1": Creation(2, NOW)}


def test_the_message_of_a_node_is_forgotten_when_the_spec_changes() -> None:
    memory = JobMemory()
    memory.parse(version(1, 1))
    memory.created("job-1", NOW)
    memory.saw_pods([refused(1)], NOW)
    memory.parse(version(2, 1))
    assert memory.creations["job-1"].rejected == "NodePorts: no"
    memory.parse(version(3, 2))
    assert memory.creations == {"job-1": Creation(1, NOW)}


def test_a_program_that_has_run_was_admitted() -> None:
    memory = JobMemory()
    memory.created("job-1", NOW)
    gone = view(1, phase="Failed", disrupted=True, complaint="Evicted: x", started="2026-05-04")
    memory.saw_pods([gone], NOW)
    assert memory.creations == {"job-1": Creation(1, NOW)}
