"""Which pods have a gate, and what a pod with a channel has in its place."""

from typing import Any

import pytest
from dijob import names
from dijob.core.members import gang_of
from dijob.core.observed.parse import parse_pod
from dijob.core.options import Delivery, Options
from dijob.core.render.pod import pod_manifest
from dijob.pod import CHANNEL
from samples.builders import Body, container, job, main, pod_env

OPTIONS = Options(channel="10.96.0.7:8082")
PROBE = {"tcpSocket": {"port": 80}}
HOOK = {"postStart": {"exec": {"command": ["true"]}}}


def made(options: Options = OPTIONS, key: str = "key", **given: Any) -> Body:
    owner = job(**{"service": "Auto", **given})
    return pod_manifest(owner, gang_of(owner).members[1], options, key)


def has_gate(body: Body) -> bool:
    return any(one["name"] == names.GATE_CONTAINER for one in body["spec"]["initContainers"])


GATED: dict[str, Body] = {
    "names in the list": {"addressing": "Hostname"},
    "DNS records are awaited": {"service": "Always"},
    "host network": {"pod": {"hostNetwork": True}},
    "another container": {"pod": {"containers": [container(), {"name": "b", "image": "b"}]}},
    "a liveness probe": {"pod": {"containers": [container(livenessProbe=PROBE)]}},
    "a startup probe": {"pod": {"containers": [container(startupProbe=PROBE)]}},
    "a hook": {"pod": {"containers": [container(lifecycle=HOOK)]}},
    "the kubelet sets a variable of the list": {
        "pod": {"containers": [container(args=["--nodes", "$(DI_NODES)"])]}
    },
    "no launcher": {"launcher": "Off"},
    "no command": {"pod": {"containers": [container(command=None)]}},
    "no channel": {"options": Options()},
    "no key": {"key": ""},
}


@pytest.mark.parametrize("case", GATED)
def test_pods_with_a_gate(case: str) -> None:
    body = made(**GATED[case])
    assert has_gate(body)
    assert CHANNEL not in pod_env(body)


UNGATED: dict[str, Body] = {
    "an ordinary job": {},
    "an init container": {"pod": {"initContainers": [{"name": "i", "image": "i"}]}},
    "a readiness probe": {"pod": {"containers": [container(readinessProbe=PROBE)]}},
    "a stop hook": {"pod": {"containers": [container(lifecycle={"preStop": HOOK["postStart"]})]}},
    "a variable that is known before": {
        "pod": {"containers": [container(args=["--rank", "$(DI_RANK)"])]}
    },
}


@pytest.mark.parametrize("case", UNGATED)
def test_pods_with_a_channel(case: str) -> None:
    body = made(**UNGATED[case])
    assert not has_gate(body)
    assert pod_env(body)[CHANNEL] == "10.96.0.7:8082 job-1 key"


def test_a_pod_with_an_image_volume_has_no_init_container() -> None:
    options = Options(channel="10.96.0.7:8082", launcher_delivery=Delivery.IMAGE_VOLUME)
    assert made(options)["spec"]["initContainers"] == []


def test_the_launcher_of_a_task_knows_the_name_of_its_pod() -> None:
    """The launcher names its pod to the operator. With tasks, the name does not have the rank."""
    tasks = [
        {"type": "learner", "replicas": 1, "template": {"spec": {"containers": [container()]}}},
        {"type": "collector", "replicas": 2, "template": {"spec": {"containers": [container()]}}},
    ]
    body = made(tasks=tasks, template=None, replicas=None)
    assert body["metadata"]["name"] == "job-collector-0"
    assert pod_env(body)[CHANNEL].split() == ["10.96.0.7:8082", "job-collector-0", "key"]


def test_the_operator_finds_its_key_in_the_pod() -> None:
    body = made()
    body["metadata"] |= {"uid": "u", "resourceVersion": "1"}
    assert parse_pod(body).made.channel_key == "key"
    assert not parse_pod(body).made.foreign


@pytest.mark.parametrize(
    ("fields", "ready", "port"),
    [
        ({}, "50514 50515", 50514),
        ({"command": ["python", "train.py"]}, "50514", 50514),
        ({"command": ["python", "train.py"], "readinessProbe": PROBE}, None, 80),
    ],
    ids=["the program's port is known", "it is not known", "the template has a probe"],
)
def test_a_pod_is_not_ready_while_its_launcher_waits(
    fields: Body, ready: str | None, port: int
) -> None:
    body = made(pod={"containers": [container(**fields)]})
    assert pod_env(body).get("DIJOB_READY") == ready
    assert main(body)["readinessProbe"]["tcpSocket"]["port"] == port
