"""The job's own Redis server: one pod, its Service, and a NetworkPolicy that admits only the job's
ranks.

It stores nothing (DI-engine uses publish and subscribe, ding/framework/message_queue/redis.py), so
a new pod can replace the old one. Ranks that started with the old server are restarted (losses.py).
The server is not a rank. It is deleted with the ranks when the job is suspended or has ended.
"""

import copy

from dijob import names
from dijob.api.model import DIJob
from dijob.core.options import Options, on_host
from dijob.core.render import metadata, policy
from dijob.core.render.fields import Manifest
from dijob.core.render.pod import PROBE_PERIOD_SECONDS, limit_toleration

# The fields that the server's pod copies from the ranks' pods. They say where the pod may run, and
# how its image is pulled.
PLACEMENT = ("priorityClassName", "nodeSelector", "tolerations", "imagePullSecrets")
# The limit on unread output per subscriber. With Redis' default of 32 MB, a message of 64 MB would
# disconnect every subscriber. A subscriber that falls behind by more than this limit is
# disconnected and subscribes again.
BUFFER = "pubsub 1gb 512mb 60"
COMMAND = (
    *("redis-server", "--save", "", "--appendonly", "no"),
    # The NetworkPolicy restricts access, because DI-engine's client does not support a password.
    *("--protected-mode", "no", "--client-output-buffer-limit", BUFFER),
)
GRACE_SECONDS = 2


def server_manifests(job: DIJob, options: Options) -> tuple[Manifest, ...]:
    """Return the objects in the order of their creation. The pod is last: if it exists, all others
    have been created.
    """
    port = _redis_port(job)
    return _redis_policy(job), _redis_service(job, port), _redis_pod(job, port, options)


def _redis_port(job: DIJob) -> int:
    return job.spec.message_queue.port if job.spec.message_queue else names.REDIS_PORT


def _redis_policy(job: DIJob) -> Manifest:
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": metadata.of_server(job),
        "spec": policy_spec(job),
    }


def policy_spec(job: DIJob) -> Manifest:
    """Return the spec of the policy that lets only the job's ranks connect to the Redis server (if
    the CNI enforces policies). With hostNetwork it allows all peers, because the ranks' traffic
    comes from the IP addresses of their nodes.
    """
    whom = {} if on_host(job) else {"from": [{"podSelector": policy.select_ranks(job)}]}
    return {
        "podSelector": {"matchLabels": _redis_selector(job.metadata.name)},
        "policyTypes": ["Ingress"],
        "ingress": [{**whom, "ports": [{"port": _redis_port(job), "protocol": "TCP"}]}],
    }


def _redis_service(job: DIJob, port: int) -> Manifest:
    """Return a Service with a cluster IP, which stays the same when the pod is re-created. The name
    of a headless Service would not resolve until the pod exists.
    """
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": metadata.of_server(job),
        "spec": service_spec(job.metadata.name, port),
    }


def service_spec(job: str, port: int) -> Manifest:
    return {"selector": _redis_selector(job), "ports": [{"name": "redis", "port": port}]}


def _redis_pod(job: DIJob, port: int, options: Options) -> Manifest:
    """Return the server's pod. It complies with the restricted pod security standard, and needs
    neither API access nor a disk.
    """
    ranks = job.pod_sets[0].pod
    redis: Manifest = {
        "name": "redis",
        "image": options.redis_image,
        "command": [*COMMAND, "--port", str(port)],
        "ports": [{"name": "redis", "containerPort": port}],
        "readinessProbe": {"tcpSocket": {"port": port}, "periodSeconds": PROBE_PERIOD_SECONDS},
        "resources": copy.deepcopy(dict(options.redis_resources)),
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        },
    }
    spec: Manifest = {
        **{key: copy.deepcopy(ranks[key]) for key in PLACEMENT if ranks.get(key)},
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "restartPolicy": "Always",
        "terminationGracePeriodSeconds": GRACE_SECONDS,
        # 999 is the user redis in the official images. Any other uid would work.
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": 999,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "containers": [redis],
    }
    limit_toleration(spec, job, options)
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata.of_server(job), "spec": spec}


def _redis_selector(job: str) -> dict[str, str]:
    return {names.LABEL_SERVER: job}
