"""The size of a job: how many replicas it has and is to have, and where they are."""

from typing import Any, Final

from dijob import names
from dijob.api.parse import Parsed
from dijob.api.problems import SpecError
from dijob.core.members import gang_of
from dijob.core.observed.made import controller, first_port
from dijob.server.callers import JobName
from dijob.server.refusal import Refusal
from dijob.shell.api import Api, ApiError, Json
from dijob.shell.connection import Call
from dijob.shell.kinds import JOBS, PODS

MANAGER: Final = {"fieldManager": "dijob-server"}
# So often a change is tried again that somebody else's has overtaken.
TRIES: Final = 5
ENDED: Final = (names.Phase.SUCCEEDED, names.Phase.FAILED)


class Sizes:
    """Reads and changes `spec.replicas`, by the scale subresource."""

    def __init__(self, api: Api) -> None:
        self._api = api

    async def read(self, job: JobName) -> Json:
        """The DIJob; Refusal where there is none of this name, or another one has its name now."""
        try:
            body = await self._api.get(JOBS.path(job.namespace, job.name))
        except ApiError as error:
            if error.not_found:
                raise Refusal(404, f"there is no DIJob {job}") from error
            raise
        if job.uid and body["metadata"]["uid"] != job.uid:
            raise Refusal(404, f"the DIJob {job} of this pod is gone, another one has its name")
        return body

    async def addresses(self, job: JobName) -> list[str]:
        """ADDRESS:PORT of each replica in rank order, as di-server has it (pkg/server/processor.go,
        getNamespacedReplicas); "" for one without an address.
        """
        body = await self.read(job)
        try:
            gang = gang_of(Parsed.of(body).job)
        except SpecError as error:
            raise Refusal(409, f"the spec of the DIJob {job} is not valid: {error}") from error
        selector = f"{names.LABEL_JOB}={job.name}"
        listed = await self._api.get(PODS.path(job.namespace), labelSelector=selector)
        found: dict[int, str] = {}
        for pod in listed.get("items") or ():
            # Labels can be written by anybody who may write pods; a name fits one rank only, and no
            # rank is larger than the largest job.
            rank = gang.rank_of(pod["metadata"]["name"])
            if rank >= 0 and controller(pod["metadata"]).get("uid") == gang.uid:
                found[rank] = _address(pod)
        return [found.get(rank, "") for rank in range(max(found, default=-1) + 1)]

    async def change(self, job: JobName, by: int) -> int:
        """Ask for so many replicas more, or fewer; gives how many it is to have."""
        return await self._set(job, lambda now: now + by)

    async def set(self, job: JobName, to: int) -> int:
        """Ask for so many replicas."""
        return await self._set(job, lambda now: to)

    async def _set(self, job: JobName, wanted: Any) -> int:
        for _ in range(TRIES):
            body = await self.read(job)
            now = int(body["spec"].get("replicas") or (body.get("status") or {}).get("desired", 0))
            size: int = wanted(now)
            _check(body, job, size)
            if size == now:
                return size
            precondition = {"resourceVersion": body["metadata"]["resourceVersion"]}
            patch = {"metadata": precondition, "spec": {"replicas": size}}
            path = f"{JOBS.path(job.namespace, job.name)}/scale"
            try:
                await self._api.call(Call("PATCH", path, patch, query=MANAGER))
            except ApiError as error:
                if error.conflict:
                    continue
                if error.status == 422:
                    raise Refusal(422, error.message) from error
                raise
            return size
        raise Refusal(409, f"the DIJob {job} is being changed by others: ask again", 1.0)


def _check(body: Json, job: JobName, size: int) -> None:
    """Refusal where the job cannot have this size."""
    spec, phase = body["spec"], (body.get("status") or {}).get("phase")
    if body["metadata"].get("deletionTimestamp") or phase in ENDED:
        raise Refusal(409, f"the DIJob {job} has ended, its size is not changed any more")
    if spec.get("tasks"):
        raise Refusal(
            422, f"the DIJob {job} has tasks: change spec.tasks[].replicas of the task instead"
        )
    least, most = spec.get("minReplicas") or 1, spec.get("maxReplicas") or names.MAX_REPLICAS
    if not least <= size <= most:
        raise Refusal(
            422,
            f"the DIJob {job} cannot have {size} replicas: its minReplicas and maxReplicas allow"
            f" {least} to {most}",
        )


def _address(pod: Json) -> str:
    address = (pod.get("status") or {}).get("podIP") or ""
    if not address:
        return ""
    host = f"[{address}]" if ":" in address else address
    return f"{host}:{first_port(pod['spec'])}"
