"""The job's own Redis server: one pod, the service that names it, and a policy that lets in the
job's ranks alone.

It keeps nothing (DI-engine uses publish and subscribe, ding/framework/message_queue/redis.py), so a
new pod is as good as the old one, for ranks that begin with it (losses.py renews those that
began with another). It is no rank: it goes with the ranks when the job is suspended, or has ended.
"""

import copy

from dijob import names
from dijob.api.model import DIJob
from dijob.core.options import Options, on_host
from dijob.core.render import metadata, policy, tolerations
from dijob.core.render.fields import Manifest
from dijob.core.render.pod import PROBE_PERIOD_SECONDS

# What of the ranks' own pods says where they may run, and with which credentials: so may the
# server.
PLACEMENT = ("priorityClassName", "nodeSelector", "tolerations", "imagePullSecrets")
# What has not been read by a subscriber yet: Redis's own bound, 32 MB, would cut off all who are
# sent one message of 64 MB. Whoever falls behind by this much is cut off, and subscribes again.
BUFFER = "pubsub 1gb 512mb 60"
COMMAND = (
    *("redis-server", "--save", "", "--appendonly", "no"),
    # Who may connect is the policy's business: DI-engine's client knows no password.
    *("--protected-mode", "no", "--client-output-buffer-limit", BUFFER),
)
GRACE_SECONDS = 2


def manifests(job: DIJob, options: Options) -> tuple[Manifest, ...]:
    """What is created, in this order: where the pod is, all of it has been."""
    port = _port(job)
    return _policy(job), _service(job, port), _pod(job, port, options)


def _port(job: DIJob) -> int:
    return job.spec.message_queue.port if job.spec.message_queue else names.REDIS_PORT


def _policy(job: DIJob) -> Manifest:
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": metadata.of_server(job),
        "spec": policy_spec(job),
    }


def policy_spec(job: DIJob) -> Manifest:
    """Who may connect to the server: the job's ranks, if the cluster's network applies policies.
    Everybody, if ranks are in a node's own network: their traffic comes from the node.
    """
    whom = {} if on_host(job) else {"from": [{"podSelector": policy.ranks(job)}]}
    return {
        "podSelector": {"matchLabels": _selector(job)},
        "policyTypes": ["Ingress"],
        "ingress": [{**whom, "ports": [{"port": _port(job), "protocol": "TCP"}]}],
    }


def _service(job: DIJob, port: int) -> Manifest:
    """An address that stays when the pod is re-created; a headless one would be looked up in vain
    until it is there.
    """
    spec = {"selector": _selector(job), "ports": [{"name": "redis", "port": port}]}
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": metadata.of_server(job),
        "spec": spec,
    }


def _pod(job: DIJob, port: int, options: Options) -> Manifest:
    """It runs where the restricted pod security standard is enforced, and it needs no right and no
    disk.
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
        # 999 is redis in the official images; any other would do.
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": 999,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "containers": [redis],
    }
    tolerations.fit(spec, job, options)
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata.of_server(job), "spec": spec}


def _selector(job: DIJob) -> dict[str, str]:
    return {names.LABEL_SERVER: job.metadata.name}
