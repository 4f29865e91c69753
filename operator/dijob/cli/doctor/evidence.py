"""All that the checks know: what the apiserver and the pods have said."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from typing import Any

from dijob.api.model import DIJob
from dijob.api.problems import SpecError
from dijob.cli.doctor.probe import Probe
from dijob.cli.stacks.read import Look
from dijob.cli.topology.compare import Report
from dijob.client import Job, RankPod
from dijob.core.members import say

# An import of torch and DI-engine takes a slow node so long.
STARTING_SECONDS = 30.0
Objects = Sequence[Mapping[str, Any]]


@dataclass(frozen=True)
class Evidence:
    """What was found. Lists are None where they may not be read, with the reason in `refused`."""

    job: Job
    pods: Sequence[RankPod] = ()
    probes: Mapping[int, Probe] = field(default_factory=dict)
    report: Report | None = None
    """The connections; None where the job has none to look at."""
    policies: Objects | None = ()
    quotas: Objects | None = ()
    refused: Mapping[str, str] = field(default_factory=dict)
    stacks: Mapping[int, Look] | None = None
    """Where the ranks' processes stand; None where that was not asked for."""
    now: datetime | None = None
    """When it was collected."""
    printed: Mapping[int, datetime] | None = field(default_factory=dict)
    """When each rank that runs printed its last line, or began; None if no log could be read."""
    unserved: bool = False
    """Whether the status has not followed the job and its pods for some seconds."""
    claim: Mapping[str, Any] | None = None
    """The Lease by which a release claims the namespace, None if there is none."""

    @cached_property
    def model(self) -> DIJob | None:
        """The job as the operator reads it, None where it cannot."""
        try:
            return self.job.model
        except SpecError:
            return None

    @cached_property
    def starting(self) -> frozenset[int]:
        """The ranks whose program began a moment ago: it may not have come to its connections."""
        return frozenset(pod.rank for pod in self.pods if self._age(pod) < STARTING_SECONDS)

    def _age(self, pod: RankPod) -> float:
        if pod.begun and self.now:
            return (self.now - pod.begun).total_seconds()
        return STARTING_SECONDS

    @cached_property
    def running(self) -> frozenset[int]:
        """The ranks whose main container runs."""
        return frozenset(pod.rank for pod in self.pods if pod.running)

    @property
    def quiet_seconds(self) -> int:
        """For how long no rank has printed a line; 0 if that is not known."""
        if not self.printed or not self.now:
            return 0
        return max(0, int((self.now - max(self.printed.values())).total_seconds()))

    @property
    def answered(self) -> dict[int, Probe]:
        """The probes that have an answer."""
        return {rank: probe for rank, probe in self.probes.items() if not probe.problem}

    @property
    def silence(self) -> str:
        """Why ranks that run could not be asked, in a sentence; "" if all were. Other checks say
        why the other ranks do not run.
        """
        causes = dict[str, list[int]]()
        for rank, probe in self.probes.items():
            if probe.problem and rank in self.running:
                causes.setdefault(probe.problem, []).append(rank)
        return "; ".join(f"{say(ranks)}: {why}" for why, ranks in causes.items())

    def containers(self) -> Iterator[tuple[RankPod, Mapping[str, Any]]]:
        """The status of each container of each pod, the main one's and all others."""
        for pod in self.pods:
            status = pod.body.get("status") or {}
            for key in ("initContainerStatuses", "containerStatuses"):
                for one in status.get(key) or ():
                    yield pod, one
