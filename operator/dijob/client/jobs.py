"""A DIJob as the client presents it: its status and its outcome."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from dijob.api.managers import other_manager
from dijob.api.model import DIJob, Metadata
from dijob.api.parse import parse_job, parse_status
from dijob.api.printed import one_line
from dijob.api.reported import Progress, Reported
from dijob.api.status import Condition, FirstFailure, Status
from dijob.names import MAX_REPLICAS, Phase


@dataclass(frozen=True)
class Outcome:
    """How a job ended.

    `phase` is Succeeded, Failed or Deleted. It is Running if the goal of the wait was `running`
    and the job has reached this phase.
    """

    job: str
    phase: str
    message: str = ""
    first_failure: FirstFailure | None = None

    @property
    def ok(self) -> bool:
        """Whether the job has succeeded."""
        return self.phase == Phase.SUCCEEDED

    @property
    def deleted(self) -> bool:
        """Whether the job was deleted before it finished."""
        return self.phase == DELETED

    def __str__(self) -> str:
        """Return the phase, the message and the first failure as a sentence."""
        text = f"{self.job}: {self.phase}" + (f": {self.message}" if self.message else "")
        first = failure_in_words(self.first_failure)
        # The operator's message about a failed job often already contains the first failure.
        included = "first failure" in self.message
        return text if self.ok or included or not first else f"{text.rstrip('.')}. {first}"


DELETED = "Deleted"


@dataclass(frozen=True, repr=False)
class Job:
    """A DIJob of the cluster. A status that cannot be parsed is treated as absent."""

    body: Mapping[str, Any]
    """The object as the apiserver returned it."""

    def __repr__(self) -> str:
        place = f"{self.metadata.namespace}/{self.name}"
        return one_line(f"<Job {place}: {self.phase}: {self.message}>")

    @cached_property
    def metadata(self) -> Metadata:
        """Name, namespace, uid and other metadata."""
        return Metadata.model_validate(self.body["metadata"])

    @property
    def name(self) -> str:
        """The job's name."""
        return self.metadata.name

    @cached_property
    def status(self) -> Status:
        """The status that the operator, or another controller (`manager`), has written."""
        return parse_status(self.body)

    @cached_property
    def progress(self) -> Progress | None:
        """The progress that the program has reported, or None."""
        try:
            return Reported.model_validate(self.body.get("status") or {}).progress
        except ValueError:
            return None

    @cached_property
    def model(self) -> DIJob:
        """The job as the operator parses it. Raises SpecError if its spec is invalid."""
        return parse_job(self.body)

    @property
    def ranks(self) -> range:
        """The desired ranks, according to the status.

        The status can be edited by hand, and callers build a row for each rank. So the number is
        capped at the maximum size of a job.
        """
        return range(min(self.status.desired, MAX_REPLICAS))

    @property
    def phase(self) -> str:
        """The phase; Pending until a status has been written."""
        return self.status.phase or Phase.PENDING

    @property
    def message(self) -> str:
        """The reason for the phase, as a sentence."""
        if not self.status.phase and self.manager:
            return f"{self.manager} manages this job, and has not written its status yet"
        if not self.status.phase:
            return "the operator has not processed this job yet"
        return self.status.message

    @property
    def manager(self) -> str:
        """The controller that manages the job instead of the operator; "" if there is none."""
        return other_manager(self.body)

    def condition(self, kind: str) -> Condition | None:
        """Return the condition of this type, or None."""
        return next((one for one in self.status.conditions if one.type == kind), None)

    def is_true(self, kind: str) -> bool:
        """Return whether a condition is True."""
        found = self.condition(kind)
        return found is not None and found.status == "True"

    @property
    def finished(self) -> bool:
        """Whether the job has succeeded or failed."""
        return self.is_true("Finished")

    @property
    def outcome(self) -> Outcome | None:
        """The outcome, or None while the job has not finished."""
        if not self.finished:
            return None
        phase = Phase.SUCCEEDED if self.is_true("Succeeded") else Phase.FAILED
        ended = self.condition(phase.value)
        message = (ended.message if ended else "") or self.status.message
        return Outcome(self.name, phase.value, message, self.status.first_failure)


def failure_in_words(first: FirstFailure | None) -> str:
    """Describe a job's first failure in a sentence; "" if there is none."""
    if first is None:
        return ""
    how = f"exit code {first.exit_code}" if first.exit_code is not None else first.reason
    if first.signal:
        how = f"signal {first.signal}"
    reason = f", {first.reason}" if first.reason and first.reason != how else ""
    node = f" on node {first.node}" if first.node else ""
    where = f"{first.pod}, container {first.container}" if first.container else first.pod
    why = "".join(f": {one_line(text)}" for text in (first.cause, first.message) if text.strip())
    return f"First failure: rank {first.rank} ({where}){node}, {how}{reason}{why}"
