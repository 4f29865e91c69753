"""A DIJob as the client sees it: what its status says, and what has become of it."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from dijob.api.model import DIJob, Metadata
from dijob.api.parse import parse_job, stored
from dijob.api.printed import one_line
from dijob.api.reported import Progress, Reported
from dijob.api.status import Condition, FirstFailure, Status
from dijob.names import MAX_REPLICAS, Phase


@dataclass(frozen=True)
class Outcome:
    """How a job has ended. `phase` is Succeeded, Failed or Deleted."""

    job: str
    phase: str
    message: str = ""
    first_failure: FirstFailure | None = None

    @property
    def ok(self) -> bool:
        """Whether it has succeeded."""
        return self.phase == Phase.SUCCEEDED

    @property
    def deleted(self) -> bool:
        """Whether it was deleted before it had ended."""
        return self.phase == DELETED

    def __str__(self) -> str:
        """Phase, message and first failure in a sentence."""
        said = f"{self.job}: {self.phase}" + (f": {self.message}" if self.message else "")
        first = failure_in_words(self.first_failure)
        told = "first failure" in self.message
        return said if self.ok or told or not first else f"{said.rstrip('.')}. {first}"


DELETED = "Deleted"


@dataclass(frozen=True)
class Job:
    """A DIJob of the cluster. A status that cannot be read counts as absent."""

    body: Mapping[str, Any]
    """The object as the apiserver gives it."""

    @cached_property
    def metadata(self) -> Metadata:
        """Name, namespace, uid and the like."""
        return Metadata.model_validate(self.body["metadata"])

    @property
    def name(self) -> str:
        """The job's name."""
        return self.metadata.name

    @cached_property
    def status(self) -> Status:
        """What the operator says of it."""
        return stored(self.body)

    @cached_property
    def progress(self) -> Progress | None:
        """What its program has reported, None where it has not."""
        try:
            return Reported.model_validate(self.body.get("status") or {}).progress
        except ValueError:
            return None

    @cached_property
    def model(self) -> DIJob:
        """The job as the operator reads it. Raises SpecError where it cannot be carried out."""
        return parse_job(self.body)

    @property
    def ranks(self) -> range:
        """The ranks that the job wants by its status, which can be edited by hand: at most as many
        as a job can have.
        """
        return range(min(self.status.desired, MAX_REPLICAS))

    @property
    def phase(self) -> str:
        """One word: Pending before the operator has seen it."""
        return self.status.phase or Phase.PENDING

    @property
    def message(self) -> str:
        """Why it is where it is."""
        if not self.status.phase:
            return "no operator has looked at it yet"
        return self.status.message

    def condition(self, kind: str) -> Condition | None:
        """One of its conditions."""
        return next((one for one in self.status.conditions if one.type == kind), None)

    def is_true(self, kind: str) -> bool:
        """Whether a condition is True."""
        found = self.condition(kind)
        return found is not None and found.status == "True"

    @property
    def finished(self) -> bool:
        """Whether it has succeeded or failed."""
        return self.is_true("Finished")

    @property
    def outcome(self) -> Outcome | None:
        """How it has ended, None while it has not."""
        if not self.finished:
            return None
        phase = Phase.SUCCEEDED if self.is_true("Succeeded") else Phase.FAILED
        said = self.condition(phase.value)
        message = (said.message if said else "") or self.status.message
        return Outcome(self.name, phase.value, message, self.status.first_failure)


def failure_in_words(first: FirstFailure | None) -> str:
    """A job's first failure in a sentence; "" for none."""
    if first is None:
        return ""
    how = f"exit code {first.exit_code}" if first.exit_code is not None else first.reason
    if first.signal:
        how = f"signal {first.signal}"
    reason = f", {first.reason}" if first.reason and first.reason != how else ""
    node = f" on node {first.node}" if first.node else ""
    where = f"{first.pod}, container {first.container}" if first.container else first.pod
    said = "".join(f": {one_line(text)}" for text in (first.cause, first.message) if text.strip())
    return f"First failure: rank {first.rank} ({where}){node}, {how}{reason}{said}"
