"""Generates the CustomResourceDefinition from the model: the schema, the rules and the columns.

The CRD is generated so that the apiserver and the operator cannot disagree about a field. A CRD
that is written by hand would have to repeat each type, bound and description of the model.
"""

from typing import Any, Final

from dijob import names
from dijob.api.model import DIJob
from dijob.api.reported import Reported
from dijob.api.status import Status
from dijob.crd.rules import RULES
from dijob.crd.schema import Schema, schema_at, structural_schema

# Columns of `kubectl get dij`. Columns with priority 1 are shown only with `-o wide`.
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


# The operator's models leave out what programs report, so that the operator cannot overwrite it.
# The CRD needs both parts.
class _Status(Status, Reported):
    """The fields that the operator writes, and those that the job's program reports."""


class _Stored(DIJob):
    __doc__ = DIJob.__doc__

    status: _Status = _Status()
    """The observed state of the job, the operator's actions, and the program's reports."""


def crd_manifest() -> dict[str, Any]:
    """Return the CRD as a manifest."""
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        # DI-orchestrator has a CRD of the same name. The chart recognizes its own CRD by this
        # label.
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
                # Shown by `kubectl get all`.
                "categories": ["all"],
            },
            "versions": [_crd_version()],
        },
    }


def crd_schema() -> Schema:
    """Return the structural schema with its CEL rules."""
    root = structural_schema(_Stored)
    for path, rules in RULES.items():
        schema_at(root, path)["x-kubernetes-validations"] = [rule.manifest() for rule in rules]
    return root


def _crd_version() -> dict[str, Any]:
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
        "schema": {"openAPIV3Schema": crd_schema()},
    }
