"""The CustomResourceDefinition, made from the model: its schema, its rules, its columns."""

from typing import Any, Final

from dijob import names
from dijob.api.model import DIJob
from dijob.api.reported import Reported
from dijob.api.status import Status
from dijob.crd.rules import RULES
from dijob.crd.schema import Schema, at, structural

# Columns of `kubectl get dij`; those of priority 1 come with `-o wide`.
_COLUMNS: Final = (
    ("Phase", "string", ".status.phase", 0),
    ("Desired", "integer", ".status.desired", 0),
    ("Ready", "integer", ".status.readyReplicas", 0),
    ("Restarts", "integer", ".status.restarts", 0),
    ("Age", "date", ".metadata.creationTimestamp", 0),
    ("Progress", "string", ".status.progress.line", 0),
    ("Message", "string", ".status.message", 0),
    ("Topology", "string", ".status.topology", 1),
    ("Workers", "integer", ".status.parallelWorkers", 1),
)


class _Status(Status, Reported):
    """What the operator writes, and what the job's program reports."""


class _Stored(DIJob):
    __doc__ = DIJob.__doc__

    status: _Status = _Status()
    """Observations and actions of the operator, and what the job's program reports."""


def document() -> dict[str, Any]:
    """The CRD as a manifest."""
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        # The chart tells this CRD from another operator's of the same name by the label.
        "metadata": {
            "name": f"{names.PLURAL}.{names.GROUP}",
            "labels": {"app.kubernetes.io/part-of": "dijob"},
        },
        "spec": {
            "group": names.GROUP,
            "scope": "Namespaced",
            "names": {
                "kind": names.KIND,
                "listKind": f"{names.KIND}List",
                "plural": names.PLURAL,
                "singular": names.KIND.lower(),
                "shortNames": ["dij"],
                "categories": ["all"],
            },
            "versions": [_version()],
        },
    }


def schema() -> Schema:
    """The structural schema with its CEL rules."""
    root = structural(_Stored)
    for path, rules in RULES.items():
        at(root, path)["x-kubernetes-validations"] = [rule.manifest() for rule in rules]
    return root


def _version() -> dict[str, Any]:
    columns = [
        {"name": name, "type": kind, "jsonPath": path, "priority": priority}
        for name, kind, path, priority in _COLUMNS
    ]
    return {
        "name": names.VERSION,
        "served": True,
        "storage": True,
        "additionalPrinterColumns": columns,
        "subresources": {
            "status": {},
            "scale": {
                "specReplicasPath": ".spec.replicas",
                "statusReplicasPath": ".status.replicas",
                "labelSelectorPath": ".status.selector",
            },
        },
        "schema": {"openAPIV3Schema": schema()},
    }
