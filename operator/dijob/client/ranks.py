"""The pods of a job's ranks as the client sees them."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any

from dijob import names
from dijob.api.numbers import natural
from dijob.api.problems import SpecError
from dijob.api.status import parse_time
from dijob.client.connection import Json
from dijob.client.jobs import Job
from dijob.core.members import gang_of, split
from dijob.core.observed.parse import owner_of
from dijob.pod import RENEWAL_CODE


@dataclass(frozen=True)
class RankPod:
    """One pod of a job."""

    body: Mapping[str, Any]
    """The pod as the apiserver gives it."""
    rank: int = -1
    """Its number in the job; -1 if it is no rank's."""

    @property
    def meta(self) -> Mapping[str, Any]:
        """Its metadata."""
        found: Mapping[str, Any] = self.body["metadata"]
        return found

    @property
    def name(self) -> str:
        """Its name."""
        return str(self.meta["name"])

    @property
    def uid(self) -> str:
        """Another one where the pod was made anew."""
        return str(self.meta.get("uid", ""))

    @property
    def task(self) -> str:
        """The name of its task; "" where the job has none."""
        return str((self.meta.get("labels") or {}).get(names.LEGACY_TASK_NAME, ""))

    @property
    def node(self) -> str:
        """The node that it is on; "" before it has one."""
        return str(self.body.get("spec", {}).get("nodeName") or "")

    @property
    def ip(self) -> str:
        """Its address; "" before it has one."""
        return str(self._status.get("podIP") or "")

    @property
    def list_number(self) -> int:
        """The number of the address list that it was given; 0 for none."""
        value = str((self.meta.get("annotations") or {}).get(names.ANNOTATION_LIST_NUMBER, ""))
        return natural(value) or 0

    @property
    def container(self) -> str:
        """The name of its main container."""
        found = [one["name"] for one in self.body.get("spec", {}).get("containers", ())]
        return names.MAIN_CONTAINER if names.MAIN_CONTAINER in found or not found else found[0]

    @property
    def restarts(self) -> int:
        """How often its main container has started again in it."""
        return int(self._main.get("restartCount", 0))

    @property
    def ready(self) -> bool:
        """Whether its process listens."""
        return bool(self._main.get("ready"))

    @property
    def running(self) -> bool:
        """Whether its main container runs."""
        return "running" in (self._main.get("state") or {})

    @property
    def started(self) -> bool:
        """Whether its main container runs or has ended: whether it has a log."""
        return bool({"running", "terminated"} & (self._main.get("state") or {}).keys())

    @property
    def begun(self) -> datetime | None:
        """When its main container began to run; None if it does not run."""
        return parse_time(((self._main.get("state") or {}).get("running") or {}).get("startedAt"))

    @property
    def last_exit(self) -> int | None:
        """The exit code with which its main container ended before it started again; None where it
        has not.
        """
        ended = (self._main.get("lastState") or {}).get("terminated")
        return int(ended.get("exitCode", 0)) if ended else None

    @property
    def gate(self) -> str:
        """What its gate does: waits, passed, or "" where it has none yet."""
        found = _named(self._status.get("initContainerStatuses", ()), names.GATE_CONTAINER)
        state = found.get("state") or {}
        if (state.get("terminated") or {}).get("exitCode") == 0:
            return "passed"
        return "waits" if "running" in state else ""

    @property
    def state(self) -> str:
        """Where it stands in one word, the kubelet's own where something is wrong."""
        if self.meta.get("deletionTimestamp"):
            return "Terminating"
        for one in (*self._status.get("initContainerStatuses", ()), self._main):
            state = one.get("state") or {}
            word = (state.get("waiting") or {}).get("reason", "")
            if word and word not in ("PodInitializing", "ContainerCreating"):
                return str(word)
        if ended := (self._main.get("state") or {}).get("terminated"):
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
        return _named(self._status.get("containerStatuses", ()), self.container)


def ranks_of(job: Job, bodies: Iterable[Json]) -> list[RankPod]:
    """The pods of the job's ranks among these, in rank order.

    As for the operator, a rank's pod is controlled by this very job and has the rank's name. Labels
    do not count: anyone who may create pods can set them.
    """
    owner = names.owner_key(job.metadata.namespace, job.name, job.metadata.uid)
    rank_of = _rank_of(job)
    own = (body for body in bodies if owner_of(body["metadata"]) == owner)
    found = (RankPod(body, rank_of(str(body["metadata"]["name"]))) for body in own)
    return sorted((pod for pod in found if pod.rank >= 0), key=lambda pod: pod.rank)


def _rank_of(job: Job) -> Callable[[str], int]:
    """What gives the rank of a pod's name. The pods of a job whose spec cannot be read now may
    still run: without tasks their names do not depend on it.
    """
    try:
        return gang_of(job.model).rank_of
    except SpecError:
        return partial(_index_in, job.name)


def _index_in(job: str, pod: str) -> int:
    prefix, index = split(pod)
    return index if prefix == job else -1


def _named(states: Iterable[Mapping[str, Any]], name: str) -> Mapping[str, Any]:
    return next((one for one in states if one.get("name") == name), {})
