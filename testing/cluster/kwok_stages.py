"""The behavior of kwok's simulated kubelets: node leases, and pods with the gate's two steps.

A pod with a channel runs at once, and is not Ready. The program that simulates its launcher does
the rest (testing/launchers).
"""

from textwrap import indent
from typing import Any

import yaml

from cluster import kwok_nodes
from cluster.kwok_stage import Match, stage

GATE = "dijob-gate"  # the init container in which a DIJob's pod waits
CHANNEL = "DIJOB_CHANNEL"  # the variable of a pod that has no gate, because its launcher waits
NODE_IPS = "diengine.opendilab.org/node-ips"  # the annotation that opens the gate
RENEW = "diengine.opendilab.org/renew-from"  # annotation: the launcher ends its program
EXIT = "test.dijob/exit"  # annotation: a running pod ends with this exit code,
EXIT_DELAY = "test.dijob/exit-delay"  # after this delay ("500ms"; default: 1 s)
# Node leases are renewed after a quarter of this. With each renewal, kwok 0.6 lists all pods of the
# node: with 4,000 pods and leases of 40 s, this needlessly used 1.5 of two cores.
LEASE_SECONDS = 600
NO_START = "test.dijob/no-start"  # annotation: the kubelet ignores the pod

_GONE: Match = {"key": ".metadata.deletionTimestamp", "operator": "DoesNotExist"}
# In the last event of a pod that kwok has already deleted, the grace period is 0. The stage
# "delete" must not match this event: kwok deletes by name, so it could delete the next pod of that
# name.
_ASKED_TO_GO: Match = {
    "key": ".metadata.deletionGracePeriodSeconds | select(. != null and . > 0)",
    "operator": "Exists",
}
_NO_IP: Match = {"key": ".status.podIP", "operator": "DoesNotExist"}
_MAY_START: Match = {"key": f'.metadata.annotations["{NO_START}"]', "operator": "DoesNotExist"}
_HAS_GATE: Match = {"key": ".spec.initContainers.[].name", "operator": "In", "values": [GATE]}
_HAS_NO_GATE: Match = {**_HAS_GATE, "operator": "NotIn"}

_ADDRESSES = """
hostIP: {{ NodeIPWith .spec.nodeName | Quote }}
podIP: {{ PodIPWith .spec.nodeName ( or .spec.hostNetwork false ) ( or .metadata.uid "" ) ( or .metadata.name "" ) \
( or .metadata.namespace "" ) | Quote }}
"""

_AT_GATE = (
    """
{{ $now := Now }}
phase: Pending
startTime: {{ $now | Quote }}
conditions:
- {type: PodReadyToStartContainers, status: "True", lastTransitionTime: {{ $now | Quote }}}
- {type: Initialized, status: "False", reason: ContainersNotInitialized, lastTransitionTime: {{ $now | Quote }}}
- {type: Ready, status: "False", reason: ContainersNotReady, lastTransitionTime: {{ $now | Quote }}}
- {type: ContainersReady, status: "False", reason: ContainersNotReady, lastTransitionTime: {{ $now | Quote }}}
initContainerStatuses:
{{ range .spec.initContainers }}
- name: {{ .name | Quote }}
  image: {{ .image | Quote }}
  restartCount: 0
  {{ if eq .name "GATE" }}
  ready: false
  started: true
  state: {running: {startedAt: {{ $now | Quote }}}}
  {{ else }}
  ready: true
  started: false
  state:
    terminated: {exitCode: 0, reason: Completed, startedAt: {{ $now | Quote }}, finishedAt: {{ $now | Quote }}}
  {{ end }}
{{ end }}
containerStatuses:
{{ range .spec.containers }}
- name: {{ .name | Quote }}
  image: {{ .image | Quote }}
  ready: false
  started: false
  restartCount: 0
  state: {waiting: {reason: PodInitializing}}
{{ end }}
""".replace("GATE", GATE)
    + _ADDRESSES
)

_RUNNING = """
{{ $now := Now }}
{{ $ready := true }}
{{ range .spec.containers }}{{ range .env }}{{ if eq .name "CHANNEL" }}{{ $ready = false }}{{ end }}{{ end }}{{ end }}
phase: Running
startTime: {{ or .status.startTime $now | Quote }}
conditions:
- {type: PodReadyToStartContainers, status: "True", reason: "", lastTransitionTime: {{ $now | Quote }}}
- {type: Initialized, status: "True", reason: "", lastTransitionTime: {{ $now | Quote }}}
- {type: Ready, status: {{ if $ready }}"True"{{ else }}"False"{{ end }}, reason: "", lastTransitionTime: {{ $now | Quote }}}
- {type: ContainersReady, status: {{ if $ready }}"True"{{ else }}"False"{{ end }}, reason: "", lastTransitionTime: {{ $now | Quote }}}
{{ if .spec.initContainers }}
initContainerStatuses:
{{ range .spec.initContainers }}
- name: {{ .name | Quote }}
  image: {{ .image | Quote }}
  ready: true
  started: false
  restartCount: 0
  state:
    terminated: {exitCode: 0, reason: Completed, startedAt: {{ $now | Quote }}, finishedAt: {{ $now | Quote }}}
{{ end }}
{{ end }}
containerStatuses:
{{ range .spec.containers }}
- name: {{ .name | Quote }}
  image: {{ .image | Quote }}
  ready: {{ $ready }}
  started: true
  restartCount: 0
  containerID: kwok://{{ $.metadata.uid }}-{{ .name }}
  state: {running: {startedAt: {{ $now | Quote }}}}
{{ end }}
""".replace("CHANNEL", CHANNEL)

_RENEWED = """
{{ $now := Now }}
{{ $number := index .metadata.annotations "RENEW" }}
conditions:
- {type: Ready, status: "True", reason: "", lastTransitionTime: {{ $now | Quote }}}
- {type: ContainersReady, status: "True", reason: "", lastTransitionTime: {{ $now | Quote }}}
containerStatuses:
{{ range .spec.containers }}
- name: {{ .name | Quote }}
  image: {{ .image | Quote }}
  ready: true
  started: true
  restartCount: 1
  containerID: kwok://{{ $.metadata.uid }}-{{ .name }}-again
  state: {running: {startedAt: {{ $now | Quote }}}}
  lastState:
    terminated:
      exitCode: 85
      reason: Error
      message: "dijob: renewal, list {{ $number }}"
      startedAt: {{ $now | Quote }}
      finishedAt: {{ $now | Quote }}
{{ end }}
""".replace("RENEW", RENEW)

_ENDED = """
{{ $now := Now }}
{{ $code := index .metadata.annotations "EXIT" }}
{{ $before := index .status.containerStatuses 0 }}
phase: {{ if eq $code "0" }}Succeeded{{ else }}Failed{{ end }}
conditions:
- {type: Ready, status: "False", reason: PodCompleted, lastTransitionTime: {{ $now | Quote }}}
- {type: ContainersReady, status: "False", reason: PodCompleted, lastTransitionTime: {{ $now | Quote }}}
containerStatuses:
{{ range .spec.containers }}
- name: {{ .name | Quote }}
  image: {{ .image | Quote }}
  ready: false
  started: false
  restartCount: {{ $before.restartCount }}
  containerID: {{ $before.containerID | Quote }}
  state:
    terminated:
      exitCode: {{ $code }}
      reason: {{ if eq $code "0" }}Completed{{ else }}Error{{ end }}
      startedAt: {{ $now | Quote }}
      finishedAt: {{ $now | Quote }}
{{ end }}
""".replace("EXIT", EXIT)


def _status(template: str) -> dict[str, Any]:
    """Return a patch of a pod's status. The API server rejects it if the pod has changed since kwok
    read the pod. Without this check, an outdated view would let kwok play a stage twice and give a
    pod a second address.
    """
    whole = (
        "metadata: {resourceVersion: {{ .metadata.resourceVersion | Quote }}}\nstatus:\n"
        + indent(template, "  ")
    )
    return {"patches": [{"subresource": "status", "type": "strategic", "template": whole}]}


def pod_stages() -> list[dict[str, Any]]:
    """Return stages for pods: pods without a gate run at once, and pods with a gate wait for the
    peer list. Tests can make pods of both kinds end.
    """
    waits: list[Match] = [
        _GONE,
        {"key": ".status.phase", "operator": "In", "values": ["Pending"]},
        _HAS_GATE,
        {"key": ".status.podIP", "operator": "Exists"},
        {"key": f'.metadata.annotations["{NODE_IPS}"] | select(. != "")', "operator": "Exists"},
    ]
    ends: list[Match] = [
        _GONE,
        {"key": ".status.phase", "operator": "In", "values": ["Running"]},
        {"key": f'.metadata.annotations["{EXIT}"]', "operator": "Exists"},
    ]
    # This stage applies only once. After that, the operator replaces the pod, because it knows that
    # the kubelet's back-off would delay the restart. In a pod with a channel, the launcher decides
    # when its program ends.
    renews: list[Match] = [
        _GONE,
        _HAS_GATE,
        {"key": ".status.phase", "operator": "In", "values": ["Running"]},
        {"key": f'.metadata.annotations["{RENEW}"]', "operator": "Exists"},
        {
            "key": ".status.containerStatuses.[].lastState.terminated.message",
            "operator": "DoesNotExist",
        },
    ]
    delay = {
        "durationMilliseconds": 1000,
        "durationFrom": {"expressionFrom": f'.metadata.annotations["{EXIT_DELAY}"]'},
    }
    return [
        stage(
            "Pod", "run", [_GONE, _NO_IP, _MAY_START, _HAS_NO_GATE], _status(_RUNNING + _ADDRESSES)
        ),
        stage("Pod", "wait-at-gate", [_GONE, _NO_IP, _MAY_START, _HAS_GATE], _status(_AT_GATE)),
        stage("Pod", "pass-gate", waits, _status(_RUNNING)),
        stage("Pod", "renew", renews, _status(_RENEWED)),
        stage("Pod", "end", ends, _status(_ENDED), delay=delay),
        stage("Pod", "delete", [_ASKED_TO_GO], {"delete": True}),
    ]


def config(loopback_pods: bool = False) -> str:
    """Return kwok's --config: options and stages. Leases keep nodes Ready; the status of a node is
    written only once.
    """
    options = {
        "apiVersion": "config.kwok.x-k8s.io/v1alpha1",
        "kind": "KwokConfiguration",
        "options": {
            "manageAllNodes": True,
            "cidr": "127.244.0.1/16" if loopback_pods else "10.244.0.1/16",
            "nodeIP": "10.0.0.1",
            "nodeLeaseDurationSeconds": LEASE_SECONDS,
            "podPlayStageParallelism": 16,
        },
    }
    stages = [*kwok_nodes.stages(), *pod_stages()]
    return yaml.safe_dump_all([options, *stages], sort_keys=False)
