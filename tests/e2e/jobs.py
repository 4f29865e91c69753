"""Builds the DIJobs and ConfigMaps that the tests apply."""

from typing import Any

Body = dict[str, Any]

LIGHT = "dijob/light:dev"
DITASK = "dijob/ditask:0.5.3"
# Importing DI-engine takes each process several CPU seconds, which a busy machine does not have: a bound, no figure.
REAL_SECONDS = 600
# Pods without a request get next to no time on a machine that is busy otherwise.
REQUESTS = {"resources": {"requests": {"cpu": "50m"}}}


def job(name: str, main: Body, *, pod: Body | None = None, **spec: Any) -> Body:
    """A DIJob. `main` is merged into its main container (light image), `pod` into the pod's spec, `spec` into the spec.

    Containers in `pod` come beside the main one. Two replicas unless `spec` says otherwise.
    """
    container = {"name": "di-container", "image": LIGHT, "imagePullPolicy": "IfNotPresent", **REQUESTS, **main}
    beside = dict(pod or {})
    containers = [container, *beside.pop("containers", [])]
    return {
        "apiVersion": "diengine.opendilab.org/v2alpha1",
        "kind": "DIJob",
        "metadata": {"name": name},
        "spec": {"replicas": 2, **spec, "template": {"spec": {**beside, "containers": containers}}},
    }


def peers(name: str, *flags: str, **spec: Any) -> Body:
    """A job whose ranks speak DI-engine's contract without DI-engine, e.g. with --forever."""
    return job(name, {"command": ["light-peer", *flags]}, **spec)


def shell(name: str, script: str, **more: Any) -> Body:
    """A job whose main container runs a bash script."""
    return job(name, {"command": ["/bin/bash", "-c", script]}, **more)


def config_map(name: str, **files: str) -> Body:
    """A ConfigMap; the underscore before an extension stands for its dot."""
    data = {".".join(key.rsplit("_", 1)): text for key, text in files.items()}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}


def mounted(config_map: str, path: str) -> tuple[Body, Body]:
    """The container's and the pod's part of a ConfigMap whose files are at `path`, executable."""
    volume = {"name": config_map, "configMap": {"name": config_map, "defaultMode": 0o755}}
    return {"volumeMounts": [{"name": config_map, "mountPath": path}]}, {"volumes": [volume]}
