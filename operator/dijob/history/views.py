"""The views of jobs and pods that the watches of the history keep. This module does no I/O."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from dijob import names
from dijob.api.numbers import parse_natural
from dijob.core.observed.made import main_name
from dijob.core.observed.parse import owner_of
from dijob.pod import RENEWAL_CODE

# The largest number of digits in a rank.
_DIGITS: Final = 4


@dataclass(frozen=True)
class JobView:
    """A job as the API server stores it."""

    uid: str
    owner: str
    version: str = field(compare=False)
    body: Mapping[str, Any] = field(compare=False)
    # A change to the job that does not affect its record, such as a new field manager, must not
    # cause a write to the store.
    compared: tuple[Any, ...] = ()

    @property
    def recorded(self) -> bool:
        """Whether the job already has the annotation that marks it as recorded."""
        annotations = self.body["metadata"].get("annotations") or {}
        return bool(annotations.get(names.ANNOTATION_RECORDED) == self.uid)

    @property
    def awaits_record(self) -> bool:
        """Whether the operator waits for the annotation before it deletes the job."""
        spec = self.body.get("spec") or {}
        return spec.get("ttlSecondsAfterFinished") is not None and not self.recorded


def view_job(body: Mapping[str, Any]) -> JobView:
    """Return the view of a job."""
    meta = body["metadata"]
    uid = str(meta["uid"])
    owner = names.owner_key(str(meta["namespace"]), str(meta["name"]), uid)
    compared = (body.get("spec"), body.get("status"), meta.get("labels"))
    return JobView(uid, owner, str(meta["resourceVersion"]), body, compared=compared)


@dataclass(frozen=True)
class ProgramRun:
    """A run of a rank's program whose log must be read.

    `key` identifies the run. If `previous` is true, the container has restarted, and the log is
    that of its previous run. `ends` is false if the program is still running while its pod is being
    deleted.
    """

    key: str
    previous: bool = False
    exit_code: int | None = None
    ends: bool = True

    @property
    def failed(self) -> bool:
        return self.exit_code not in (None, 0, RENEWAL_CODE)


@dataclass(frozen=True)
class PodView:
    """The pod of a rank, with the runs that have a log worth keeping. `rank` is -1 if the pod
    belongs to no rank.
    """

    uid: str
    owner: str
    version: str = field(compare=False)
    namespace: str
    name: str
    rank: int
    container: str
    runs: tuple[ProgramRun, ...]


def view_pod(body: Mapping[str, Any]) -> PodView:
    """Return the view of a pod."""
    meta = body["metadata"]
    container = main_name(body.get("spec") or {})
    states = (body.get("status") or {}).get("containerStatuses") or ()
    status: Mapping[str, Any] = next((one for one in states if one.get("name") == container), {})
    rank = parse_natural((meta.get("labels") or {}).get(names.LABEL_RANK, ""), _DIGITS)
    uid = str(meta["uid"])
    return PodView(
        uid=uid,
        owner=owner_of(meta),
        version=str(meta["resourceVersion"]),
        namespace=str(meta["namespace"]),
        name=str(meta["name"]),
        rank=rank if rank is not None and rank < names.MAX_REPLICAS else -1,
        container=container,
        runs=tuple(_runs(uid, status, deleting=bool(meta.get("deletionTimestamp")))),
    )


def _runs(uid: str, status: Mapping[str, Any], *, deleting: bool) -> Iterator[ProgramRun]:
    count = int(status.get("restartCount") or 0)
    state, last = status.get("state") or {}, status.get("lastState") or {}
    if before := last.get("terminated"):
        run = ProgramRun(f"{uid}/{count - 1}", True, before.get("exitCode"))
        # The log of a program that was restarted on purpose is not needed.
        if run.failed:
            yield run
    if ended := state.get("terminated"):
        yield ProgramRun(f"{uid}/{count}", False, ended.get("exitCode"))
    elif "running" in state and deleting:
        yield ProgramRun(f"{uid}/{count}/deleting", ends=False)
