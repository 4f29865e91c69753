"""The one place where an object of the apiserver becomes a DIJob."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from pydantic import ValidationError

from dijob.api import checks, depth
from dijob.api.model import DIJob, Metadata
from dijob.api.problems import SpecError, from_validation
from dijob.api.spec import Spec
from dijob.api.status import Status

Body = Mapping[str, Any]
Part = TypeVar("Part", Spec, Status)

# No operator has counted to a larger number. One more would not fit into the field, and no status
# could be written any more.
ABSURD = 2_000_000_000


def parse_job(body: Body) -> DIJob:
    """Read an object as the apiserver gives it.

    Raises SpecError with every problem found, also those that the CRD's rules refuse: an object can
    be older than a rule. Fields of the status that cannot be read count as absent.
    """
    _refuse_depth(body)
    try:
        job = DIJob(
            metadata=Metadata.model_validate(body.get("metadata") or {}),
            spec=Spec.model_validate(body.get("spec") or {}),
            status=stored(body),
        )
    except ValidationError as error:
        served = "uid" in (body.get("metadata") or {})
        raise SpecError(from_validation(error, DIJob, served=served)) from error
    found = checks.problems(job)
    if found:
        raise SpecError(found)
    return job


def stored(body: Body) -> Status:
    """The status of an object of the apiserver. Only the fields that cannot be read count as
    absent: a job that has ended stays so, whatever another operator wrote (DI-orchestrator 1.0
    could count below zero)."""
    given = body.get("status")
    kept = {n: v for n, v in given.items() if not _absurd(v)} if isinstance(given, Mapping) else {}
    return _readable(Status, kept)


def _read(body: Body) -> DIJob:
    """The job as the operator goes by it.

    Of one that has ended nothing is run any more: what is read is for the clean-up. So what a rule
    refuses that is younger than the job is no matter, and what cannot be read counts as absent.
    """
    status = stored(body)
    if not status.ended:
        return parse_job(body)
    _refuse_depth(body)
    meta = Metadata.model_validate(body.get("metadata") or {})
    return DIJob(metadata=meta, spec=_readable(Spec, body.get("spec") or {}), status=status)


def _refuse_depth(body: Body) -> None:
    if found := tuple(depth.problems(body.get("spec"), "spec")):
        raise SpecError(found)


def _readable(model: type[Part], given: Mapping[str, Any]) -> Part:
    """The object without those of its fields that cannot be read."""
    kept = dict(given)
    for _ in range(2):
        try:
            return model.model_validate(kept)
        except ValidationError as error:
            wrong = {detail["loc"][0] for detail in error.errors(include_url=False)}
            kept = {name: value for name, value in kept.items() if name not in wrong}
    return model()


@dataclass(frozen=True)
class Parsed:
    """A job, and the raw spec that it was read from: an equal spec is not read again."""

    job: DIJob
    spec: Any

    @staticmethod
    def of(body: Body, before: "Parsed | None" = None) -> "Parsed":
        """The job in this body; `before` is an older version. Raises SpecError like `parse_job`,
        but not of a job that has ended.
        """
        version, spec = str(body["metadata"]["resourceVersion"]), body.get("spec")
        if before is None:
            return Parsed(_read(body), spec)
        if before.job.metadata.resource_version == version:
            return before
        # Most new versions differ in status and metadata alone: a command is not read again.
        return Parsed(_with_spec_of(before.job, body) if spec == before.spec else _read(body), spec)


def _with_spec_of(job: DIJob, body: Body) -> DIJob:
    """The job in a body that has the same spec as this one."""
    meta = Metadata.model_validate(body["metadata"])
    return job.model_copy(update={"metadata": meta, "status": stored(body)})


def _absurd(value: object) -> bool:
    """Whether there is a number in it that cannot have been counted."""
    if isinstance(value, Mapping):
        return any(map(_absurd, value.values()))
    if isinstance(value, list):
        return any(map(_absurd, value))
    return isinstance(value, int) and value > ABSURD
