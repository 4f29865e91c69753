"""The input to the checks: what the API server and the pods reported."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from typing import Any

from dijob.api.model import DIJob
from dijob.api.problems import SpecError
from dijob.cli.doctor.extension import ExtensionFindings
from dijob.cli.doctor.probe import Probe
from dijob.cli.queues import QueueFinding
from dijob.cli.topology.compare import Report
from dijob.client import Job, RankPod
from dijob.core.members import format_ranks

# Importing torch and DI-engine takes this long on a slow node. Until then, a missing connection is
# not a problem.
STARTING_SECONDS = 30.0
Objects = Sequence[Mapping[str, Any]]


@dataclass(frozen=True)
class Evidence:
    """The evidence about one job. A list that the user lacks permission to read is None, and
    `refused` contains the API error.
    """

    job: Job
    pods: Sequence[RankPod] = ()
    probes: Mapping[int, Probe] = field(default_factory=dict)
    report: Report | None = None
    """The connections; None if no rank is running."""
    policies: Objects | None = ()
    quotas: Objects | None = ()
    budgets: Objects | None = ()
    refused: Mapping[str, str] = field(default_factory=dict)
    added: Sequence[ExtensionFindings] = ()
    """The findings of the extensions whose options were given."""
    hints: Sequence[str] = ()
    """One hint from each extension: an option, and what it shows about a hanging program."""
    now: datetime | None = None
    """When the evidence was collected."""
    printed: Mapping[int, datetime] | None = field(default_factory=dict)
    """For each running rank, the time of its last log line. If the rank has printed no line, this
    is the rank's start time. The whole field is None if the logs are unreadable.
    """
    unserved: bool = False
    """Whether the status has been stale for so long that no operator seems to serve the job."""
    claim: Mapping[str, Any] | None = None
    """The Lease with which a release claims the namespace; None if there is none."""
    queue: QueueFinding | None = None
    """The queue of the job's engine; None if its engine has no queues."""

    @cached_property
    def model(self) -> DIJob | None:
        """The job as the operator parses it; None if it is invalid."""
        try:
            return self.job.model
        except SpecError:
            return None

    @cached_property
    def starting(self) -> frozenset[int]:
        """The ranks that started too recently to have all connections."""
        return frozenset(pod.rank for pod in self.pods if self._age(pod) < STARTING_SECONDS)

    def _age(self, pod: RankPod) -> float:
        if pod.begun and self.now:
            return (self.now - pod.begun).total_seconds()
        # A rank whose start time is unknown counts as fully started. Otherwise its missing
        # connections would not be reported.
        return STARTING_SECONDS

    @cached_property
    def running(self) -> frozenset[int]:
        """The ranks whose main container is running."""
        return frozenset(pod.rank for pod in self.pods if pod.running)

    @property
    def quiet_seconds(self) -> int:
        """Seconds since any rank last printed a line; 0 if unknown."""
        if not self.printed or not self.now:
            return 0
        return max(0, int((self.now - max(self.printed.values())).total_seconds()))

    @property
    def answered(self) -> dict[int, Probe]:
        """Maps each rank that answered its probe to the answer."""
        return {rank: probe for rank, probe in self.probes.items() if not probe.problem}

    @property
    def silence(self) -> str:
        """Why running ranks could not be probed; "" if all answered.

        Ranks that are not running are not included: other checks explain why they are not running.
        """
        causes = dict[str, list[int]]()
        for rank, probe in self.probes.items():
            if probe.problem and rank in self.running:
                causes.setdefault(probe.problem, []).append(rank)
        return "; ".join(f"{format_ranks(ranks)}: {why}" for why, ranks in causes.items())

    def containers(self) -> Iterator[tuple[RankPod, Mapping[str, Any]]]:
        """Yield the status of each container of each pod, init containers first."""
        for pod in self.pods:
            status = pod.body.get("status") or {}
            for key in ("initContainerStatuses", "containerStatuses"):
                for one in status.get(key) or ():
                    yield pod, one
