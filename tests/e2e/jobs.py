"""Builds the DIJobs and ConfigMaps that the tests apply."""

from typing import Any

from archives import ROOT
from manifests import dijob
from space import Space, measured

Body = dict[str, Any]

LIGHT = "dijob/light:dev"
DITASK = "dijob/ditask:0.5.3"
# Each process needs several CPU seconds to import DI-engine, which take long on a busy machine.
# This is an upper bound, not a measurement.
REAL_SECONDS = 600
EXAMPLES = ROOT / "examples"
# On a busy machine, pods without a request get almost no CPU time.
REQUESTS = {"resources": {"requests": {"cpu": "50m"}}}

REAL: Body = {
    "image": DITASK,
    "env": [{"name": "PYTHONUNBUFFERED", "value": "1"}, {"name": "OMP_NUM_THREADS", "value": "1"}],
}


def job(name: str, main: Body, *, pod: Body | None = None, **spec: Any) -> Body:
    """Return a DIJob. `main` is merged into its main container (light image), `pod` into the pod
    spec, `spec` into the job's spec.

    Containers in `pod` are added to the main one. The default is two replicas.
    """
    main = {"image": LIGHT, "imagePullPolicy": "IfNotPresent", **REQUESTS, **main}
    pod = dict(pod or {})
    beside = pod.pop("containers", [])
    made = dijob(name, main, pod, **{"replicas": 2, **spec})
    made["spec"]["template"]["spec"]["containers"] += beside
    return made


def peers(name: str, *flags: str, **spec: Any) -> Body:
    """Return a job of light peers, which connect as DI-engine does, e.g. with --forever."""
    return job(name, {"command": ["light-peer", *flags]}, **spec)


def shell(name: str, script: str, **more: Any) -> Body:
    """Return a job whose main container runs a bash script."""
    return job(name, {"command": ["/bin/bash", "-c", script]}, **more)


def config_map(name: str, **files: str) -> Body:
    """Return a ConfigMap. In names, an underscore before the extension stands for the dot."""
    data = {".".join(key.rsplit("_", 1)): text for key, text in files.items()}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}


def mounted(config_map: str, path: str) -> tuple[Body, Body]:
    """Return the fields of container and pod that mount a ConfigMap at `path` with mode 0755."""
    volume = {"name": config_map, "configMap": {"name": config_map, "defaultMode": 0o755}}
    return {"volumeMounts": [{"name": config_map, "mountPath": path}]}, {"volumes": [volume]}


def program(name: str, command: list[str], text: str, **spec: object) -> list[Body]:
    """Return a job of the ditask image that runs /code/main.py, and its ConfigMap."""
    mount, volume = mounted(f"{name}-code", "/code")
    main = {**REAL, "command": command, "workingDir": "/code", **mount}
    return [config_map(f"{name}-code", main_py=text), job(name, main, pod=volume, **spec)]


def succeeded(space: Space, file: str, name: str) -> None:
    """Apply an example, and wait for its success."""
    space.kubectl("apply", "-f", str(EXAMPLES / file))
    waited = space.until_true(name, "Succeeded", REAL_SECONDS)
    measured(f"seconds until {file} has Succeeded", f"{waited:.0f}")
    assert space.status(name).get("restarts", 0) == 0


def redis_server(*flags: str) -> list[Body]:
    """Return a pod with Debian's Redis server and its Service."""
    command = ["redis-server", "--protected-mode", "no", "--save", "", "--appendonly", "no", *flags]
    container = {
        "name": "redis",
        "image": LIGHT,
        "imagePullPolicy": "IfNotPresent",
        "command": command,
    }
    meta = {"name": "redis", "labels": {"app": "redis"}}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": {"containers": [container]}}
    ports = {"selector": {"app": "redis"}, "ports": [{"port": 6379}]}
    return [
        pod,
        {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "redis"}, "spec": ports},
    ]


def start_redis(space: Space, *objects: Body) -> None:
    """Start a Redis server, by default redis_server(), and wait until it can be reached. The ranks
    of a job do not wait for an external server: without one, they fail and restart.
    """
    server, service = objects or redis_server()
    server["spec"]["containers"][0]["readinessProbe"] = {
        "tcpSocket": {"port": 6379},
        "periodSeconds": 1,
    }
    space.apply(server, service)
    space.kubectl("wait", "--for=condition=Ready", "pod/redis", "--timeout=180s", timeout=190)


def share_of_a_node(space: Space, count: int) -> Body:
    """Return container resources of which `count` fill the CPU of a node, with a little left for
    other pods.
    """
    nodes = space.api.core.list_node().items
    free = min(_millicores(node.status.allocatable["cpu"]) for node in nodes)
    return {"resources": {"requests": {"cpu": f"{(free - 200) // count}m"}}}


def _millicores(text: str) -> int:
    """Return the millicores of a CPU quantity as the apiserver writes it: "2", "1930m"."""
    return int(text[:-1]) if text.endswith("m") else int(text) * 1000
