"""The pods of a job's ranks, with the fields that the client and the commands show.

The operator has its own view of a pod (core/observed). The client keeps the whole object, because
its users may need any field of a pod.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any

from dijob import names
from dijob.api.numbers import parse_natural
from dijob.api.printed import one_line
from dijob.api.problems import SpecError
from dijob.api.status import parse_time
from dijob.client.connection import Json
from dijob.client.jobs import Job
from dijob.core.members import gang_of, split_pod_name
from dijob.core.observed.endings import UNSEEN
from dijob.core.observed.parse import owner_of
from dijob.pod import CHANNEL, RENEWAL_CODE


@dataclass(frozen=True, repr=False)
class RankPod:
    """One pod of a job."""

    body: Mapping[str, Any]
    """The pod as the apiserver returned it."""
    rank: int = -1
    """The rank's number, or -1 if the pod belongs to no rank."""

    def __repr__(self) -> str:
        node = f" on {self.node}" if self.node else ""
        return one_line(f"<RankPod {self.name}: rank {self.rank}, {self.state}{node}>")

    @property
    def meta(self) -> Mapping[str, Any]:
        """The pod's metadata."""
        found: Mapping[str, Any] = self.body["metadata"]
        return found

    @property
    def name(self) -> str:
        """The pod's name."""
        return str(self.meta["name"])

    @property
    def uid(self) -> str:
        """The pod's uid. A recreated pod has a different uid."""
        return str(self.meta.get("uid", ""))

    @property
    def task(self) -> str:
        """The name of the rank's task; "" if the job has no tasks."""
        return str((self.meta.get("labels") or {}).get(names.LEGACY_TASK_NAME, ""))

    @property
    def node(self) -> str:
        """The pod's node; "" before it is scheduled."""
        return str(self.body.get("spec", {}).get("nodeName") or "")

    @property
    def ip(self) -> str:
        """The pod's IP address; "" before it has one."""
        return str(self._status.get("podIP") or "")

    @property
    def list_number(self) -> int:
        """The revision of the peer list that the pod has received; 0 if it has none."""
        value = str((self.meta.get("annotations") or {}).get(names.ANNOTATION_LIST_NUMBER, ""))
        # An annotation can be edited by hand.
        return parse_natural(value) or 0

    @property
    def has_channel(self) -> bool:
        """Whether the launcher gets its peer lists from the operator, rather than from
        annotations.
        """
        containers = self.body.get("spec", {}).get("containers", ())
        variables = (one.get("name") for each in containers for one in each.get("env") or ())
        return CHANNEL in variables

    @property
    def container(self) -> str:
        """The name of the main container."""
        found = [one["name"] for one in self.body.get("spec", {}).get("containers", ())]
        # Like the operator, use the first container if no container has the default name.
        return names.MAIN_CONTAINER if names.MAIN_CONTAINER in found or not found else found[0]

    @property
    def restarts(self) -> int:
        """How many times the main container was restarted in this pod."""
        return int(self._main.get("restartCount", 0))

    @property
    def ready(self) -> bool:
        """Whether the main container is ready. This usually means that its process is listening."""
        return bool(self._main.get("ready"))

    @property
    def running(self) -> bool:
        """Whether the main container is running."""
        return "running" in (self._main.get("state") or {})

    @property
    def started(self) -> bool:
        """Whether the main container is running or has terminated, and therefore has a log."""
        return bool({"running", "terminated"} & (self._main.get("state") or {}).keys())

    @property
    def begun(self) -> datetime | None:
        """When the main container started; None if it is not running."""
        return parse_time(((self._main.get("state") or {}).get("running") or {}).get("startedAt"))

    @property
    def last_exit(self) -> int | None:
        """The exit code of the main container's previous run; None if it was never restarted."""
        ended = (self._main.get("lastState") or {}).get("terminated")
        return int(ended.get("exitCode", 0)) if ended else None

    @property
    def end(self) -> Mapping[str, Any]:
        """How the main container ended, as the kubelet recorded it; {} if it has not ended.

        When a job fails, the operator ends pods in which a container is waiting to restart. The
        kubelet does not report how the waiting container ended. If this is the main container, the
        end of the program's last run is returned instead.
        """
        ended: Mapping[str, Any] = (self._main.get("state") or {}).get("terminated") or {}
        before: Mapping[str, Any] = (self._main.get("lastState") or {}).get("terminated") or {}
        unknown = (ended.get("reason"), ended.get("exitCode")) in UNSEEN
        return before if unknown and before and self.kept else ended

    @property
    def kept(self) -> bool:
        """Whether the pod belongs to a failed job, and is kept for the log of a failed program."""
        return names.ANNOTATION_ENDED in (self.meta.get("annotations") or {})

    @property
    def gate(self) -> str:
        """The state of the pod's start gate: waits, passed, or "" if the gate has not started."""
        found = _find_by_name(self._status.get("initContainerStatuses", ()), names.GATE_CONTAINER)
        state = found.get("state") or {}
        if (state.get("terminated") or {}).get("exitCode") == 0:
            return "passed"
        return "waits" if "running" in state else ""

    @property
    def state(self) -> str:
        """The pod's state for tables, or the reason that the kubelet reports for a problem."""
        if self.meta.get("deletionTimestamp"):
            return "Terminating"
        for one in (*self._status.get("initContainerStatuses", ()), self._main):
            state = one.get("state") or {}
            reason = (state.get("waiting") or {}).get("reason", "")
            # These two reasons occur during every normal start.
            if reason and reason not in ("PodInitializing", "ContainerCreating"):
                return str(reason)
        if ended := self.end:
            if ended.get("exitCode") == RENEWAL_CODE:
                return "Renewing"
            return f"{ended.get('reason') or 'Ended'} ({ended.get('exitCode')})"
        if self.running:
            return "Ready" if self.ready else "Running"
        return "Gate" if self.gate == "waits" else str(self._status.get("phase") or "Pending")

    @property
    def _status(self) -> Mapping[str, Any]:
        found: Mapping[str, Any] = self.body.get("status") or {}
        return found

    @property
    def _main(self) -> Mapping[str, Any]:
        return _find_by_name(self._status.get("containerStatuses", ()), self.container)


def ranks_of(job: Job, bodies: Iterable[Json]) -> list[RankPod]:
    """Return the pods of the job's ranks, in rank order.

    As in the operator, a pod belongs to a rank if this job controls the pod and the pod has the
    rank's name. Labels are not sufficient, because anyone who may create pods can set them.
    """
    owner = names.owner_key(job.metadata.namespace, job.name, job.metadata.uid)
    rank_of = _rank_of(job)
    own = (body for body in bodies if owner_of(body["metadata"]) == owner)
    found = (RankPod(body, rank_of(str(body["metadata"]["name"]))) for body in own)
    return sorted((pod for pod in found if pod.rank >= 0), key=lambda pod: pod.rank)


def _rank_of(job: Job) -> Callable[[str], int]:
    """Return a function that converts the name of a pod to its rank.

    A job's pods may still be running after its spec has become invalid. If the job has no tasks,
    the pods' names do not depend on the spec.
    """
    try:
        return gang_of(job.model).rank_of
    except SpecError:
        return partial(_index_in, job.name)


def _index_in(job: str, pod: str) -> int:
    prefix, index = split_pod_name(pod)
    return index if prefix == job else -1


def _find_by_name(states: Iterable[Mapping[str, Any]], name: str) -> Mapping[str, Any]:
    return next((one for one in states if one.get("name") == name), {})
