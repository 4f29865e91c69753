"""What a cluster says of a job that is not there yet: with the user's kubeconfig and rights, and
without creating anything."""

import asyncio
from collections.abc import AsyncGenerator, Mapping
from dataclasses import asdict, dataclass
from http import HTTPStatus
from typing import Any, Final

from dijob.api.model import DIJob
from dijob.cli.calling import Where
from dijob.cli.explain.fields import with_names
from dijob.cli.explain.fit import NO, UNKNOWN, YES, Finding, into_nodes, into_quotas, rooms
from dijob.cli.explain.report import pod_specs, sample_pods
from dijob.cli.files import File
from dijob.cli.jobs import job_of
from dijob.client import ApiError, AsyncClient, DijobError, NotFound, Refused
from dijob.client.connection import Call, Connection
from dijob.client.errors import NO_SUCH_KIND
from dijob.client.resources import DIJOBS, PODS, Resource
from dijob.core.options import Options

Data = dict[str, Any]

SECONDS: Final = 15
# Of the pod that is tried; the job's own is not known yet.
_UID: Final = "00000000-0000-0000-0000-000000000000"
# What is wrong with a pod itself.
_MISSHAPEN: Final = (HTTPStatus.BAD_REQUEST, HTTPStatus.UNPROCESSABLE_ENTITY)
_PAGE: Final = "500"
_TRIAL: Final = (("dryRun", "All"), ("fieldValidation", "Strict"))
_NODES: Final = Resource("v1", "nodes", namespaced=False)
_QUOTAS: Final = Resource("v1", "resourcequotas")


def ask(file: File, where: Where) -> Data:
    """The cluster's findings as data: `asked` false, and `why`, where none was asked."""
    return asyncio.run(_ask(file, where))


async def _ask(file: File, where: Where) -> Data:
    try:
        async with (
            asyncio.timeout(SECONDS),
            AsyncClient(where.kubeconfig, where.context, where.namespace) as client,
        ):
            job = job_of(file, client.namespace, uid=_UID)
            findings = await _Asking(client.connection).all(file, job)
    except TimeoutError:
        return _not_asked(f"the cluster does not answer within {SECONDS} s")
    except DijobError as error:
        return _not_asked(str(error))
    space = job.metadata.namespace
    return {"asked": True, "namespace": space, "findings": [asdict(one) for one in findings]}


async def misshapen_pods(client: AsyncClient, file: File) -> list[str]:
    """A sentence for each kind of the job's pods that the cluster would not create as it is
    written: a quota or a missing right is another matter. [] also for who may not create pods.
    """
    job = job_of(file, client.namespace, uid=_UID)
    tried = [one async for one in _Asking(client.connection).tried(job)]
    return [_refused(name, no) for name, no in tried if no and no.status in _MISSHAPEN]


def _not_asked(why: str) -> Data:
    said = f"no cluster was asked: {why}; only the file was checked"
    return {"asked": False, "why": said, "findings": []}


@dataclass(frozen=True)
class _Asking:
    """Questions to one apiserver."""

    connection: Connection

    async def all(self, file: File, job: DIJob) -> list[Finding]:
        """Every finding, in the order in which they matter."""
        accepted = await self._job(file, job.metadata.namespace)
        if accepted.verdict == NO:
            return [accepted]
        pods = await self._pods(job)
        room = await asyncio.gather(self._nodes(job), self._quotas(job))
        return [accepted, *pods, room[0], *room[1]]

    async def _job(self, file: File, space: str) -> Finding:
        name = file.job["metadata"]["name"]
        body = {**file.job, "metadata": {**file.job["metadata"], "namespace": space}}
        no = await self._refusal(DIJOBS, space, body)
        if no is None:
            return Finding(YES, f"the cluster accepts the DIJob in namespace {space}")
        if no.status == HTTPStatus.CONFLICT:
            return Finding(
                UNKNOWN, f"a DIJob {name} is in namespace {space} already: apply changes it"
            )
        if no.reason == NO_SUCH_KIND:
            return Finding(NO, "the cluster knows no DIJob: install the operator (docs/install.md)")
        return Finding(NO, f"the cluster refuses the DIJob: {_said(no)}")

    async def tried(self, job: DIJob) -> AsyncGenerator[tuple[str, NotFound | Refused | None]]:
        """One pod of each set, as the operator would make it: its name, and what the apiserver has
        against it.
        """
        for name, pod in sample_pods(job, Options()):
            # Under no name of a pod that may be there, and of no owner.
            meta = {
                k: v for k, v in pod["metadata"].items() if k not in ("name", "ownerReferences")
            }
            tried = {**pod, "metadata": {**meta, "generateName": "dijob-explain-"}}
            yield name, await self._refusal(PODS, job.metadata.namespace, tried)

    async def _pods(self, job: DIJob) -> list[Finding]:
        found = []
        async for name, no in self.tried(job):
            if no is None:
                found.append(Finding(YES, f"the cluster accepts a pod like {name}"))
            elif no.status == HTTPStatus.FORBIDDEN and "cannot create resource" in no.message:
                said = "you may not create pods here, so no pod was tried (the operator may)"
                return [Finding(UNKNOWN, said)]
            else:
                found.append(Finding(NO, _refused(name, no)))
        return found

    async def _nodes(self, job: DIJob) -> Finding:
        nodes, pods = await self._list(_NODES), await self._list(PODS)
        if nodes is None or pods is None:
            kind = "nodes" if nodes is None else "the pods of all namespaces"
            return Finding(UNKNOWN, f"nodes: you may not list {kind}, so this is not known")
        specs = list(pod_specs(job, Options()))
        return into_nodes(specs, min(job.spec.minimum, len(specs)), rooms(nodes, pods))

    async def _quotas(self, job: DIJob) -> list[Finding]:
        found = await self._list(_QUOTAS, job.metadata.namespace)
        if found is None:
            return [Finding(UNKNOWN, "quotas: you may not list them, so this is not known")]
        return into_quotas(list(pod_specs(job, Options())), found)

    async def _list(self, kind: Resource, space: str = "") -> list[Data] | None:
        """All objects; None where the user may not list them."""
        found: list[Data] = []
        go_on = ""
        while True:
            query = (("limit", _PAGE), *((("continue", go_on),) if go_on else ()))
            try:
                answer = await self.connection.json(Call("GET", kind.path(space), query=query))
            except Refused as error:
                _about_this(error)
                return None
            found += answer.get("items") or []
            go_on = (answer.get("metadata") or {}).get("continue") or ""
            if not go_on:
                return found

    async def _refusal(
        self, kind: Resource, space: str, body: Mapping[str, Any]
    ) -> NotFound | Refused | None:
        """The apiserver's "no" to a dry run of a creation; None where it says yes."""
        try:
            await self.connection.json(Call("POST", kind.path(space), body, _TRIAL))
        except (NotFound, Refused) as error:
            _about_this(error)
            return error
        return None


def _about_this(error: ApiError) -> None:
    """Raises it where the apiserver does not know who asks: that says nothing of the job."""
    if error.status == HTTPStatus.UNAUTHORIZED:
        raise error


def _refused(name: str, error: ApiError) -> str:
    return f"the cluster refuses a pod like {name}: {with_names(error.message)}"


def _said(error: ApiError) -> str:
    return error.message.rstrip(".")
