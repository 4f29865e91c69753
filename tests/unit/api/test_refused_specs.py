"""parse_job: the message for each invalid spec."""

import copy
import time
from collections.abc import Callable

import pytest
import yaml
from dijob import names
from dijob.api.parse import parse_job
from dijob.api.problems import SpecError
from dijob.api.warnings import job_warnings
from samples import builders
from samples.specs import Body, body, named, rejection, with_command, with_env, with_pod
from speed import allowed

# The YAML of the seed as printed: `containers` is next to `spec`, so `spec` is null.
PRINTED = """
apiVersion: diengine.opendilab.org/v2alpha1
kind: DIJob
metadata:
    name: test
spec:
    minReplicas: 3
    maxReplicas: 3
    template:
        spec:
        containers:
        - name: di-container
          image: opendilab/ding:latest
          command: ["/bin/bash", "-c",]
          args:
          - |
            ditask --package my_module --main my_module.main --parallel-workers 2
"""


def with_metadata(metadata: Body, engine: str) -> Body:
    """Return a job whose template has this metadata."""
    made = copy.deepcopy(body(scheduling={"engine": engine}))
    made["spec"]["template"]["metadata"] = metadata
    return made


REFUSED: dict[str, tuple[Body, str, str]] = {
    "the seed as printed": (
        yaml.safe_load(PRINTED),
        "spec.template.containers",
        "belongs in template.spec",
    ),
    "a manager without a path": (
        body(managedBy="multikueue"),
        "spec.managedBy",
        "'multikueue' must be a domain and a path, such as kueue.x-k8s.io/multikueue",
    ),
    "an empty manager": (body(managedBy=""), "spec.managedBy", "remove the field"),
    "a manager with an invalid domain": (body(managedBy="A.b/c"), "spec.managedBy", "a domain"),
    "a manager with an empty path": (body(managedBy="a.b/"), "spec.managedBy", "a domain"),
    "a manager that is too long": (body(managedBy="a/" + 62 * "b"), "spec.managedBy", "63"),
    "a stall policy without a time": (
        body(stallPolicy="Report"),
        "spec.stallPolicy",
        "needs stallSeconds",
    ),
    "a stall time without the launcher": (
        body(stallSeconds=300, launcher="Off"),
        "spec.stallSeconds",
        "needs the launcher",
    ),
    "a restart that backoffLimit forbids": (
        body(stallSeconds=300, stallPolicy="Restart", backoffLimit=0),
        "spec.stallPolicy",
        "raise backoffLimit",
    ),
    "a stall time that is too short": (body(stallSeconds=9), "spec.stallSeconds", "10"),
    "a stall time that is too long": (body(stallSeconds=604801), "spec.stallSeconds", "604800"),
    "an unknown stall policy": (
        body(stallSeconds=300, stallPolicy="Kill"),
        "spec.stallPolicy",
        "'Report' or 'Restart'",
    ),
    "no size": (body(replicas=None), "spec", "one of replicas, minReplicas and maxReplicas"),
    "below min": (body(replicas=1, minReplicas=2), "spec.replicas", "is 1, but minReplicas is 2"),
    "above max": (body(replicas=5, maxReplicas=4), "spec.replicas", "is 5, but maxReplicas is 4"),
    "min above max": (
        body(minReplicas=5, maxReplicas=4),
        "spec.minReplicas",
        "is 5, but maxReplicas is 4",
    ),
    "zero": (body(replicas=0), "spec.replicas", "at least 1"),
    "far too many": (body(replicas=100000), "spec.replicas", "at most 1500"),
    "a number as a string": (body(replicas="3"), "spec.replicas", "valid integer"),
    "a fraction": (body(replicas=1.5), "spec.replicas", "valid integer"),
    "true instead of a number": (body(replicas=True), "spec.replicas", "valid integer"),
    "no workers": (body(parallelWorkers=0), "spec.parallelWorkers", "at least 1"),
    "a typo": (body(toplogy="star"), "spec.toplogy", "no such field; did you mean topology?"),
    "containers outside the template": (
        body(containers=[]),
        "spec.containers",
        "did you mean spec.template.spec.containers?",
    ),
    "a field like no other": (body(xyz=1), "spec.xyz", "known fields: replicas, minReplicas"),
    "a gang larger than the job": (
        body(replicas=3, scheduling={"minAvailable": 4}),
        "spec.scheduling.minAvailable",
        "is 4, but the job has at most 3 ranks",
    ),
    "an engine that does not exist": (
        body(scheduling={"engine": "Slurm"}),
        "spec.scheduling.engine",
        "'Native', 'Volcano', 'Coscheduling', 'YuniKorn', 'KAI' or 'Kueue'",
    ),
    "a queue of an engine without queues": (
        body(scheduling={"engine": "Coscheduling", "queue": "team-a"}),
        "spec.scheduling.queue",
        "is team-a, but the engine Coscheduling does not use this field: remove it, or use one of"
        " the engines Volcano, YuniKorn, KAI",
    ),
    "a queue without an engine": (
        body(scheduling={"engine": "None", "queue": "team-a"}),
        "spec.scheduling.queue",
        "is team-a, but the engine None does not use this field",
    ),
    "a queue with an invalid name": (
        body(scheduling={"engine": "Volcano", "queue": "team a"}),
        "spec.scheduling.queue",
        "'team a' is the name of a queue, so it must match",
    ),
    "a preferred topology with Native": (
        body(scheduling={"engine": "Native", "topology": {"key": "rack", "mode": "Preferred"}}),
        "spec.scheduling.topology.mode",
        "is Preferred, but the engine Native supports only Required",
    ),
    "a topology with an engine that has none": (
        body(scheduling={"engine": "KAI", "topology": {"key": "rack"}}),
        "spec.scheduling.topology",
        "is set, but the engine KAI does not use this field: remove it, or use one of the engines"
        " Native, Volcano",
    ),
    "a group of the user's own": (
        with_metadata({"annotations": {"scheduling.k8s.io/group-name": "mine"}}, "Volcano"),
        "spec.template.metadata",
        "scheduling.k8s.io/group-name puts the pods into a group of your own, but with the engine"
        " Volcano the operator",
    ),
    "a PodGroup of the user's own": (
        body(
            scheduling={"engine": "Volcano"},
            template={
                "spec": {
                    "containers": [{"name": "di-container", "image": "i"}],
                    "schedulingGroup": {"podGroupName": "mine"},
                }
            },
        ),
        "spec.template.spec.schedulingGroup",
        "is set, but with the engine Volcano the operator itself creates a group for the pods",
    ),
    "a typo in template": (
        body(template={"spce": {}}),
        "spec.template.spce",
        "did you mean spec?",
    ),
    "a misspelled topology": (
        body(topology="Mesch"),
        "spec.topology",
        "is 'Mesch'; did you mean 'mesh'? it must be one of 'mesh', 'star' or 'alone'",
    ),
    "no such topology": (body(topology="ring"), "spec.topology", "'mesh', 'star' or 'alone'"),
    "no such launcher": (body(launcher="off"), "spec.launcher", "'Auto' or 'Off'"),
    "backoffLimit": (body(backoffLimit=-1), "spec.backoffLimit", "at least 0"),
    "no template": ({**named("a"), "spec": {"replicas": 1}}, "spec", "either a template"),
    "no spec": ({"metadata": {"name": "a"}}, "spec", "either a template"),
    "no container": (
        with_pod(containers=[]),
        "spec.template.spec.containers",
        "at least one container",
    ),
    "null pod spec": (
        body(template={"spec": None}),
        "spec.template.spec.containers",
        "at least one",
    ),
    "containers of a wrong type": (
        with_pod(containers=["x"]),
        "spec.template.spec.containers",
        "at least one",
    ),
    "restartPolicy": (
        with_pod(restartPolicy="Always"),
        "spec.template.spec.restartPolicy",
        "OnFailure or Never",
    ),
    "a mount in the operator's folder": (
        with_pod(
            containers=[
                {
                    "name": "a",
                    "image": "i",
                    "volumeMounts": [{"name": "v", "mountPath": "/run/dijob/bin"}],
                }
            ]
        ),
        "spec.template.spec.containers[0].volumeMounts",
        "/run/dijob/bin is where the operator mounts its own files",
    ),
    "a peer list of names that does not fit": (
        {**builders.job_body(replicas=1500, addressing="Hostname"), "metadata": {"name": "a" * 58}},
        "spec.addressing",
        "at most 813 replicas fit",
    ),
    "names without the cluster's DNS": (
        builders.job_body(
            {"containers": [builders.container()], "dnsPolicy": "Default"}, addressing="Hostname"
        ),
        "spec.template.spec.dnsPolicy",
        "`addressing: Hostname`, `runtime: slurm` and",
    ),
    "slurm without the cluster's DNS": (
        builders.job_body(
            {"containers": [builders.container()], "dnsPolicy": "Default"}, runtime="slurm"
        ),
        "spec.template.spec.dnsPolicy",
        "`addressing: Hostname`, `runtime: slurm` and",
    ),
    "a peer list of slurm's names that does not fit": (
        {**builders.job_body(replicas=1500, runtime="slurm"), "metadata": {"name": "a" * 58}},
        "spec.runtime",
        "or use another runtime",
    ),
    "a server without redis": (
        body(messageQueue={"host": "a"}),
        "spec.messageQueue.host",
        "add `type: redis`",
    ),
    "no such queue": (
        body(messageQueue={"type": "zmq"}),
        "spec.messageQueue.type",
        "'nng', 'redis', 'torchrpc'",
    ),
    "another queue in the command": (
        with_command("ditask --mq-type nng", messageQueue={"type": "redis", "host": "a"}),
        "spec.messageQueue.type",
        "is redis, but the command has --mq-type nng",
    ),
    "no such runtime": (
        body(runtime="unknown"),
        "spec.runtime",
        "'ditask', 'torch'",  # and the others
    ),
    "hostname": (with_pod(hostname="a"), "spec.template.spec.hostname", "remove it"),
    "subdomain": (with_pod(subdomain="a"), "spec.template.spec.subdomain", "remove it"),
    "init env": (
        with_env("DI_RANK", "initContainers"),
        "spec.template.spec.initContainers[0].env",
        "DI_RANK",
    ),
    "a label with a reserved prefix": (
        body(
            template={
                "metadata": {"labels": {names.LABEL_RANK: "1"}},
                "spec": {"containers": [{"name": "a"}]},
            }
        ),
        "spec.template.metadata.labels",
        names.LABEL_RANK,
    ),
    "a container with a reserved name": (
        with_pod(initContainers=[{"name": names.GATE_CONTAINER}]),
        "spec.template.spec.initContainers[0].name",
        "choose another name",
    ),
    "a volume with a reserved name": (
        with_pod(volumes=[{"name": "fine"}, {"name": names.BIN_VOLUME}]),
        "spec.template.spec.volumes[1].name",
        "choose another name",
    ),
    "workers twice": (
        with_command("ditask --parallel-workers 2", parallelWorkers=3),
        "spec.parallelWorkers",
        "is 3, but the command has --parallel-workers 2",
    ),
    "too many workers in the command": (
        with_command("ditask --parallel-workers 65"),
        "spec.template.spec.containers",
        "from 1 to 64",
    ),
    "topology twice": (
        with_command("ditask --topology star", topology="mesh"),
        "spec.topology",
        "is mesh, but the command has --topology star",
    ),
    "topology of the command": (
        with_command("ditask --topology ring"),
        "spec.template.spec.containers",
        "mesh, star, alone",
    ),
    "name with a digit first": (named("1a"), "metadata.name", "must match"),
    "name with a dot": (named("a.b"), "metadata.name", "must match"),
    "name too long": (named("a" * 59), "metadata.name", "at most 58"),
}


@pytest.mark.parametrize(("made", "field", "words"), REFUSED.values(), ids=REFUSED.keys())
def test_an_invalid_spec_has_one_problem_with_the_field_and_what_is_allowed(
    made: Body, field: str, words: str
) -> None:
    ((at, message),) = rejection(made)
    assert at == field
    assert words in message


@pytest.mark.parametrize("name", names.RESERVED_ENV)
def test_variables_of_the_topology_are_rejected(name: str) -> None:
    ((at, message),) = rejection(with_env(name))
    assert at == "spec.template.spec.containers[0].env"
    assert message.startswith(name)


def test_users_can_set_other_variables() -> None:
    assert parse_job(with_env("DI_LABELS")).spec.desired == 4


def test_all_problems_are_reported_together() -> None:
    made = with_pod(restartPolicy="Always", hostname="x")
    made["metadata"]["name"] = "9"
    fields = [field for field, _ in rejection(made)]
    assert fields == [
        "metadata.name",
        "spec.template.spec.restartPolicy",
        "spec.template.spec.hostname",
    ]


def test_the_exception_names_the_field_and_the_problem() -> None:
    with pytest.raises(SpecError, match=r"^spec\.replicas: is 0; it must be at least 1$"):
        parse_job(body(replicas=0))


PODS: list[tuple[str, Callable[[Body], object]]] = [
    ("containers is a map", lambda pod: pod.update(containers={"a": 1})),
    ("env is text", lambda pod: pod["containers"][0].update(env="x")),
    ("env holds text", lambda pod: pod["containers"][0].update(env=["x"])),
    ("command is text", lambda pod: pod["containers"][0].update(command="ditask")),
    ("args is null", lambda pod: pod["containers"][0].update(args=None)),
    ("args holds numbers", lambda pod: pod["containers"][0].update(args=[1, None])),
    ("volumes is text", lambda pod: pod.update(volumes="x")),
    ("initContainers is null", lambda pod: pod.update(initContainers=None)),
]


def fields_refused(made: Body) -> list[str]:
    try:
        assert job_warnings(parse_job(made)) == ()
    except SpecError as error:
        return [problem.field for problem in error.problems]
    return []


@pytest.mark.parametrize("slip", [slip for _, slip in PODS], ids=[name for name, _ in PODS])
def test_a_pod_spec_of_any_shape_causes_problems_and_no_other_exception(
    slip: Callable[[Body], object],
) -> None:
    made = copy.deepcopy(body())
    slip(made["spec"]["template"]["spec"])
    no_container = not isinstance(made["spec"]["template"]["spec"]["containers"], list)
    assert fields_refused(made) == (["spec.template.spec.containers"] if no_container else [])


@pytest.mark.timed
def test_thousands_of_problems_are_reported_quickly() -> None:
    begin = time.process_time()
    with pytest.raises(SpecError) as refused:
        parse_job(body(**{f"replicaz{number}": 1 for number in range(5000)}))
    assert time.process_time() - begin < allowed(0.25)  # 0.6 s where each gets its sentence
    assert len(refused.value.problems) == 20
