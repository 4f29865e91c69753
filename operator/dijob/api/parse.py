"""Parses objects from the apiserver into instances of DIJob. No other module does this.

Parsing must be strict for a new job, so that its user learns of mistakes, and lenient for an
existing job. An object may be older than a rule, and its status may have been written by another
operator or by hand. The operator must still be able to clean up such a job.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from pydantic import ValidationError

from dijob.api import checks, limits
from dijob.api.last_task import without_outdated_size
from dijob.api.model import DIJob, Metadata
from dijob.api.problems import SpecError, from_validation
from dijob.api.spec import Spec
from dijob.api.status import Status

Body = Mapping[str, Any]
Part = TypeVar("Part", Spec, Status)

# No real count reaches this number. If the status had a larger number, adding 1 could exceed the
# field's maximum, and the job's status could no longer be written. So a larger number is ignored,
# as if the field were absent.
ABSURD = 2_000_000_000


def parse_job(body: Body, *, from_file: bool = False) -> DIJob:
    """Parse and validate an object from the apiserver, or from a user's file (`from_file`).

    Raises SpecError with every problem found. That includes violations of the CRD's rules, because
    an object can be older than a rule. Fields of the status that cannot be read are treated as
    absent.
    """
    # The depth is checked first, because pydantic recurses into every level.
    _refuse_depth(body)
    try:
        meta, status = Metadata.model_validate(body.get("metadata") or {}), parse_status(body)
        spec = Spec.model_validate(body.get("spec") or {})
        spec = without_outdated_size(spec, meta.annotations, status)
        job = DIJob(metadata=meta, spec=spec, status=status)
    except ValidationError as error:
        # An unknown field in a user's file is a typo, even if the file was saved from the cluster
        # and so has a uid. In an object from the apiserver, it is a field that the CRD has but that
        # this operator does not know.
        served = not from_file and "uid" in (body.get("metadata") or {})
        raise SpecError(from_validation(error, DIJob, served=served)) from error
    found = checks.job_problems(job)
    if found:
        raise SpecError(found)
    return job


def parse_status(body: Body) -> Status:
    """Return the status of an object from the apiserver.

    Each field that cannot be read is treated as absent, and the others are kept. So a job that has
    ended stays ended, even if another operator wrote invalid values (DI-orchestrator 1.0 wrote
    negative counts).
    """
    given = body.get("status")
    kept = (
        {n: v for n, v in given.items() if not _has_absurd_number(v)}
        if isinstance(given, Mapping)
        else {}
    )
    return _drop_unreadable(Status, kept)


def _read_job(body: Body) -> DIJob:
    """Return the job, without validation if it has ended.

    The operator starts nothing for a job that has ended, and reads its spec only to clean up. So
    fields that cannot be read are treated as absent, and rules that are newer than the job do not
    matter.
    """
    status = parse_status(body)
    if not status.ended:
        return parse_job(body)
    _refuse_depth(body)
    meta = Metadata.model_validate(body.get("metadata") or {})
    return DIJob(metadata=meta, spec=_drop_unreadable(Spec, body.get("spec") or {}), status=status)


def _refuse_depth(body: Body) -> None:
    if found := tuple(limits.depth_problems(body.get("spec"), "spec")):
        raise SpecError(found)


def _drop_unreadable(model: type[Part], given: Mapping[str, Any]) -> Part:
    """Return the object without the fields that cannot be read."""
    kept = dict(given)
    # Without the invalid fields, the object should be valid. If it is not, the whole object is
    # treated as absent.
    for _ in range(2):
        try:
            return model.model_validate(kept)
        except ValidationError as error:
            wrong = {detail["loc"][0] for detail in error.errors(include_url=False)}
            kept = {name: value for name, value in kept.items() if name not in wrong}
    return model()


@dataclass(frozen=True)
class Parsed:
    """A job together with the raw spec from which it was parsed.

    The raw spec is kept so that an equal spec is not parsed again. Parsing a command is expensive,
    and each time the operator writes the status, it receives an event with the same spec.
    """

    job: DIJob
    spec: Any

    @staticmethod
    def of(body: Body, before: "Parsed | None" = None) -> "Parsed":
        """Return the job in this body. `before` is an older version of the job, if one is known.

        Raises SpecError like `parse_job`, but not for a job that has ended.
        """
        version, spec = str(body["metadata"]["resourceVersion"]), body.get("spec")
        if before is None:
            return Parsed(_read_job(body), spec)
        if before.job.metadata.resource_version == version:
            return before
        # Most new versions differ only in status and metadata.
        return Parsed(
            _with_spec_of(before.job, body) if spec == before.spec else _read_job(body), spec
        )


def _with_spec_of(job: DIJob, body: Body) -> DIJob:
    """Return the job in this body. The body must have the same spec as `job`."""
    meta, status = Metadata.model_validate(body["metadata"]), parse_status(body)
    if job.spec.tasks and not status.ended:
        # Whether `replicas` is outdated also depends on the metadata and the status.
        written = job.spec.model_copy(update={"replicas": body["spec"].get("replicas")})
        spec = without_outdated_size(written, meta.annotations, status)
        if spec.replicas != job.spec.replicas:
            # A copy would keep the cached properties of the other spec.
            return DIJob.model_construct(metadata=meta, spec=spec, status=status)
    return job.model_copy(update={"metadata": meta, "status": status})


def _has_absurd_number(value: object) -> bool:
    """Whether a value contains a number that cannot be a count."""
    if isinstance(value, Mapping):
        return any(map(_has_absurd_number, value.values()))
    if isinstance(value, list):
        return any(map(_has_absurd_number, value))
    return isinstance(value, int) and value > ABSURD
