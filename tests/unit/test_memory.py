"""What the operator remembers of a job between passes."""

from dijob.core.observed.views import Creation, Pod, Refusal, Refused
from dijob.shell.memory import Memory
from unit.builders import NOW, Body, job_body, later, view


def version(number: int, generation: int) -> Body:
    body = job_body()
    body["metadata"] |= {"resourceVersion": str(number), "generation": generation}
    return body


def test_what_was_rejected_is_asked_again_when_the_job_is_written_otherwise() -> None:
    memory = Memory()
    memory.parse(version(1, 1))
    rejected, forbidden = (
        Refusal(why, "no", later(300)) for why in (Refused.REJECTED, Refused.FORBIDDEN)
    )
    memory.refusals = {"pod/job-0": rejected, "pod/job-1": forbidden}
    memory.parse(version(2, 1))
    assert set(memory.refusals) == {"pod/job-0", "pod/job-1"}
    memory.parse(version(3, 2))
    assert set(memory.refusals) == {"pod/job-1"}


def refused(rank: int) -> Pod:
    """A pod that its node has not admitted."""
    return view(rank, ip="", phase="Failed", disrupted=True, complaint="NodePorts: no")


def test_what_a_node_says_of_a_pod_is_kept_until_one_of_its_name_arrives() -> None:
    memory = Memory()
    memory.created("job-1", NOW)
    memory.saw_pods([view(0), refused(1)], NOW)
    memory.saw_pods([view(0)], NOW)
    memory.created("job-1", NOW)
    memory.saw_pods([view(0), view(1, uid="another", ip="")], NOW)
    assert memory.creations == {"job-1": Creation(2, NOW, rejected="NodePorts: no")}
    memory.saw_pods([view(0), view(1, uid="another")], NOW)
    assert memory.creations == {"job-1": Creation(2, NOW)}


def test_what_a_node_says_of_a_pod_is_forgotten_when_the_job_is_written_otherwise() -> None:
    memory = Memory()
    memory.parse(version(1, 1))
    memory.created("job-1", NOW)
    memory.saw_pods([refused(1)], NOW)
    memory.parse(version(2, 1))
    assert memory.creations["job-1"].rejected == "NodePorts: no"
    memory.parse(version(3, 2))
    assert memory.creations == {"job-1": Creation(1, NOW)}


def test_a_program_that_has_run_was_admitted() -> None:
    memory = Memory()
    memory.created("job-1", NOW)
    gone = view(1, phase="Failed", disrupted=True, complaint="Evicted: x", started="2026-05-04")
    memory.saw_pods([gone], NOW)
    assert memory.creations == {"job-1": Creation(1, NOW)}
