"""Renders the chart with several sets of values, and parses objects and RBAC comments."""

import json
import re
from collections.abc import Iterator
from typing import Any

import yaml
from chart.lab import CHART, Lab

Objects = list[dict[str, Any]]

SETS: dict[str, dict[str, Any]] = {
    "defaults": {},
    "namespaces": {"namespaces": ["team-a", "team-b"]},
    "everything": {
        "image": {"digest": "sha256:" + "a" * 64},
        "imagePullSecrets": ["registry"],
        "launcher": {
            "image": "registry.example/launcher:1",
            "delivery": "ImageVolume",
            "prepull": {
                "enabled": True,
                "nodeSelector": {"pool": "training"},
                "tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists"}],
            },
        },
        "logLevel": "debug",
        "logFormat": "json",
        "healthPort": 9090,
        "channelPort": 9091,
        "priorityClassName": "system-cluster-critical",
        "serviceAccount": {"annotations": {"example.com/a": "b"}},
        "podAnnotations": {"example.com/a": "b", "kubectl.kubernetes.io/default-container": "x"},
        "podLabels": {"team": "rl", "app.kubernetes.io/name": "another"},
        "nodeSelector": {"pool": "system"},
        "tolerations": [{"key": "system", "operator": "Exists"}],
        "affinity": {"nodeAffinity": {}},
        "serviceMonitor": {"enabled": True, "interval": "10s", "labels": {"release": "prometheus"}},
        "prometheusRule": {"enabled": True, "labels": {"release": "prometheus"}},
        "grafanaDashboard": {"enabled": True},
        "jobMetrics": True,
        "networkPolicy": {
            "jobs": True,
            "enabled": True,
            "from": [{"namespaceSelector": {"matchLabels": {"a": "b"}}}],
        },
        "crds": {"keep": False},
    },
    "least": {
        "namespaces": ["team-a"],
        "crds": {"install": False, "check": False},
        "policies": {"enabled": False},
        "userRoles": {"enabled": False},
    },
    "as a dependency": {"global": {"anything": 1}},
}


def render(lab: Lab, values: dict[str, Any]) -> str:
    """Render the manifest of release `dijob` in namespace `dijob-system`."""
    sets = [f"--set-json={name}={json.dumps(value)}" for name, value in values.items()]
    return lab.helm("template", "dijob", str(CHART), "--namespace=dijob-system", *sets)


def parsed(text: str) -> Objects:
    return [each for each in yaml.safe_load_all(text) if each]


def of(objects: Objects, kind: str) -> Objects:
    return [each for each in objects if each["kind"] == kind]


def one(objects: Objects, kind: str, name: str = "") -> dict[str, Any]:
    """Return the only object of a kind (and name)."""
    (found,) = [each for each in of(objects, kind) if name in ("", each["metadata"]["name"])]
    return found


def commented_rules(manifest: str) -> Iterator[tuple[str, str]]:
    """Yield the first line of each RBAC rule with the line above it."""
    lines = manifest.splitlines()
    for number, line in enumerate(lines):
        if re.match(r"\s*- apiGroups:.*\S", line):
            yield lines[number - 1].strip(), line
