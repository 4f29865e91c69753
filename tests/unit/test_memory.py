"""What the operator remembers of a job between passes."""

from dijob.core.observed.views import Refusal, Refused
from dijob.shell.memory import Memory
from unit.builders import Body, job_body, later


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
