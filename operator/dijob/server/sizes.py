"""Reads and changes the size of a job.

Changes go through the scale subresource, as with `kubectl scale`. So the API server applies the
CRD's rules to them, and this server needs no permission to change other fields of the spec.
"""

from typing import Any, Final

from dijob import names
from dijob.api.model import DIJob
from dijob.api.parse import Parsed
from dijob.api.problems import SpecError
from dijob.core.members import gang_of
from dijob.core.observed.made import controller_of, first_port
from dijob.kube.api import Api, Json, RequestError
from dijob.kube.connection import OperatorRequest
from dijob.kube.kinds import JOBS, PODS
from dijob.server.callers import JobName
from dijob.server.requests import RequestRejection

MANAGER: Final = {"fieldManager": "dijob-server"}
# How many times a change is attempted if other clients change the job in between.
TRIES: Final = 5
ENDED: Final = (names.Phase.SUCCEEDED, names.Phase.FAILED)


class Sizes:
    """Reads jobs and changes their `spec.replicas`."""

    def __init__(self, api: Api) -> None:
        self._api = api

    async def read(self, job: JobName) -> Json:
        """Return the DIJob. Raises RequestRejection if the job does not exist, or if another job
        now has the same name.
        """
        try:
            body = await self._api.get(JOBS.path(job.namespace, job.name))
        except RequestError as error:
            if error.not_found:
                raise RequestRejection(404, f"DIJob {job} does not exist") from error
            raise
        if job.uid and body["metadata"]["uid"] != job.uid:
            raise RequestRejection(
                404, f"this pod's DIJob {job} no longer exists; another DIJob now has the same name"
            )
        return body

    async def addresses(self, job: JobName) -> list[str]:
        """Return ADDRESS:PORT of each replica in rank order, and "" for a replica without an
        address.

        This is the format of di-server (pkg/server/processor.go, getNamespacedReplicas).
        """
        gang = gang_of(_parsed(await self.read(job), job))
        selector = f"{names.LABEL_JOB}={job.name}"
        listed = await self._api.get(PODS.path(job.namespace), labelSelector=selector)
        found: dict[int, str] = {}
        for pod in listed.get("items") or ():
            # Anyone who can write pods can change their labels, so the rank is taken from the pod's
            # name. `rank_of` returns only ranks below MAX_REPLICAS, so the list below has at most
            # MAX_REPLICAS entries.
            rank = gang.rank_of(pod["metadata"]["name"])
            if rank >= 0 and controller_of(pod["metadata"]).get("uid") == gang.uid:
                found[rank] = _pod_address(pod)
        return [found.get(rank, "") for rank in range(max(found, default=-1) + 1)]

    async def change(self, job: JobName, by: int) -> int:
        """Change the number of replicas by a positive or negative number and return the result."""
        return await self._set(job, lambda now: now + by)

    async def set(self, job: JobName, to: int) -> int:
        """Set the number of replicas and return it."""
        return await self._set(job, lambda now: to)

    async def _set(self, job: JobName, wanted: Any) -> int:
        for _ in range(TRIES):
            body = await self.read(job)
            size: int = wanted(now := _size_of(body, job))
            _check_size(body, job, size)
            if size == now:
                return size
            precondition = {"resourceVersion": body["metadata"]["resourceVersion"]}
            patch = {"metadata": precondition, "spec": {"replicas": size}}
            path = f"{JOBS.path(job.namespace, job.name)}/scale"
            try:
                await self._api.call(OperatorRequest("PATCH", path, patch, query=MANAGER))
            except RequestError as error:
                if error.conflict:
                    continue
                # A rule of the CRD rejects the size, and its message says which sizes are allowed.
                if error.status == 422:
                    raise RequestRejection(422, error.message) from error
                raise
            return size
        raise RequestRejection(409, f"other clients keep changing DIJob {job}: try again", 1.0)


def _size_of(body: Json, job: JobName) -> int:
    """Return the value of `spec.replicas`, or the value that the operator is about to set.

    Raises RequestRejection if the last task's own `replicas` field was set a moment ago. The
    operator is about to copy that field to `spec.replicas`, and would overwrite the value from this
    request (api/last_task.py).
    """
    if not body["spec"].get("tasks"):
        # If the spec has no `replicas`, status.desired has the size until the operator sets
        # `replicas`.
        return int(body["spec"].get("replicas") or (body.get("status") or {}).get("desired", 0))
    spec = _parsed(body, job).spec
    if spec.replicas is None:
        raise RequestRejection(
            409, f"the replicas of the last task of DIJob {job} have just been set: try again", 1.0
        )
    return spec.scale


def _parsed(body: Json, job: JobName) -> DIJob:
    try:
        return Parsed.of(body).job
    except SpecError as error:
        raise RequestRejection(409, f"DIJob {job} has an invalid spec: {error}") from error


def _check_size(body: Json, job: JobName, size: int) -> None:
    """Raise RequestRejection if the job cannot have this size.

    The API server would also reject such a size, but this function's messages name the job and its
    limits.
    """
    spec, phase = body["spec"], (body.get("status") or {}).get("phase")
    if body["metadata"].get("deletionTimestamp") or phase in ENDED:
        raise RequestRejection(
            409, f"DIJob {job} has ended or is being deleted, so its size cannot be changed"
        )
    tasks = spec.get("tasks")
    bounds, such = (tasks[-1], "replicas of its last task") if tasks else (spec, "replicas")
    least, most = bounds.get("minReplicas") or 1, bounds.get("maxReplicas") or names.MAX_REPLICAS
    if not least <= size <= most:
        raise RequestRejection(
            422,
            f"DIJob {job} cannot have {size} {such}: its minReplicas and maxReplicas allow {least}"
            f" to {most}",
        )


def _pod_address(pod: Json) -> str:
    address = (pod.get("status") or {}).get("podIP") or ""
    if not address:
        return ""
    host = f"[{address}]" if ":" in address else address
    return f"{host}:{first_port(pod['spec'])}"
