"""Checks a job against a cluster without creating anything.

Server-side dry runs show whether the cluster accepts the job and its pods. Nodes, pods and quotas
are listed to see whether the pods fit. All requests use the user's permissions, which usually
differ from the operator's. A check for which the user lacks a permission is UNKNOWN, not NO.
"""

import asyncio
from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from http import HTTPStatus
from typing import Any, Final

from dijob import names
from dijob.api.model import DIJob
from dijob.cli.calling import Where
from dijob.cli.explain.fields import describe_bad_quantities, with_names
from dijob.cli.explain.fit import (
    NO,
    UNKNOWN,
    YES,
    FitFinding,
    free_resources,
    into_nodes,
    into_quotas,
)
from dijob.cli.explain.images import images_of, into_images
from dijob.cli.explain.limits import changed_requests
from dijob.cli.explain.objects import check_objects
from dijob.cli.explain.references import (
    PRIORITY_CLASS,
    RUNTIME_CLASS,
    SERVICE_ACCOUNT,
    ObjectReference,
    references_of,
)
from dijob.cli.explain.report import created_kinds, engine_object, sample_pods, server_specs
from dijob.cli.files import JobFile, job_of
from dijob.cli.queues import find_queue
from dijob.client import ApiError, AsyncClient, DijobError, NotFound, Refused
from dijob.client.connection import ClientConnection, ClientRequest
from dijob.client.errors import NO_SUCH_KIND, raise_if_unauthenticated
from dijob.client.resources import DIJOBS, PODS, Resource
from dijob.core.options import Options
from dijob.core.render.scheduling import ENGINES, engine_of, kueue
from dijob.names import Engine

Data = dict[str, Any]

SECONDS: Final = 15
# Dry runs contain this uid instead of the placeholder, because the API server could reject the
# placeholder's angle brackets.
_UID: Final = "00000000-0000-0000-0000-000000000000"
# These HTTP statuses mean that the pod would be rejected in every namespace, not just in this one.
_INVALID: Final = (HTTPStatus.BAD_REQUEST, HTTPStatus.UNPROCESSABLE_ENTITY)
# The other checks that need a cluster, worded for the list in `not_asked`.
_NEEDS_CLUSTER: Final = (
    "whether the cluster accepts the job and its pods",
    "quotas and limit ranges",
    "images on the nodes",
    "room on the nodes",
)
# kubectl's page size for lists.
_PAGE_SIZE: Final = "500"
# Strict makes an unknown field an error. By default the API server only warns and drops it.
_DRY_RUN: Final = (("dryRun", "All"), ("fieldValidation", "Strict"))
_NODES: Final = Resource("v1", "nodes", namespaced=False)
_QUOTAS: Final = Resource("v1", "resourcequotas")
_LIMIT_RANGES: Final = Resource("v1", "limitranges")


def check_on_cluster(file: JobFile, where: Where) -> Data:
    """Return the findings as data.

    Without a cluster, `asked` is false, `why` gives the reason, and the finding lists what was not
    checked.
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
        return not_asked(file, f"the API server did not respond within {SECONDS} s")
    except DijobError as error:
        return not_asked(file, str(error))
    space = job.metadata.namespace
    return {"asked": True, "namespace": space, "findings": [asdict(one) for one in findings]}


async def misshapen_pods(client: AsyncClient, file: JobFile) -> list[str]:
    """Return a sentence for each of the job's pod sets whose pods are invalid.

    Quotas and missing permissions are not reported. The result is empty if the user lacks
    permission to create pods.
    """
    job = job_of(file, client.namespace, uid=_UID)
    samples, space = list(sample_pods(job, Options())), job.metadata.namespace
    tried = [one async for one in _Asking(client.connection).tried(samples, space)]
    return [
        _rejected_pod(name, pod, answer)
        for name, pod, answer in tried
        if isinstance(answer, ApiError) and answer.status in _INVALID
    ]


def not_asked(file: JobFile, why: str) -> Data:
    """Return the result of a check without a cluster: the reason, and what was not checked."""
    job = job_of(file)
    references = _references(job, sample_pods(job, Options()))
    objects = [one.title for one in references if not file.has(one.kind, one.name)]
    listed = ", ".join([*objects, *_NEEDS_CLUSTER])
    finding = FitFinding(UNKNOWN, f"not checked without a cluster: {listed}")
    return {"asked": False, "why": f"not checked: {why}", "findings": [asdict(finding)]}


def _references(job: DIJob, samples: Iterable[tuple[str, Data]]) -> list[ObjectReference]:
    """Return the objects that the job's pods refer to. `samples` has one pod per pod set."""
    return references_of(
        (pod["spec"], pod_set.replicas)
        for pod_set, (_, pod) in zip(job.pod_sets, samples, strict=True)
    )


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
        space = job.metadata.namespace
        samples = list(sample_pods(job, Options()))
        tried = [one async for one in self.tried(samples, space)]
        admitted = _admitted_pods(job, tried)
        pods = [*_pod_findings(file, tried), *await self._engine(job), *await self._queue(job)]
        more = await asyncio.gather(
            check_objects(self.connection, _references(job, samples), file, space),
            self._limits(space, tried),
            self._quotas(job, admitted),
            self._nodes(job, admitted),
        )
        return [accepted, *pods, *(one for found in more for one in found)]

    async def _job(self, file: JobFile, space: str) -> FitFinding:
        name = file.job["metadata"]["name"]
        body = {**file.job, "metadata": {**file.job["metadata"], "namespace": space}}
        error = await self._dry_run(DIJOBS, space, body)
        if not isinstance(error, ApiError):
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

    async def tried(
        self, samples: Iterable[tuple[str, Data]], space: str
    ) -> AsyncGenerator["_TriedPod"]:
        """Dry-run pods."""
        for name, pod in samples:
            yield name, pod, await self._dry_run(PODS, space, _unnamed(pod))

    async def _engine(self, job: DIJob) -> list[FitFinding]:
        """Dry-run the engine's object for the job."""
        made = engine_object(job, Options())
        if made is None:
            return []
        row, space = ENGINES[engine_of(job, Options().engine, ())], job.metadata.namespace
        error = await self._dry_run(Resource(row.api, row.plural), space, _unnamed(made))
        if not isinstance(error, ApiError):
            return [FitFinding(YES, f"the cluster accepts the {row.kind} of the job's engine")]
        if error.reason == NO_SUCH_KIND:
            return [
                FitFinding(NO, f"the cluster does not serve {row.kind} of {row.api}: {row.switch}")
            ]
        if _lacks_permission_to_create(error):
            text = f"{row.plural}: you lack permission to create them here, so this was not checked"
            return [FitFinding(UNKNOWN, text)]
        return [FitFinding(NO, f"the cluster rejects the {row.kind}: {_error_message(error)}")]

    async def _queue(self, job: DIJob) -> list[FitFinding]:
        """Check that the queue of the job's engine exists, and that its quota is not too small."""
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

    async def _nodes(self, job: DIJob, specs: Sequence[Data]) -> list[FitFinding]:
        """Check whether the nodes have the images and enough free capacity."""
        nodes = await self._list(_NODES)
        if nodes is None:
            text = "nodes: you lack permission to list nodes, so room and images were not checked"
            return [FitFinding(UNKNOWN, text)]
        uses = [(one.pod, use) for one in job.pod_sets for use in images_of(one.pod)]
        images = into_images(uses, free_resources(nodes, ()))
        pods = await self._list(PODS)
        if pods is None:
            text = (
                "nodes: you lack permission to list the pods of all namespaces,"
                " so free capacity was not checked"
            )
            return [*images, FitFinding(UNKNOWN, text)]
        engine = engine_of(job, Options().engine, ())
        together = 0 if engine in (Engine.NONE, Engine.KUEUE) else job.spec.gang_minimum
        room = into_nodes(specs, job.spec.minimum, free_resources(nodes, pods), together)
        return [*images, room]

    async def _limits(self, space: str, tried: Sequence["_TriedPod"]) -> list[FitFinding]:
        """Report what LimitRanges change in the pods.

        The API server's answers to the dry runs of the pods already contain these changes.
        """
        accepted = [
            (name, pod["spec"], answer["spec"])
            for name, pod, answer in tried
            if not isinstance(answer, ApiError)
        ]
        found = await self._list(_LIMIT_RANGES, space)
        if accepted:
            ranges = [one["metadata"]["name"] for one in found or ()]
            return changed_requests(accepted, ranges)
        if found is None:
            text = "limit ranges: you lack permission to list them, so this was not checked"
            return [FitFinding(UNKNOWN, text)]
        return [
            FitFinding(
                UNKNOWN,
                f"LimitRange {one['metadata']['name']}: not checked, because the dry run of the"
                " pods failed",
            )
            for one in found
        ]

    async def _quotas(self, job: DIJob, specs: Sequence[Data]) -> list[FitFinding]:
        found = await self._list(_QUOTAS, job.metadata.namespace)
        if found is None:
            return [
                FitFinding(
                    UNKNOWN, "quotas: you lack permission to list them, so this was not checked"
                )
            ]
        return into_quotas(specs, found, [names.KIND, *created_kinds(job, Options())])

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
                raise_if_unauthenticated(error)
                return None
            found += answer.get("items") or []
            token = (answer.get("metadata") or {}).get("continue") or ""
            if not token:
                return found

    async def _dry_run(
        self, kind: Resource, space: str, body: Mapping[str, Any]
    ) -> Data | NotFound | Refused:
        """Dry-run a creation. Return the object as the cluster would store it, or the API error."""
        try:
            return await self.connection.json(
                ClientRequest("POST", kind.path(space), body, _DRY_RUN)
            )
        except (NotFound, Refused) as error:
            raise_if_unauthenticated(error)
            return error


# A pod's name, its manifest, and its dry run's result: the pod with the cluster's defaults, or an
# error.
_TriedPod = tuple[str, Data, Data | NotFound | Refused]


def _unnamed(manifest: Data) -> Data:
    """Return a manifest for a dry run, without the name and the owner. The name may be in use by a
    running job, and the owner does not exist yet.
    """
    own = ("name", "ownerReferences")
    kept = {key: value for key, value in manifest["metadata"].items() if key not in own}
    return {**manifest, "metadata": {**kept, "generateName": "dijob-explain-"}}


def _lacks_permission_to_create(error: ApiError) -> bool:
    return error.status == HTTPStatus.FORBIDDEN and "cannot create resource" in error.message


def _admitted_pods(job: DIJob, tried: Iterable[_TriedPod]) -> list[Data]:
    """Return the specs of all pods, with the cluster's defaults if the dry run has returned them.

    A LimitRange or a webhook can add requests, which also count towards the nodes' capacity and the
    quotas.
    """
    found = list[Data]()
    for pod_set, (_, pod, answer) in zip(job.pod_sets, tried, strict=True):
        spec = pod["spec"] if isinstance(answer, ApiError) else answer["spec"]
        found += [spec] * pod_set.replicas
    return [*found, *server_specs(job, Options())]


def _pod_findings(file: JobFile, tried: Iterable[_TriedPod]) -> list[FitFinding]:
    found = []
    for name, pod, error in tried:
        if not isinstance(error, ApiError):
            found.append(FitFinding(YES, f"the cluster accepts a pod like {name}"))
        # Status 403 has several causes. The user may lack a permission that the operator has. Or an
        # admission rule such as Pod Security may have rejected the pod. Such a rule also applies to
        # the operator's pods.
        elif _lacks_permission_to_create(error):
            text = "pods: you lack permission to create pods here, so this was not checked"
            return [FitFinding(UNKNOWN, text)]
        elif waits := _waits_for(file, error.message):
            text = f"pods: {waits} is in the file but does not exist yet, so this was not checked"
            found.append(FitFinding(UNKNOWN, text))
        else:
            found.append(FitFinding(NO, _rejected_pod(name, pod, error)))
    return found


def _waits_for(file: JobFile, message: str) -> str:
    """Return the object that the API error `message` reports as missing, if the file contains it;
    else "".
    """
    for kind in (SERVICE_ACCOUNT, PRIORITY_CLASS, RUNTIME_CLASS):
        for name in file.of_kind(kind):
            if "found" in message and kind.lower() in message.lower() and name in message:
                return f"{kind} {name}"
    return ""


def _rejected_pod(name: str, pod: Data, error: ApiError) -> str:
    rejection = f"the cluster rejects a pod like {name}: {with_names(error.message)}"
    hints = describe_bad_quantities(pod) if error.status in _INVALID else []
    return "; ".join([rejection, *hints])


def _error_message(error: ApiError) -> str:
    return error.message.rstrip(".")
