"""The table of bad input: what a user applies, and the words of the error."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from apiserver.plane import Body, changed, job

PRINTED = Path(__file__).parent / "seed-as-printed.yaml"
CONTAINER = "spec.template.spec.containers.0"


@dataclass(frozen=True)
class Refused:
    """kubectl apply fails with these words on `lines` lines (0: any), and creates nothing."""

    body: Body
    words: tuple[str, ...]
    lines: int = 1


@dataclass(frozen=True)
class EditRefused:
    """A change to the healthy, running job is rejected with these words."""

    arguments: tuple[str, ...]  # of kubectl; {} is replaced by the job's name
    words: tuple[str, ...]


@dataclass(frozen=True)
class Reported:
    """The job is accepted, and a condition reports the problem. `cure` resolves it."""

    body: Body
    condition: str
    status: str
    words: tuple[str, ...]
    before: tuple[Body, ...] = ()  # objects of other owners, which must not change
    cure: tuple[Body, ...] = ()  # objects that are missing
    # (condition, status) after the cure, or after `before` is deleted.
    healed: tuple[str, str] | None = None
    pods: int = 0  # number of the job's pods while the problem exists


def _env(name: str) -> Body:
    return changed(job("bad"), f"{CONTAINER}.env", [{"name": name, "value": "3"}])


def patch(**spec: Any) -> tuple[str, ...]:
    return ("patch", "dijob", "{}", "--type=merge", "-p", json.dumps({"spec": spec}))


def _named(name: str) -> Body:
    return changed(job("bad"), "metadata.name", name)


FOREIGN_POD: Body = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "bad-1", "labels": {"whose": "another"}},
    "spec": {"containers": [{"name": "a", "image": "example/y"}]},
}
FOREIGN_SERVICE: Body = {
    "apiVersion": "v1",
    "kind": "Service",
    "metadata": {"name": "bad", "labels": {"whose": "another"}},
    "spec": {"ports": [{"port": 80}], "selector": {"a": "b"}},
}
ACCOUNT: Body = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "late"}}

NAME_RULE = ("metadata.name", "at most 58 characters", "choose another name")
LONG_RULE = ("131,071 bytes", "put it into a ConfigMap, mount that as a volume")

REFUSED: dict[str, Refused] = {
    "the seed's YAML as printed": Refused(
        yaml.safe_load(PRINTED.read_text()),
        ("spec.template.containers", "belongs in template.spec", "indent"),
    ),
    "replicas below minReplicas": Refused(
        job("bad", replicas=1, minReplicas=2),
        ("spec.replicas", "between minReplicas and maxReplicas", "minReplicas"),
    ),
    "replicas above maxReplicas": Refused(
        job("bad", replicas=9, maxReplicas=2),
        ("spec.replicas", "between minReplicas and maxReplicas"),
    ),
    "min above max": Refused(
        job("bad", minReplicas=3, maxReplicas=2),
        ("spec.minReplicas", "must not be greater than maxReplicas"),
    ),
    "a manager without a path": Refused(
        job("bad", managedBy="multikueue"),
        ("spec.managedBy", "must be a domain and a path", "remove the field"),
    ),
    "a manager that is too long": Refused(
        job("bad", managedBy="a/" + 62 * "b"), ("spec.managedBy", "63"), lines=0
    ),
    "a stall policy without a time": Refused(
        job("bad", stallPolicy="Report"),
        ("spec.stallPolicy", "needs stallSeconds", "add stallSeconds"),
    ),
    "a stall time without the launcher": Refused(
        job("bad", stallSeconds=300, launcher="Off"),
        ("spec.stallSeconds", "needs the launcher"),
    ),
    "a restart that backoffLimit forbids": Refused(
        job("bad", stallSeconds=300, stallPolicy="Restart", backoffLimit=0),
        ("spec.stallPolicy", "use Report, or raise backoffLimit"),
    ),
    "a stall time that is too short": Refused(
        job("bad", stallSeconds=9), ("spec.stallSeconds", "greater than or equal to 10")
    ),
    "an unknown stall policy": Refused(
        job("bad", stallSeconds=300, stallPolicy="Kill"),
        ("spec.stallPolicy", 'supported values: "Report", "Restart"'),
    ),
    "no replicas at all": Refused(
        changed(changed(job("bad"), "spec.minReplicas", None), "spec.maxReplicas", None),
        ("spec", "one of replicas, minReplicas and maxReplicas is required"),
    ),
    "0 replicas": Refused(job("bad", replicas=0), ("spec.replicas", "greater than or equal to 1")),
    "100000 replicas": Refused(
        job("bad", replicas=100000), ("spec.replicas", "less than or equal to 1500")
    ),
    "no container": Refused(
        changed(job("bad"), "spec.template.spec.containers", []),
        (
            "spec.template.spec",
            "at least one container",
            "add one to spec.template.spec.containers",
        ),
    ),
    "an empty pod spec": Refused(
        changed(job("bad"), "spec.template.spec", None),
        ("spec.template.spec", "at least one container"),
    ),
    "no template": Refused(
        changed(job("bad"), "spec.template", None), ("spec.template", "Required"), lines=0
    ),
    "restartPolicy Always": Refused(
        changed(job("bad"), "spec.template.spec.restartPolicy", "Always"),
        ("spec.template.spec.restartPolicy", "OnFailure or Never"),
    ),
    "hostname": Refused(
        changed(job("bad"), "spec.template.spec.hostname", "a"),
        ("spec.template.spec.hostname", "remove it"),
    ),
    "a variable of the topology": Refused(
        _env("DI_RANK"),
        (
            "spec.template.spec.containers[0].env[0].name",
            "DI_RANK is set by the operator",
            "remove",
        ),
    ),
    "another variable of the topology": Refused(
        _env("DI_NODES"), ("env[0].name", "DI_NODES is set by the operator")
    ),
    "a variable of the topology in an init container": Refused(
        changed(
            job("bad"),
            "spec.template.spec.initContainers",
            [{"name": "a", "env": [{"name": "DI_LIST_NUMBER"}]}],
        ),
        (
            "spec.template.spec.initContainers[0].env[0].name",
            "DI_LIST_NUMBER is set by the operator",
        ),
    ),
    "a label of the operator": Refused(
        changed(job("bad"), "spec.template.metadata.labels", {"diengine.opendilab.org/rank": "0"}),
        ("spec.template.metadata.labels", "reserved for the operator"),
    ),
    "C27: a name that is no Service name": Refused(_named("1st"), (*NAME_RULE, "such as job-1st")),
    "C27: a name with dots": Refused(
        _named("train-seed.0-lr.1e-1"), (*NAME_RULE, "such as train-seed-0-lr-1e-1")
    ),
    "C27: a name that is too long": Refused(_named("a" * 59), (*NAME_RULE, "such as " + "a" * 58)),
    "C27: a long name with a dot at the end": Refused(
        _named("a" * 57 + ".b"), (*NAME_RULE, "such as " + "a" * 57)
    ),
    "C36: an argument that is too long": Refused(
        changed(job("bad"), f"{CONTAINER}.args", ["x" * 140_000]),
        ("spec.template.spec.containers[0].args[0]", *LONG_RULE),
    ),
    "C36: a variable that is too long": Refused(
        changed(job("bad"), f"{CONTAINER}.env", [{"name": "A", "value": "x" * 140_000}]),
        ("spec.template.spec.containers[0].env[0].value", *LONG_RULE),
    ),
    "no such topology": Refused(
        job("bad", topology="ring"), ("spec.topology", '"mesh", "star", "alone"'), lines=0
    ),
    "no such launcher": Refused(
        job("bad", launcher="off"), ("spec.launcher", '"Auto", "Off"'), lines=0
    ),
    "no such addressing": Refused(
        job("bad", addressing="DNS"), ("spec.addressing", '"IP", "Hostname"'), lines=0
    ),
    "a typo in our own part": Refused(
        job("bad", toplogy="star"), ("unknown field", "spec.toplogy"), lines=0
    ),
    "too many workers": Refused(
        job("bad", parallelWorkers=65), ("spec.parallelWorkers", "less than or equal to 64")
    ),
}

REPORTED: dict[str, Reported] = {
    "parallelWorkers against the command": Reported(
        changed(
            job("bad", parallelWorkers=3), f"{CONTAINER}.args", ["ditask --parallel-workers 2"]
        ),
        "Invalid",
        "True",
        (
            "spec.parallelWorkers",
            "is 3, but the command has --parallel-workers 2",
            "make them equal",
        ),
    ),
    "topology against the command": Reported(
        changed(job("bad", topology="mesh"), f"{CONTAINER}.args", ["ditask --topology star"]),
        "Invalid",
        "True",
        ("spec.topology", "is mesh, but the command has --topology star"),
    ),
    "a restart policy of a single container": Reported(
        changed(job("bad"), f"{CONTAINER}.restartPolicy", "Always"),
        "Invalid",
        "True",
        ("spec.template.spec.containers[0].restartPolicy", "use the pod's restartPolicy"),
    ),
    "a volume of the operator's name": Reported(
        changed(job("bad"), "spec.template.spec.volumes", [{"name": "dijob-bin", "emptyDir": {}}]),
        "Invalid",
        "True",
        ("spec.template.spec.volumes[0].name", "choose another name"),
    ),
    "a typo inside the pod spec": Reported(
        changed(job("bad"), f"{CONTAINER}.resorces", {"limits": {"cpu": "1"}}),
        "PodsCreated",
        "False",
        ("PodRejected", "unknown field", "resorces"),
    ),
    "a request above its limit": Reported(
        changed(
            job("bad"), f"{CONTAINER}.resources", {"limits": {"cpu": "1"}, "requests": {"cpu": "2"}}
        ),
        "PodsCreated",
        "False",
        ("PodRejected", "requests", "must be less than or equal to cpu limit"),
    ),
    "a quantity that is none": Reported(
        changed(job("bad"), f"{CONTAINER}.resources", {"limits": {"memory": "10Gig"}}),
        "PodsCreated",
        "False",
        ("PodRejected", "quantities must match"),
    ),
    "a mount without a volume": Reported(
        changed(job("bad"), f"{CONTAINER}.volumeMounts", [{"name": "data", "mountPath": "/data"}]),
        "PodsCreated",
        "False",
        ("PodRejected", "volumeMounts", "data"),
    ),
    "a service account that comes later": Reported(
        changed(job("bad"), "spec.template.spec.serviceAccountName", "late"),
        "PodsCreated",
        "False",
        ("PodForbidden", "serviceaccount", "late", "not found"),
        cure=(ACCOUNT,),
        healed=("Running", "True"),
    ),
    "a pod of that name is somebody else's": Reported(
        job("bad"),
        "PodsCreated",
        "False",
        ("PodNameTaken", "pod bad-1", "somebody else", "delete it, or"),
        before=(FOREIGN_POD,),
        healed=("Running", "True"),
        pods=1,
    ),
    "a Service of that name is somebody else's": Reported(
        job("bad"),
        "ServiceReady",
        "False",
        ("ServiceNameTaken", "service bad", "somebody else"),
        before=(FOREIGN_SERVICE,),
        healed=("Running", "True"),
    ),
    "no node has room": Reported(
        changed(job("bad"), "spec.template.spec.nodeSelector", {"no": "such-node"}),
        "AddressesReady",
        "False",
        ("AddressMissing", "rank", "didn't match Pod's node affinity/selector"),
        pods=2,
    ),
    "a ditask without a launcher, and without a platform": Reported(
        changed(job("bad"), "spec.launcher", "Off"),
        "LauncherBypassed",
        "True",
        ("launcher is Off", "--platform k8s"),
        pods=2,
    ),
}
