"""The nodes that kwok simulates, and when they are ready."""

from typing import Any

import yaml

from cluster.kwok_stage import Match, stage

NOT_READY = "test.dijob/not-ready"  # a node with this annotation is not ready

_NODE_NOT_READY = """
{{ $now := Now }}
conditions:
- lastHeartbeatTime: {{ $now | Quote }}
  lastTransitionTime: {{ $now | Quote }}
  message: container runtime is down
  reason: KubeletNotReady
  status: "False"
  type: Ready
"""

_NODE_READY = """
{{ $now := Now }}
conditions:
{{ range NodeConditions }}
- lastHeartbeatTime: {{ $now | Quote }}
  lastTransitionTime: {{ or $.metadata.creationTimestamp $now | Quote }}
  message: {{ .message | Quote }}
  reason: {{ .reason | Quote }}
  status: {{ .status | Quote }}
  type: {{ .type | Quote }}
{{ end }}
phase: Running
"""


def stages() -> list[dict[str, Any]]:
    """Return the stages that make a node ready, or not ready if it has the annotation NOT_READY."""
    is_ready: Match = {
        "key": '.status.conditions.[] | select( .type == "Ready" ) | .status',
        "operator": "In",
        "values": ["True"],
    }
    told: Match = {"key": f'.metadata.annotations["{NOT_READY}"]', "operator": "Exists"}
    ready = [{**is_ready, "operator": "NotIn"}, {**told, "operator": "DoesNotExist"}]
    return [
        stage("Node", "ready", ready, {"statusTemplate": _NODE_READY}),
        stage("Node", "not-ready", [is_ready, told], {"statusTemplate": _NODE_NOT_READY}),
    ]


def nodes(names: tuple[str, ...]) -> str:
    """Return manifests of simulated nodes with very large capacities."""
    room = {"cpu": "1000", "memory": "1Ti", "pods": "10000", "ephemeral-storage": "1Ti"}
    return yaml.safe_dump_all(
        [
            {
                "apiVersion": "v1",
                "kind": "Node",
                "metadata": {
                    "name": name,
                    "labels": {"kubernetes.io/hostname": name, "type": "kwok"},
                },
                "status": {"capacity": room, "allocatable": room},
            }
            for name in names
        ]
    )
