"""The history's record of a job. The record remains after the job has been deleted.

The history service (dijob.history) makes and stores records; the command line and the page show
them. The service, the command line and the page all use the JSON form of this model.
"""

from collections.abc import Mapping
from typing import Any

from pydantic import Field

from dijob.api.status import Count, FirstFailure, Goodput, Number, Stored

DELETED = "Deleted"


class CurvePoint(Stored):
    """The progress of the training at one point in time."""

    time: str
    iteration: Number | None = None
    env_step: Number | None = None
    episode_return: float | None = None


class PhaseChange(Stored):
    """A phase of the job, and when the history noticed it."""

    phase: str
    time: str


class LogTail(Stored):
    """The end of the log from one run of a rank's program."""

    rank: int
    pod: str = ""
    exit_code: int | None = None
    """None: the log was read while the program was running, or the kubelet does not know the exit
    code."""
    failed: bool = False
    """Whether this is the log of the rank's newest failure. A rank can also have a newer log."""
    time: str = ""
    """When the log was read."""
    cut: bool = False
    """Whether the beginning of the log is missing."""
    text: str = ""


class JobRecord(Stored):
    """What the history knows about one job."""

    uid: str
    namespace: str
    name: str
    labels: dict[str, str] = Field(default_factory=dict)
    owner: str = ""
    created: str = ""
    ended: str = ""
    deleted: str = ""
    """When the job was deleted, or when the history noticed the deletion. Empty: the job still
    exists."""
    phase: str = ""
    reason: str = ""
    message: str = ""
    replicas: Count = 0
    restarts: Count = 0
    renewals: Count = 0
    progress: str = ""
    first_failure: FirstFailure | None = None
    goodput: Goodput | None = None
    phases: tuple[PhaseChange, ...] = ()
    curve: tuple[CurvePoint, ...] = ()
    spec: dict[str, Any] = Field(default_factory=dict)

    @property
    def outcome(self) -> str:
        """Succeeded, Failed, or Deleted (the job was deleted before it ended). If the job is not
        over, its phase.
        """
        return DELETED if self.deleted and not self.ended else self.phase

    @property
    def over(self) -> str:
        """When the job ended or was deleted, whichever came first; "" if it is not over."""
        return self.ended or self.deleted

    def dump(self, *, brief: bool = False) -> dict[str, Any]:
        """Return the JSON form. `brief` leaves out the parts that can be large."""
        large = {"spec", "curve", "phases", "labels"} if brief else set()
        body = self.model_dump(mode="json", by_alias=True, exclude_none=True, exclude=large)
        return {"outcome": self.outcome, **body}


def find_owner(metadata: Mapping[str, Any]) -> str:
    """Return the object that created the job, such as `Workflow/train`, or the person named in
    the label `owner` or `user`; "" if neither is known. Kubernetes stores no creator.
    """
    for one in metadata.get("ownerReferences") or ():
        if one.get("controller"):
            return f"{one.get('kind')}/{one.get('name')}"
    labels = metadata.get("labels") or {}
    return next((str(labels[key]) for key in ("owner", "user") if labels.get(key)), "")
