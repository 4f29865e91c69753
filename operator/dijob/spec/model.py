"""The DIJob as users write it and as the operator stores its status: the one source of the CRD's schema."""

from collections.abc import Mapping
from functools import cached_property
from typing import Annotated, Any

from pydantic import ConfigDict, Field, ValidationError

from dijob import names
from dijob.names import Addressing, CleanPodPolicy, Launcher, RestartScope, Topology
from dijob.spec import checks
from dijob.spec.command import Command
from dijob.spec.problems import Problem, SpecError, from_validation
from dijob.spec.status import Charge, Condition, FirstFailure, Status, Stored, stored

__all__ = [
    "Charge", "Condition", "DIJob", "FirstFailure", "Metadata", "Problem", "Spec", "SpecError", "Status",
    "Template",
]  # fmt: skip

Replicas = Annotated[int, Field(strict=True, ge=1, le=names.MAX_REPLICAS)]
Workers = Annotated[int, Field(strict=True, ge=1, le=names.MAX_WORKERS)]
BackoffLimit = Annotated[int, Field(strict=True, ge=0, le=1000)]
GatherSeconds = Annotated[int, Field(strict=True, ge=0, le=3600)]
ScheduleTimeout = Annotated[int, Field(strict=True, ge=5, le=86400)]
# Kubernetes bounds annotations at 256 KiB in sum, label values at 63 characters.
Labels = Annotated[dict[str, Annotated[str, Field(max_length=63)]], Field(max_length=64)]
Annotations = Annotated[dict[str, Annotated[str, Field(max_length=65536)]], Field(max_length=64)]


class Written(Stored):
    """What a user wrote: an unknown field is a slip, and is said."""

    model_config = ConfigDict(extra="forbid")


class Metadata(Stored):
    """The parts of the object's metadata that the operator reads."""

    name: str
    namespace: str = "default"
    uid: str = ""
    generation: int = 0
    annotations: dict[str, str] = Field(default_factory=dict)
    labels: dict[str, str] = Field(default_factory=dict)
    deletion_timestamp: str | None = None
    resource_version: str = ""


class TemplateMetadata(Written):
    """Labels and annotations of the pods."""

    labels: Labels | None = None
    """Labels that every pod gets besides the operator's. Keys below diengine.opendilab.org/ are refused."""
    annotations: Annotations | None = None
    """Annotations that every pod gets. Keys below diengine.opendilab.org/ are refused."""


class Template(Written):
    """The pod that is made once per rank, written as in a Deployment or a Job."""

    metadata: TemplateMetadata = TemplateMetadata()
    """Labels and annotations of the pods."""
    spec: dict[str, Any] | None = None
    """The pod's spec, anything that Kubernetes knows. The main container is the one named di-container, else
    the first. restartPolicy is OnFailure or Never. The operator adds the variables of the topology (DI_RANK,
    DI_NODES, DI_NODE_IPS, ...), a gate as the last init container, and its launcher before `command`."""
    containers: list[Any] | None = None
    """Never write this: containers belongs under template.spec. Known only so that the refusal can say so."""


class Restart(Written):
    """What is made anew when a rank is lost."""

    scope: RestartScope = RestartScope.POD
    """Pod makes the lost rank anew, and those that dial its address; the others run on. Job makes all ranks anew
    together, for programs that cannot take a member back."""


class Spec(Written):
    """What the user wishes."""

    replicas: Replicas | None = None
    """How many pods the job wishes to have: one rank each. `kubectl scale` writes it. Where it is absent, it
    is maxReplicas (else minReplicas), and the operator writes it down once."""
    min_replicas: Replicas | None = None
    """How many pods must have addresses before the job starts: ranks 0 to minReplicas-1. The others join when they
    can. Absent: replicas."""
    max_replicas: Replicas | None = None
    """How many pods the job may be scaled to. Absent: replicas."""
    parallel_workers: Workers | None = None
    """Worker processes per pod; the world's size is pods x parallelWorkers. Absent: what the command's
    --parallel-workers says, else 1. Cannot be changed later."""
    topology: Topology = Topology.MESH
    """Who connects to whom: mesh (each to all), star (all to rank 0) or alone (nobody). Absent: what the
    command's --topology says, else mesh. Cannot be changed later."""
    addressing: Addressing = Addressing.IP
    """What stands in DI_NODES: the pods' IPs, or their names (JOB-RANK.JOB), which stay when a pod is made anew: then
    nobody else starts again after a loss, but each start waits for the cluster's DNS. Cannot be changed later."""
    launcher: Launcher = Launcher.AUTO
    """Auto puts the operator's launcher before the template's command, so that a plain `ditask ...` finds its
    peers in any image; Off runs the command as it is. Cannot be changed later."""
    clean_pod_policy: CleanPodPolicy = CleanPodPolicy.RUNNING
    """Which pods are deleted when the job has ended: Running (those still running; the others keep their
    logs), All or None."""
    restart: Restart = Restart()
    """What is made anew when a rank is lost: its pod deleted or evicted, its node gone, its address changed."""
    gather_seconds: GatherSeconds = 10
    """How long ranks that have their addresses wait for others that are wished for and have none yet: at the start,
    once minReplicas ranks are there, and when ranks join later. 0: not at all."""
    schedule_timeout_seconds: ScheduleTimeout = 300
    """How long a job that has not started yet may hold pods while a rank below minReplicas finds no node. Then it
    gives all of its pods back, so that another job can start, and tries again later."""
    backoff_limit: BackoffLimit = 3
    """How many restarts that follow a failure the whole job may have before it is Failed. Evictions, lost
    nodes and pods deleted by hand are not charged."""
    template: Template
    """The pod that is made once per rank, written as in a Deployment or a Job. Cannot be changed later."""

    @property
    def desired(self) -> int:
        """How many ranks the job wishes to have: replicas, else maxReplicas, else minReplicas."""
        return self.replicas or self.max_replicas or self.min_replicas or 1

    @property
    def minimum(self) -> int:
        """How many ranks must have addresses before the job starts."""
        return self.min_replicas or self.desired

    @property
    def maximum(self) -> int:
        """How many ranks the job may grow to."""
        return self.max_replicas or self.desired


class DIJob(Stored):
    """A distributed reinforcement learning job: N pods that form one DI-engine world. Each process knows its
    peers' IPs, its node ids and the world's size from environment variables."""

    metadata: Metadata
    spec: Spec
    """What the user wishes."""
    status: Status = Status()
    """What the operator has seen and done. Written by the operator only."""

    @staticmethod
    def parse(body: Mapping[str, Any]) -> "DIJob":
        """Read an object as the apiserver gives it.

        Raises SpecError with every problem found, also those that the CRD's rules would have refused: an
        object can be older than a rule. A status that somebody else wrote counts as none.
        """
        try:
            job = DIJob(
                metadata=Metadata.model_validate(body.get("metadata") or {}),
                spec=Spec.model_validate(body.get("spec") or {}),
                status=stored(body),
            )
        except ValidationError as error:
            raise SpecError(from_validation(error)) from error
        found = checks.problems(job)
        if found:
            raise SpecError(found)
        return job

    @property
    def main_container(self) -> Mapping[str, Any]:
        """The container that the job is about: the one named di-container, else the first, else {}."""
        containers = checks.containers(self.spec.template.spec) or [{}]
        named = (one for one in containers if one.get("name") == names.MAIN_CONTAINER)
        return next(named, containers[0])

    @cached_property
    def command(self) -> Command:
        """What the main container's command line says."""
        return Command.of(self.main_container)

    @property
    def workers(self) -> int:
        """Worker processes per pod: spec.parallelWorkers, else the command's --parallel-workers, else 1."""
        return self.spec.parallel_workers or self.command.parallel_workers or 1

    @property
    def topology(self) -> Topology:
        """Who dials whom: spec.topology where it is set, else the command's --topology, else mesh."""
        told = self.command.topology
        if "topology" not in self.spec.model_fields_set and told in set(Topology):
            return Topology(told)
        return self.spec.topology

    @property
    def paused(self) -> bool:
        """Whether somebody has asked by annotation to leave the job alone for now; any value but "false" will do."""
        return self.metadata.annotations.get(names.ANNOTATION_PAUSED, "false") != "false"

    @property
    def warnings(self) -> tuple[Problem, ...]:
        """What is allowed and still likely to surprise: to be said, never to stop anything."""
        return checks.warnings(self)
