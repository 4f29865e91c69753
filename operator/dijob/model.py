"""The DIJob as users write it and as the operator stores its status: the one source of the CRD's schema."""

from collections.abc import Mapping
from functools import cached_property
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic.alias_generators import to_camel

from dijob import checks, names
from dijob.command import Command
from dijob.names import CleanPodPolicy, Launcher, Topology
from dijob.problems import Problem, SpecError, from_validation

MAX_BACKOFF_LIMIT = 1000
MAX_RANK = names.MAX_REPLICAS - 1
Replicas = Annotated[int, Field(strict=True, ge=1, le=names.MAX_REPLICAS)]
Workers = Annotated[int, Field(strict=True, ge=1, le=names.MAX_WORKERS)]


class _Stored(BaseModel):
    """What apiserver and operator wrote: unknown fields come from other versions and are left alone."""

    model_config = ConfigDict(frozen=True, extra="ignore", alias_generator=to_camel, populate_by_name=True)


class _Written(BaseModel):
    """What a user wrote: an unknown field is a slip, and is said."""

    model_config = ConfigDict(frozen=True, extra="forbid", alias_generator=to_camel, populate_by_name=True)


class Metadata(_Stored):
    """The parts of the object's metadata that the operator reads."""

    name: str
    namespace: str = "default"
    uid: str = ""
    generation: int = 0
    annotations: dict[str, str] = {}
    labels: dict[str, str] = {}
    deletion_timestamp: str | None = None
    resource_version: str = ""


class TemplateMetadata(_Written):
    """Labels and annotations that every pod of the job gets besides the operator's own."""

    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None


class Template(_Written):
    """The pod that is made once per rank, as in a Deployment or a Job."""

    metadata: TemplateMetadata = TemplateMetadata()
    spec: dict[str, Any] | None = None
    # The seed's slip (`containers:` beside `spec:`). Known only so that the refusal is a sentence of ours.
    containers: list[Any] | None = None


class Spec(_Written):
    """What the user wishes."""

    replicas: Replicas | None = None
    min_replicas: Replicas | None = None
    max_replicas: Replicas | None = None
    parallel_workers: Workers | None = None
    topology: Topology = Topology.MESH
    launcher: Launcher = Launcher.AUTO
    clean_pod_policy: CleanPodPolicy = CleanPodPolicy.RUNNING
    backoff_limit: Annotated[int, Field(strict=True, ge=0, le=MAX_BACKOFF_LIMIT)] = 3
    template: Template

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


class Charge(_Stored):
    """What one rank's failures have cost: restarts of the pod `uid` that are already counted."""

    rank: Annotated[int, Field(ge=0, le=MAX_RANK)]
    uid: str = ""
    restarts: Annotated[int, Field(ge=0)] = 0


class FirstFailure(_Stored):
    """The first failure of the job: usually the cause of all later ones."""

    rank: Annotated[int, Field(ge=0, le=MAX_RANK)]
    pod: str = ""
    node: str = ""
    exit_code: int | None = None
    signal: int | None = None
    reason: str = ""
    message: str = ""
    time: str = ""


class Condition(_Stored):
    """One condition in the shape of metav1.Condition."""

    type: str
    status: str
    reason: str = ""
    message: str = ""
    last_transition_time: str = ""
    observed_generation: int = 0


class Renewal(_Stored):
    """The last time that an address list died and the set of pods was made anew: which list, and whose fault."""

    epoch: int = 0
    reason: str = ""
    message: str = ""
    time: str = ""


class Status(_Stored):
    """What the operator stores: what cannot be observed again, and what people and scale read."""

    phase: str = ""
    replicas: int = 0
    ready_replicas: int = 0
    selector: str = ""
    observed_generation: int = 0
    epoch: int = 0
    renewals: int = 0
    last_renewal: Renewal | None = None
    start_time: str | None = None
    completion_time: str | None = None
    restarts: int = 0
    charged: tuple[Charge, ...] = ()
    succeeded_ranks: str = ""
    first_failure: FirstFailure | None = None
    conditions: tuple[Condition, ...] = ()


class DIJob(_Stored):
    """One DIJob object, checked."""

    metadata: Metadata
    spec: Spec
    status: Status = Status()

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
                status=_status(body.get("status") or {}),
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
    def warnings(self) -> tuple[Problem, ...]:
        """What is allowed and still likely to surprise: to be said, never to stop anything."""
        return checks.warnings(self)


def _status(body: Mapping[str, Any]) -> Status:
    try:
        return Status.model_validate(body)
    except ValidationError:
        return Status()
