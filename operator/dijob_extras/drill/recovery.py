"""Recognizes the stages of a recovery from the states of a job. No I/O, no clock."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from dijob.api.reported import Progress
from dijob.client import Job, RankPod
from dijob.core.members import format_count, format_ranks

from dijob_extras.drill.victims import Victims


class Stage(StrEnum):
    """The stages of a recovery, in order."""

    DETECTION = "detection"
    RESTART = "restart"
    CONNECTED = "connected"
    PROGRESS = "progress"


@dataclass
class Recovery:
    """What has been observed since the pods were deleted.

    `before` is the job before the deletion.
    """

    before: Job
    victims: Victims
    seconds: dict[Stage, float] = field(default_factory=dict)
    repeated: int = 0
    """Iterations that were lost: how far the progress fell below its highest value."""
    failures: int = 0
    """Failures that the job has counted since the deletion."""
    _peak: int = 0
    _unit: str = ""
    _connected_time: str = ""

    def __post_init__(self) -> None:
        self._unit, self._peak = _position(self.before.progress)

    @property
    def reports_progress(self) -> bool:
        """Whether the job reports progress. If it does, the drill waits for progress."""
        return bool(self._unit)

    @property
    def next_stage(self) -> Stage | None:
        """The first stage that the job has not reached yet; None if it has recovered."""
        stages = [each for each in Stage if each is not Stage.PROGRESS or self.reports_progress]
        return next((each for each in stages if each not in self.seconds), None)

    def observe(self, job: Job, pods: Sequence[RankPod], seconds: float) -> list[str]:
        """Return a line for each stage that the job has reached. `seconds` is the time since the
        deletion.
        """
        self.failures = max(0, job.status.restarts - self.before.status.restarts)
        self._follow_progress(job.progress)
        lines = []
        while (stage := self.next_stage) and (said := self._reached(stage, job, pods)):
            self.seconds[stage] = seconds
            lines.append(f"{seconds:6.1f} s  {stage}: {said}")
        return lines

    def _follow_progress(self, progress: Progress | None) -> None:
        unit, position = _position(progress)
        if unit == self._unit:
            self.repeated = max(self.repeated, self._peak - position)
            self._peak = max(self._peak, position)

    def _reached(self, stage: Stage, job: Job, pods: Sequence[RankPod]) -> str:
        """Return the evidence that the job has reached a stage, or "" if it has not."""
        match stage:
            case Stage.DETECTION:
                return self._detected(job)
            case Stage.RESTART:
                if all(pod.running for pod in self._new_pods(pods)) and self._are_there(pods):
                    verb = "runs" if len(self.victims.pods) == 1 else "run"
                    return f"{format_ranks(self.victims.ranks)} {verb} in new pods"
            case Stage.CONNECTED:
                ready = all(pod.ready for pod in self._new_pods(pods)) and self._are_there(pods)
                if ready and job.is_true("PeersReady") and self._has_new_list(job):
                    self._connected_time = job.progress.time if job.progress else ""
                    return f"all ranks are Ready with peer list revision {job.status.list_number}"
            case Stage.PROGRESS:
                # Progress from before the rendezvous does not show that the training continues.
                if job.progress and job.progress.time > self._connected_time:
                    return job.progress.line or "the job has reported progress"
        return ""

    def _detected(self, job: Job) -> str:
        renewal = job.status.last_renewal
        if renewal and job.status.renewals > self.before.status.renewals:
            return renewal.message
        peers = job.condition("PeersReady")
        return peers.message if peers and peers.status != "True" else ""

    def _has_new_list(self, job: Job) -> bool:
        return job.status.list_number > self.before.status.list_number

    def _new_pods(self, pods: Sequence[RankPod]) -> list[RankPod]:
        old = {pod.uid for pod in self.victims.pods}
        return [pod for pod in pods if pod.rank in self.victims.ranks and pod.uid not in old]

    def _are_there(self, pods: Sequence[RankPod]) -> bool:
        return {pod.rank for pod in self._new_pods(pods)} == set(self.victims.ranks)

    def summary(self) -> str:
        """Return the result as one sentence."""
        lost = f"{format_count(self.repeated, self._unit)} lost" if self._unit else ""
        total = max(self.seconds.values())
        counted = format_count(self.failures, "failure")
        parts = [f"{self.before.name} recovered in {total:.1f} s", lost, f"{counted} counted"]
        return ", ".join(filter(None, parts))

    def as_data(self) -> Mapping[str, Any]:
        """Return the result for JSON. A stage that was not observed is null."""
        return {
            "job": self.before.name,
            "ranks": self.victims.ranks,
            "node": self.victims.node or None,
            "seconds": {
                stage.value: round(self.seconds[stage], 1) if stage in self.seconds else None
                for stage in Stage
            },
            "lost": {self._unit: self.repeated} if self._unit else None,
            "failures": self.failures,
        }


def _position(progress: Progress | None) -> tuple[str, int]:
    """Return the unit and the value of the progress; ("", 0) if there is none."""
    if progress is not None and progress.iteration is not None:
        return "iteration", progress.iteration
    if progress is not None and progress.env_step is not None:
        return "step", progress.env_step
    return "", 0
