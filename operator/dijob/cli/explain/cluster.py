"""Checks a job against a cluster without creating anything.

Server-side dry runs show whether the cluster accepts the job and its pods. Nodes, pods and quotas
are listed to see whether the pods fit. All requests use the user's permissions, which usually
differ from the operator's. A check for which the user lacks a permission is UNKNOWN, not NO.
"""

import asyncio
from collections.abc import AsyncGenerator, Mapping
from dataclasses import asdict, dataclass
from http import HTTPStatus
from typing import Any, Final

from dijob.api.model import DIJob
from dijob.cli.calling import Where
from dijob.cli.explain.fields import with_names
from dijob.cli.explain.fit import (
    NO,
    UNKNOWN,
    YES,
    FitFinding,
    free_resources,
    into_nodes,
    into_quotas,
)
from dijob.cli.explain.report import engine_object, pod_specs, sample_pods
from dijob.cli.files import JobFile, job_of
from dijob.cli.queues import find_queue
from dijob.client import ApiError, AsyncClient, DijobError, NotFound, Refused
from dijob.client.connection import ClientConnection, ClientRequest
from dijob.client.errors import NO_SUCH_KIND
from dijob.client.resources import DIJOBS, PODS, Resource
from dijob.core.options import Options
from dijob.core.render.scheduling import ENGINES, engine_of, kueue
from dijob.names import Engine

Data = dict[str, Any]

SECONDS: Final = 15
# In dry runs, this replaces the uid's placeholder in angle brackets, which could be rejected.
_UID: Final = "00000000-0000-0000-0000-000000000000"
# These HTTP statuses mean that the pod would be rejected in every namespace, not just in this one.
_INVALID: Final = (HTTPStatus.BAD_REQUEST, HTTPStatus.UNPROCESSABLE_ENTITY)
# kubectl's page size for lists.
_PAGE_SIZE: Final = "500"
# Strict makes an unknown field an error. By default the API server only warns, and drops it.
_DRY_RUN: Final = (("dryRun", "All"), ("fieldValidation", "Strict"))
_NODES: Final = Resource("v1", "nodes", namespaced=False)
_QUOTAS: Final = Resource("v1", "resourcequotas")


def check_on_cluster(file: JobFile, where: Where) -> Data:
    """Return the findings as data.

    Without a cluster, `asked` is false and `why` gives the reason.
    """
    return asyncio.run(_collect_findings(file, where))


async def _collect_findings(file: JobFile, where: Where) -> Data:
    try:
        async with (
            asyncio.timeout(SECONDS),
            AsyncClient(where.kubeconfig, where.context, where.namespace) as client,
        ):
            job = job_of(file, client.namespace, uid=_UID)
            findings = await _Asking(client.connection).all(file, job)
    # Without a cluster the explanation is still complete, so this is not an error.
    except TimeoutError:
        return _not_asked(f"the API server did not respond within {SECONDS} s")
    except DijobError as error:
        return _not_asked(str(error))
    space = job.metadata.namespace
    return {"asked": True, "namespace": space, "findings": [asdict(one) for one in findings]}


async def misshapen_pods(client: AsyncClient, file: JobFile) -> list[str]:
    """Return a sentence for each of the job's pod sets whose pods are invalid.

    Quotas and missing permissions are not reported. The result is empty if the user lacks
    permission to create pods.
    """
    job = job_of(file, client.namespace, uid=_UID)
    tried = [one async for one in _Asking(client.connection).tried(job)]
    return [
        _rejected_pod(name, error) for name, error in tried if error and error.status in _INVALID
    ]


def _not_asked(why: str) -> Data:
    return {"asked": False, "why": f"not checked: {why}", "findings": []}


@dataclass(frozen=True)
class _Asking:
    """The requests to one API server."""

    connection: ClientConnection

    async def all(self, file: JobFile, job: DIJob) -> list[FitFinding]:
        """Return all findings, the most important first."""
        accepted = await self._job(file, job.metadata.namespace)
        # A rejected job gets no pods, so further findings would distract from the reason.
        if accepted.verdict == NO:
            return [accepted]
        pods = [*await self._pods(job), *await self._engine(job), *await self._queue(job)]
        room = await asyncio.gather(self._nodes(job), self._quotas(job))
        return [accepted, *pods, room[0], *room[1]]

    async def _job(self, file: JobFile, space: str) -> FitFinding:
        name = file.job["metadata"]["name"]
        body = {**file.job, "metadata": {**file.job["metadata"], "namespace": space}}
        error = await self._dry_run(DIJOBS, space, body)
        if error is None:
            return FitFinding(YES, f"the cluster accepts the DIJob in namespace {space}")
        if error.status == HTTPStatus.CONFLICT:
            return FitFinding(
                UNKNOWN,
                f"the DIJob {name} already exists in namespace {space}: `apply` would update it",
            )
        if error.reason == NO_SUCH_KIND:
            return FitFinding(
                NO, "the cluster has no DIJob resource: install the operator (docs/install.md)"
            )
        return FitFinding(NO, f"the cluster rejects the DIJob: {_error_message(error)}")

    async def tried(self, job: DIJob) -> AsyncGenerator[tuple[str, NotFound | Refused | None]]:
        """Dry-run one pod of each pod set. Yield the pod's name, and the API error or None."""
        for name, pod in sample_pods(job, Options()):
            # The pod's own name may be in use by a running job, and the pod's owner does not exist
            # yet. So the dry run uses neither of them.
            meta = {
                k: v for k, v in pod["metadata"].items() if k not in ("name", "ownerReferences")
            }
            tried = {**pod, "metadata": {**meta, "generateName": "dijob-explain-"}}
            yield name, await self._dry_run(PODS, job.metadata.namespace, tried)

    async def _pods(self, job: DIJob) -> list[FitFinding]:
        found = []
        async for name, error in self.tried(job):
            if error is None:
                found.append(FitFinding(YES, f"the cluster accepts a pod like {name}"))
            # Status 403 has two possible causes: a permission that the user lacks but the operator
            # has, or an admission rule such as Pod Security, which also applies to the operator's
            # pods.
            elif error.status == HTTPStatus.FORBIDDEN and "cannot create resource" in error.message:
                text = "pods: you may not create pods here, so this was not checked"
                return [FitFinding(UNKNOWN, text)]
            else:
                found.append(FitFinding(NO, _rejected_pod(name, error)))
        return found

    async def _engine(self, job: DIJob) -> list[FitFinding]:
        """Dry-run the object of the job's engine."""
        made = engine_object(job, Options())
        if made is None:
            return []
        row, space = ENGINES[engine_of(job, Options().engine, ())], job.metadata.namespace
        meta = {k: v for k, v in made["metadata"].items() if k not in ("name", "ownerReferences")}
        tried = {**made, "metadata": {**meta, "generateName": "dijob-explain-"}}
        error = await self._dry_run(Resource(row.api, row.plural), space, tried)
        if error is None:
            return [FitFinding(YES, f"the cluster accepts the {row.kind} of the job's engine")]
        if error.reason == NO_SUCH_KIND:
            return [
                FitFinding(NO, f"the cluster does not serve {row.kind} of {row.api}: {row.switch}")
            ]
        if error.status == HTTPStatus.FORBIDDEN and "cannot create resource" in error.message:
            text = f"{row.plural}: you may not create them here, so this was not checked"
            return [FitFinding(UNKNOWN, text)]
        return [FitFinding(NO, f"the cluster rejects the {row.kind}: {_error_message(error)}")]

    async def _queue(self, job: DIJob) -> list[FitFinding]:
        """Check that the queue of the job's engine exists, and can be large enough."""
        engine = engine_of(job, Options().engine, ())
        queue = await find_queue(self.connection, job, engine)
        if queue is None:
            return [FitFinding(NO, kueue.NOT_SERVED)] if kueue.queue_name(job) else []
        if queue.unread:
            return [FitFinding(UNKNOWN, f"{queue.unread}, so this was not checked")]
        if queue.problem:
            return [FitFinding(NO, f"{queue.problem}: create it, or change {queue.place}")]
        found = [FitFinding(YES, f"the queue {queue.name} exists")]
        if queue.misfit:
            found.append(FitFinding(NO, queue.misfit))
        elif queue.doubt:
            found.append(FitFinding(UNKNOWN, queue.doubt))
        return found

    async def _nodes(self, job: DIJob) -> FitFinding:
        nodes, pods = await self._list(_NODES), await self._list(PODS)
        if nodes is None or pods is None:
            kind = "nodes" if nodes is None else "the pods of all namespaces"
            return FitFinding(UNKNOWN, f"nodes: you may not list {kind}, so this was not checked")
        specs = list(pod_specs(job, Options()))
        engine = engine_of(job, Options().engine, ())
        together = 0 if engine in (Engine.NONE, Engine.KUEUE) else job.spec.gang_minimum
        return into_nodes(specs, job.spec.minimum, free_resources(nodes, pods), together)

    async def _quotas(self, job: DIJob) -> list[FitFinding]:
        found = await self._list(_QUOTAS, job.metadata.namespace)
        if found is None:
            return [FitFinding(UNKNOWN, "quotas: you may not list them, so this was not checked")]
        return into_quotas(list(pod_specs(job, Options())), found)

    async def _list(self, kind: Resource, space: str = "") -> list[Data] | None:
        """Return all objects of a kind, or None if the user lacks permission to list them."""
        found: list[Data] = []
        token = ""
        while True:
            query = (("limit", _PAGE_SIZE), *((("continue", token),) if token else ()))
            try:
                answer = await self.connection.json(
                    ClientRequest("GET", kind.path(space), query=query)
                )
            except Refused as error:
                _raise_if_unauthenticated(error)
                return None
            found += answer.get("items") or []
            token = (answer.get("metadata") or {}).get("continue") or ""
            if not token:
                return found

    async def _dry_run(
        self, kind: Resource, space: str, body: Mapping[str, Any]
    ) -> NotFound | Refused | None:
        """Dry-run a creation. Return the API error, or None if the cluster accepts the object."""
        try:
            await self.connection.json(ClientRequest("POST", kind.path(space), body, _DRY_RUN))
        except (NotFound, Refused) as error:
            _raise_if_unauthenticated(error)
            return error
        return None


def _raise_if_unauthenticated(error: ApiError) -> None:
    """Re-raise the error if it is about the user's login and not about the job."""
    if error.status == HTTPStatus.UNAUTHORIZED:
        raise error


def _rejected_pod(name: str, error: ApiError) -> str:
    return f"the cluster rejects a pod like {name}: {with_names(error.message)}"


def _error_message(error: ApiError) -> str:
    return error.message.rstrip(".")
