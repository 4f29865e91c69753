"""Builds the status of a job from facts about the job."""

from dijob.api.status import Status
from dijob.core.facts import Fact
from dijob.core.report.summary import apply_facts

from samples.builders import later


def having(
    *facts: Fact, before: Status | None = None, generation: int = 1, seconds: float = 0
) -> Status:
    return apply_facts(before or Status(), facts, generation, later(seconds))
