"""What a cluster says of a job that is not there yet: with the user's kubeconfig and rights, and
without creating anything."""

import asyncio
import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from http import HTTPStatus
from typing import Any, Final

import yaml

from dijob import names
from dijob.api.model import DIJob
from dijob.cli.explain.fit import NO, UNKNOWN, YES, Finding, into_nodes, into_quotas, rooms
from dijob.cli.explain.report import pod_specs, sample_pods
from dijob.cli.files import File
from dijob.cli.jobs import job_of
from dijob.core.options import Options

Data = dict[str, Any]

SECONDS: Final = 15
# Of the pod that is tried; the job's own is not known yet.
_UID: Final = "00000000-0000-0000-0000-000000000000"
_PAGE: Final = "500"


@dataclass(frozen=True)
class Where:
    """Which cluster, and which namespace where the file names none; "" as the kubeconfig says."""

    kubeconfig: str = ""
    context: str = ""
    namespace: str = ""


@dataclass(frozen=True)
class Answer:
    """The apiserver's answer: its status and its object."""

    status: int
    body: Data

    @property
    def ok(self) -> bool:
        """Whether it is a yes."""
        return self.status < HTTPStatus.BAD_REQUEST

    @property
    def said(self) -> str:
        """Its sentence."""
        return str(self.body.get("message") or f"the answer {self.status}").rstrip(".")


def ask(file: File, where: Where) -> Data:
    """The cluster's findings as data: `asked` false, and `why`, where none was asked."""
    return asyncio.run(_ask(file, where))


async def _ask(file: File, where: Where) -> Data:
    from kubernetes.aio.client import ApiClient, Configuration
    from kubernetes.aio.config import ConfigException, load_kube_config

    settings = Configuration()
    try:
        loader = await load_kube_config(
            config_file=where.kubeconfig or None,
            context=where.context or None,
            client_configuration=settings,
            persist_config=False,
        )
    except (ConfigException, OSError, ValueError) as error:
        return _not_asked(f"no cluster was asked: {' '.join(str(error).split()).rstrip('.')}")
    except (TypeError, KeyError, AttributeError, yaml.YAMLError):
        # The client takes it for granted that the file has the form of a kubeconfig.
        return _not_asked("no cluster was asked: the kubeconfig is none")
    current = loader.current_context["context"].get("namespace") or "default"
    job = job_of(file, where.namespace or current, uid=_UID)
    async with ApiClient(settings) as api:
        try:
            async with asyncio.timeout(SECONDS):
                findings = await _Asking(api).all(file, job)
        except (OSError, TimeoutError) as error:
            said = str(error) or f"no answer within {SECONDS} s"
            return _not_asked(f"the cluster {settings.host} does not answer: {said}")
    space = job.metadata.namespace
    return {"asked": True, "namespace": space, "findings": [asdict(one) for one in findings]}


def _not_asked(why: str) -> Data:
    return {"asked": False, "why": f"{why}; this looked at the file only", "findings": []}


@dataclass(frozen=True)
class _Asking:
    """Questions to one apiserver."""

    api: Any

    async def all(self, file: File, job: DIJob) -> list[Finding]:
        """Every finding, in the order in which they matter."""
        accepted = await self._job(file, job.metadata.namespace)
        if accepted.verdict == NO:
            return [accepted]
        pods = await self._pods(job)
        room = await asyncio.gather(self._nodes(job), self._quotas(job))
        return [accepted, *pods, room[0], *room[1]]

    async def _job(self, file: File, space: str) -> Finding:
        path = f"/apis/{names.API_VERSION}/namespaces/{space}/{names.PLURAL}"
        body = {**file.job, "metadata": {**(file.job.get("metadata") or {}), "namespace": space}}
        answer = await self._send("POST", path, body)
        name = body["metadata"]["name"]
        if answer.ok:
            return Finding(YES, f"the cluster accepts the DIJob in namespace {space}")
        if answer.status == HTTPStatus.CONFLICT:
            return Finding(
                UNKNOWN, f"a DIJob {name} is in namespace {space} already: apply changes it"
            )
        if answer.status == HTTPStatus.NOT_FOUND and "not find the requested" in answer.said:
            return Finding(NO, "the cluster knows no DIJob: install the operator (docs/install.md)")
        return Finding(NO, f"the cluster refuses the DIJob: {answer.said}")

    async def _pods(self, job: DIJob) -> list[Finding]:
        """One pod of each set, as the operator would make it."""
        found = []
        for name, pod in sample_pods(job, Options()):
            path = f"/api/v1/namespaces/{job.metadata.namespace}/pods"
            # Under no name of a pod that may be there, and of no owner.
            meta = {
                k: v for k, v in pod["metadata"].items() if k not in ("name", "ownerReferences")
            }
            tried = {**pod, "metadata": {**meta, "generateName": "dijob-explain-"}}
            answer = await self._send("POST", path, tried)
            if answer.ok:
                found.append(Finding(YES, f"the cluster accepts a pod like {name}"))
            elif answer.status == HTTPStatus.FORBIDDEN and "cannot create resource" in answer.said:
                said = "you may not create pods here, so no pod was tried (the operator may)"
                return [Finding(UNKNOWN, said)]
            else:
                found.append(Finding(NO, f"the cluster refuses a pod like {name}: {answer.said}"))
        return found

    async def _nodes(self, job: DIJob) -> Finding:
        nodes, pods = await self._list("/api/v1/nodes"), await self._list("/api/v1/pods")
        if nodes is None or pods is None:
            kind = "nodes" if nodes is None else "the pods of all namespaces"
            return Finding(UNKNOWN, f"nodes: you may not list {kind}, so this is not known")
        specs = list(pod_specs(job, Options()))
        return into_nodes(specs, min(job.spec.minimum, len(specs)), rooms(nodes, pods))

    async def _quotas(self, job: DIJob) -> list[Finding]:
        found = await self._list(f"/api/v1/namespaces/{job.metadata.namespace}/resourcequotas")
        if found is None:
            return [Finding(UNKNOWN, "quotas: you may not list them, so this is not known")]
        return into_quotas(list(pod_specs(job, Options())), found)

    async def _list(self, path: str) -> list[Data] | None:
        """All objects; None where the user may not list them."""
        found: list[Data] = []
        go_on = ""
        while True:
            query = {"limit": _PAGE, **({"continue": go_on} if go_on else {})}
            answer = await self._send("GET", path, query=query)
            if not answer.ok:
                return None
            found += answer.body.get("items") or []
            go_on = (answer.body.get("metadata") or {}).get("continue") or ""
            if not go_on:
                return found

    async def _send(
        self, method: str, path: str, body: Mapping[str, Any] | None = None, **more: Any
    ) -> Answer:
        """One call; whatever writes is a dry run."""
        query = more.get("query") or {"dryRun": "All", "fieldValidation": "Strict"}
        request = await self.api.param_serialize(
            method,
            path,
            query_params=list(query.items()),
            header_params={"Accept": "application/json", "Content-Type": "application/json"},
            body=body,
            auth_settings=["BearerToken"],
        )
        response = await self.api.call_api(*request, _request_timeout=SECONDS)
        data = await response.read()
        found: Any = None
        with suppress(ValueError):
            found = json.loads(data)
        return Answer(response.status, found if isinstance(found, dict) else {})
