"""The operator's settings that influence what it creates, and warnings about jobs that do not fit
these settings.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from dijob import __version__
from dijob.api.model import DIJob
from dijob.api.problems import Problem
from dijob.names import LOST_NODE_SECONDS, Engine, Priority

# The last minor version of Redis with the BSD license.
REDIS_IMAGE = "redis:7.2-alpine"
LAUNCHER_IMAGE = f"dijob/launcher:{__version__}"


class Delivery(StrEnum):
    """How the launcher's programs get into a pod.

    An init container copies them into an emptyDir, or the kubelet mounts their image. As of
    Kubernetes 1.36 with containerd 2.1, such mounts (KEP-4639) are always enabled. With AUTO, the
    operator decides (controller/observe/delivery.py).
    """

    AUTO = "Auto"
    INIT_CONTAINER = "InitContainer"
    IMAGE_VOLUME = "ImageVolume"


@dataclass(frozen=True)
class Options:
    """The operator's settings.

    `launcher_image` contains the programs of images/launcher, and `launcher_delivery` says how they
    get into each rank's pod; no pod is rendered with AUTO. `cluster_domain` is the domain of
    Service names. `priority_classes` maps values of spec.priority to names of priority classes. A
    value that is not in the map, or is mapped to "", has no priority class. `redis_image` has
    redis-server in its PATH, and `redis_resources` are the resources of its container. `server_url`
    is the URL of the HTTP server for jobs (dijob.server); "": there is none. `isolates`: each job
    gets a NetworkPolicy, except on the host network (is_isolated). `lost_node_seconds` is how long
    pods stay on an unreachable node, unless their job sets a different time. `channel` is the
    address ("HOST:PORT") at which launchers reach the operator (controller/channel); "": all pods
    have a gate, and get their peer lists as annotations. `engine` gives nodes to the ranks of jobs
    that choose no engine (render/scheduling). `queues`: Kueue admits the jobs that name a queue
    (render/scheduling/kueue.py). `keeps_history`: dijob.history records jobs. A job that it has not
    recorded yet is kept beyond its time to live, for at most an hour.
    """

    launcher_image: str = LAUNCHER_IMAGE
    launcher_delivery: Delivery = Delivery.INIT_CONTAINER
    cluster_domain: str = "cluster.local"
    priority_classes: Mapping[str, str] = field(default_factory=dict)
    redis_image: str = REDIS_IMAGE
    redis_resources: Mapping[str, Any] = field(default_factory=dict)
    server_url: str = ""
    isolates: bool = False
    lost_node_seconds: int = LOST_NODE_SECONDS
    channel: str = ""
    engine: Engine = Engine.NONE
    queues: bool = False
    scheduler_name: str = ""
    keeps_history: bool = False


def is_isolated(job: DIJob, options: Options) -> bool:
    """Whether the job gets a NetworkPolicy. Policies do not apply to pods on the host network, and
    a policy would block traffic from such ranks to ranks on the pod network.
    """
    return options.isolates and not on_host(job)


def option_warnings(job: DIJob, options: Options) -> tuple[Problem, ...]:
    """Return the warnings about parts of this job that do not fit the operator's settings."""
    return (*_no_class(job, options), *_not_isolated(job, options), *_open_server(job))


def _no_class(job: DIJob, options: Options) -> Iterator[Problem]:
    """Warn if no priority class is configured for the job's priority."""
    # Without a class for Normal, pods have the cluster's default priority, which is what Normal
    # means.
    priority = job.spec.priority
    if priority is Priority.NORMAL or options.priority_classes.get(priority.value):
        return
    message = (
        f"is {priority}, but the operator has no priority class for it, so the pods have none: set"
        f" the chart value priorityClasses.{priority}, or priorityClassName in the template"
    )
    yield Problem("spec.priority", message)


def _not_isolated(job: DIJob, options: Options) -> Iterator[Problem]:
    """Warn if no NetworkPolicy protects the pods although users may expect one."""
    if options.isolates and (path := on_host(job)):
        message = (
            "is true, and network policies do not apply to the host network, so no policy protects"
            " the job: anyone who can connect to a rank's port can run code in that rank"
        )
        yield Problem(f"{path}.spec.hostNetwork", message)
    if job.spec.network_policy and not options.isolates:
        message = (
            "has no effect, because this operator creates no network policies (the chart value"
            " networkPolicy.jobs)"
        )
        yield Problem("spec.networkPolicy", message)


def _open_server(job: DIJob) -> Iterator[Problem]:
    """Warn if access to the job's own Redis server cannot be restricted to its ranks."""
    if job.server and (path := on_host(job)):
        message = (
            "is true, so the ranks' traffic comes from the IP addresses of their nodes. No network"
            f" policy can restrict access to the job's Redis server {job.server}: anyone who can"
            f" connect to it can run code in the ranks. If a network policy named {job.server}"
            f" exists, it blocks the ranks: kubectl delete networkpolicy {job.server}"
        )
        yield Problem(f"{path}.spec.hostNetwork", message)


def on_host(job: DIJob) -> str:
    """Return the path of the first pod template with hostNetwork; "" if there is none."""
    found = (each.path for each in job.pod_sets if each.pod.get("hostNetwork"))
    return next(found, "")
