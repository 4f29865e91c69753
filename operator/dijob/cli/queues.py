"""Reads the queue of a job (spec.scheduling.queue, or Kueue's label) with the user's permissions.

A scheduler does not consider pods whose queue does not exist, and some schedulers report nothing
about such pods. So the commands check this with one request.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from dijob import names
from dijob.api.model import DIJob
from dijob.cli.queue_quota import QuotaFinding, compare_with_quota
from dijob.client import NotFound, RankPod, Refused
from dijob.client.connection import ClientConnection, ClientRequest
from dijob.client.errors import NO_SUCH_KIND
from dijob.client.resources import Resource
from dijob.core.observed.workloads import parse_queue
from dijob.core.options import Options
from dijob.core.render.scheduling import ENGINES, kueue
from dijob.names import Engine


@dataclass(frozen=True)
class QueueFinding:
    """A queue of a scheduling engine. A reason that does not apply is "".

    `problem` is the reason why jobs in the queue get no nodes. `unread` is the reason why the
    queue could not be read. `misfit` is the reason why the quota can never be enough for the job.
    `doubt` is the reason why it is unknown whether the quota can be enough. `place` is where the
    job names the queue.
    """

    name: str
    problem: str = ""
    unread: str = ""
    place: str = "spec.scheduling.queue"
    misfit: str = ""
    doubt: str = ""


def engine_of_pods(job: DIJob, pods: Iterable[RankPod]) -> Engine:
    """Return the engine for which the pods were created, or else the engine in the job's spec."""
    marks = (pod.meta.get("annotations") or {} for pod in pods)
    named = (one.get(names.ANNOTATION_ENGINE) for one in marks)
    known = next((one for one in named if one in set(Engine)), None)
    return Engine(known) if known else job.spec.scheduling.engine or Engine.NONE


async def find_queue(
    connection: ClientConnection, job: DIJob, engine: Engine
) -> QueueFinding | None:
    """Return the job's queue; None if the job's engine has no queues, or the cluster does not serve
    that kind of queue.
    """
    if kueue.queue_name(job):
        return await _find_local_queue(connection, job)
    row = ENGINES[engine]
    api, plural = row.queues
    if not api:
        return None
    name = job.spec.scheduling.queue or row.queue
    path = Resource(api, plural, namespaced=False).path_of("", name)
    try:
        found = await connection.json(ClientRequest("GET", path))
    except NotFound as error:
        if error.reason == NO_SUCH_KIND:
            return None
        kind = f"{plural}.{api.partition('/')[0]}"
        return QueueFinding(name, f"the queue {name} does not exist (kubectl get {kind})")
    except Refused as error:
        return QueueFinding(name, unread=f"the queue {name} cannot be read: {error}")
    # Without the scheduler's own controller, a queue has no state, and its jobs get no nodes.
    state = str((found.get("status") or {}).get("state") or "not open")
    return QueueFinding(
        name, "" if row.queue_state in ("", state) else f"the queue {name} is {state}"
    )


async def _find_local_queue(connection: ClientConnection, job: DIJob) -> QueueFinding | None:
    """Return the LocalQueue in the job's Kueue label; None if the cluster does not serve this
    kind.
    """
    name, space = kueue.queue_name(job), job.metadata.namespace
    place = f"the label {names.KUEUE_QUEUE}"
    path = Resource(kueue.API, "localqueues").path_of(space, name)
    try:
        body = await connection.json(ClientRequest("GET", path))
    except NotFound as error:
        if error.reason == NO_SUCH_KIND:
            return None
        command = f"kubectl get localqueues.{names.KUEUE_GROUP} -n {space}"
        text = f"the queue {name} does not exist in namespace {space} ({command})"
        return QueueFinding(name, text, place=place)
    except Refused as error:
        return QueueFinding(name, unread=f"the queue {name} cannot be read: {error}", place=place)
    found = parse_queue(body)
    inactive = f"the queue {name} is not active: {found.inactive}" if found.inactive else ""
    cluster_queue = str((body.get("spec") or {}).get("clusterQueue") or "")
    if found.inactive or not cluster_queue:
        return QueueFinding(name, inactive, place=place)
    quota = await _compare_quota(connection, job, cluster_queue)
    return QueueFinding(name, place=place, misfit=quota.misfit, doubt=quota.doubt)


async def _compare_quota(
    connection: ClientConnection, job: DIJob, cluster_queue: str
) -> QuotaFinding:
    """Compare the job with the quota of its ClusterQueue. Many users cannot read ClusterQueues."""
    path = Resource(kueue.API, "clusterqueues", namespaced=False).path_of("", cluster_queue)
    try:
        body = await connection.json(ClientRequest("GET", path))
    except (NotFound, Refused) as error:
        text = f"the size of the queue's quota was not checked: {error}"
        return QuotaFinding(doubt=text)
    return compare_with_quota(body, kueue.workload(job, 0, Options()))
