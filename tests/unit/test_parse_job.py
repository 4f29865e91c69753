"""parse_job: what is accepted, and the sentence for what is not."""

import copy
import time
from collections.abc import Callable
from typing import Any

import pytest
import yaml
from dijob import names
from dijob.api.parse import parse_job
from dijob.api.problems import SpecError
from dijob.api.warnings import warnings
from dijob.names import Topology
from speed import allowed
from unit import builders

Body = dict[str, Any]

# The YAML of the seed as it is printed: `containers` stands beside `spec`, so `spec` is null.
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


def body(**spec: Any) -> Body:
    container = {
        "name": "di-container",
        "image": "x",
        "command": ["sh", "-c"],
        "args": ["ditask -m a.main"],
    }
    template = {"spec": {"containers": [container]}}
    sizes = {} if {"replicas", "minReplicas", "maxReplicas"} & spec.keys() else {"replicas": 4}
    return {
        "metadata": {"name": "job", "uid": "u"},
        "spec": {**sizes, "template": template, **spec},
    }


def with_command(line: str, **spec: Any) -> Body:
    made = body(**spec)
    made["spec"]["template"]["spec"]["containers"][0]["args"] = [line]
    return made


def with_pod(**fields: Any) -> Body:
    made = body()
    made["spec"]["template"]["spec"].update(fields)
    return made


def with_env(name: str, key: str = "containers") -> Body:
    made = with_pod(**({} if key == "containers" else {key: [{"name": "x", "image": "y"}]}))
    made["spec"]["template"]["spec"][key][0]["env"] = [
        {"name": "FINE"},
        {"name": name, "value": "7"},
    ]
    return made


def named(name: str) -> Body:
    made = body()
    made["metadata"]["name"] = name
    return made


def refusal(made: Body) -> tuple[tuple[str, str], ...]:
    with pytest.raises(SpecError) as caught:
        parse_job(made)
    return tuple((problem.field, problem.message) for problem in caught.value.problems)


@pytest.mark.parametrize(
    ("spec", "sizes"),
    [
        pytest.param({"replicas": 4}, (4, 4, 4), id="replicas alone means all three"),
        pytest.param({"minReplicas": 4}, (4, 4, 4), id="minReplicas alone"),
        pytest.param({"maxReplicas": 4}, (4, 4, 4), id="maxReplicas alone"),
        pytest.param({"minReplicas": 2, "maxReplicas": 4}, (2, 4, 4), id="the wish is maxReplicas"),
        pytest.param(
            {"minReplicas": 2, "maxReplicas": 4, "replicas": 3}, (2, 3, 4), id="all three"
        ),
        pytest.param({"maxReplicas": 4, "replicas": 3}, (3, 3, 4), id="no minimum"),
        pytest.param({"minReplicas": 2, "replicas": 3}, (2, 3, 3), id="no maximum"),
        pytest.param({"replicas": names.MAX_REPLICAS}, (1500, 1500, 1500), id="the largest"),
    ],
)
def test_sizes(spec: Body, sizes: tuple[int, int, int]) -> None:
    parsed = parse_job(body(**spec)).spec
    assert (parsed.minimum, parsed.desired, parsed.maximum) == sizes


REFUSED: dict[str, tuple[Body, str, str]] = {
    "the seed as printed": (
        yaml.safe_load(PRINTED),
        "spec.template.containers",
        "belongs under template.spec",
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
    "a number as text": (body(replicas="3"), "spec.replicas", "valid integer"),
    "a fraction": (body(replicas=1.5), "spec.replicas", "valid integer"),
    "true is no number": (body(replicas=True), "spec.replicas", "valid integer"),
    "no workers": (body(parallelWorkers=0), "spec.parallelWorkers", "at least 1"),
    "a typo": (body(toplogy="star"), "spec.toplogy", "did you mean topology?"),
    "a typo in template": (
        body(template={"spce": {}}),
        "spec.template.spce",
        "did you mean spec?",
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
    "containers of nonsense": (
        with_pod(containers=["x"]),
        "spec.template.spec.containers",
        "at least one",
    ),
    "restartPolicy": (
        with_pod(restartPolicy="Always"),
        "spec.template.spec.restartPolicy",
        "OnFailure or Never",
    ),
    "our folder": (
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
    "a list of names that does not fit": (
        {**builders.job_body(replicas=1500, addressing="Hostname"), "metadata": {"name": "a" * 58}},
        "spec.addressing",
        "can have 813 replicas so",
    ),
    "names without the cluster's DNS": (
        builders.job_body(
            {"containers": [builders.container()], "dnsPolicy": "Default"}, addressing="Hostname"
        ),
        "spec.template.spec.dnsPolicy",
        "which addressing: Hostname, runtime: slurm and",
    ),
    "slurm without the cluster's DNS": (
        builders.job_body(
            {"containers": [builders.container()], "dnsPolicy": "Default"}, runtime="slurm"
        ),
        "spec.template.spec.dnsPolicy",
        "which addressing: Hostname, runtime: slurm and",
    ),
    "a list of slurm's names that does not fit": (
        {**builders.job_body(replicas=1500, runtime="slurm"), "metadata": {"name": "a" * 58}},
        "spec.runtime",
        "or another runtime",
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
        "is redis, but the command says --mq-type nng",
    ),
    "no such runtime": (
        body(runtime="mpi"),
        "spec.runtime",
        "'ditask', 'torch', 'slurm' or 'oneflow'",
    ),
    "hostname": (with_pod(hostname="a"), "spec.template.spec.hostname", "remove it"),
    "subdomain": (with_pod(subdomain="a"), "spec.template.spec.subdomain", "remove it"),
    "init env": (
        with_env("DI_RANK", "initContainers"),
        "spec.template.spec.initContainers[0].env",
        "DI_RANK",
    ),
    "own label": (
        body(
            template={
                "metadata": {"labels": {names.LABEL_RANK: "1"}},
                "spec": {"containers": [{"name": "a"}]},
            }
        ),
        "spec.template.metadata.labels",
        names.LABEL_RANK,
    ),
    "own container": (
        with_pod(initContainers=[{"name": names.GATE_CONTAINER}]),
        "spec.template.spec.initContainers[0].name",
        "choose another name",
    ),
    "own volume": (
        with_pod(volumes=[{"name": "fine"}, {"name": names.BIN_VOLUME}]),
        "spec.template.spec.volumes[1].name",
        "choose another name",
    ),
    "workers twice": (
        with_command("ditask --parallel-workers 2", parallelWorkers=3),
        "spec.parallelWorkers",
        "is 3, but the command says --parallel-workers 2",
    ),
    "too many workers in the command": (
        with_command("ditask --parallel-workers 65"),
        "spec.template.spec.containers",
        "from 1 to 64",
    ),
    "topology twice": (
        with_command("ditask --topology star", topology="mesh"),
        "spec.topology",
        "is mesh, but the command says --topology star",
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
def test_one_sentence_names_the_field_and_what_is_allowed(
    made: Body, field: str, words: str
) -> None:
    ((at, message),) = refusal(made)
    assert at == field
    assert words in message


@pytest.mark.parametrize("name", names.RESERVED_ENV)
def test_variables_of_the_topology_are_refused(name: str) -> None:
    ((at, message),) = refusal(with_env(name))
    assert at == "spec.template.spec.containers[0].env"
    assert message.startswith(name)


def test_other_variables_are_the_users() -> None:
    assert parse_job(with_env("DI_TOPOLOGY")).spec.desired == 4


def test_all_problems_are_said_at_once() -> None:
    made = with_pod(restartPolicy="Always", hostname="x")
    made["metadata"]["name"] = "9"
    fields = [field for field, _ in refusal(made)]
    assert fields == [
        "metadata.name",
        "spec.template.spec.restartPolicy",
        "spec.template.spec.hostname",
    ]


def test_the_exception_reads_as_a_sentence() -> None:
    with pytest.raises(SpecError, match=r"^spec\.replicas: is 0; it must be at least 1$"):
        parse_job(body(replicas=0))


@pytest.mark.parametrize("length", [1, 58])
def test_names_at_the_bounds(length: int) -> None:
    assert parse_job(named("a" * length)).metadata.name == "a" * length


@pytest.mark.parametrize(
    ("line", "spec", "workers"),
    [
        pytest.param("ditask --parallel-workers 2", {}, 2, id="the command's"),
        pytest.param("ditask", {"parallelWorkers": 3}, 3, id="the field's"),
        pytest.param("ditask --parallel-workers 3", {"parallelWorkers": 3}, 3, id="equal"),
        pytest.param(
            "ditask --parallel-workers $N", {"parallelWorkers": 3}, 3, id="field beside a variable"
        ),
        pytest.param("ditask", {}, 1, id="DI-engine's default"),
        pytest.param("sleep 1", {}, 1, id="another program"),
    ],
)
def test_workers(line: str, spec: Body, workers: int) -> None:
    assert parse_job(with_command(line, **spec)).workers == workers


@pytest.mark.parametrize(
    ("line", "spec", "topology"),
    [
        pytest.param("ditask", {}, Topology.MESH, id="default"),
        pytest.param("ditask --topology star", {}, Topology.STAR, id="the command's wins"),
        pytest.param("ditask", {"topology": "star"}, Topology.STAR, id="the field's"),
        pytest.param("ditask --topology alone", {"topology": "alone"}, Topology.ALONE, id="equal"),
        pytest.param("ditask --topology $T", {}, Topology.MESH, id="a variable is not guessed"),
    ],
)
def test_topology(line: str, spec: Body, topology: Topology) -> None:
    assert parse_job(with_command(line, **spec)).topology is topology


def test_the_main_container_is_the_named_one_else_the_first() -> None:
    made = with_pod(
        containers=[{"name": "side", "command": ["x"]}, {"name": "di-container", "command": ["y"]}]
    )
    assert parse_job(made).pod_sets[0].main_container["command"] == ["y"]
    made["spec"]["template"]["spec"]["containers"][1]["name"] = "other"
    assert parse_job(made).pod_sets[0].main_container["command"] == ["x"]


WARNED: dict[str, tuple[Body, str, str]] = {
    "launcher off": (with_command("ditask", launcher="Off"), "spec.launcher", "launcher: Auto"),
    "hidden workers": (
        with_command("ditask --parallel-workers $N"),
        "spec.parallelWorkers",
        "1 is assumed",
    ),
    "slurm's command": (
        with_command("ditask --platform slurm"),
        "spec.runtime",
        "set runtime: slurm",
    ),
    "no GPU for a queue between GPUs": (
        body(messageQueue={"type": "torchrpc:cuda"}),
        "spec.messageQueue.type",
        "asks for no GPU, so no rank may find one: add a limit of nvidia.com/gpu",
    ),
    "no GPU for the command's queue": (
        with_command("ditask --mq-type torchrpc:cuda"),
        "spec.messageQueue.type",
        "is torchrpc:cuda, and the template asks for no GPU",
    ),
    "hidden topology": (with_command("ditask --topology $T"), "spec.topology", "mesh is assumed"),
}


@pytest.mark.parametrize(("made", "field", "words"), WARNED.values(), ids=WARNED.keys())
def test_a_warning_stops_nothing(made: Body, field: str, words: str) -> None:
    (warning,) = warnings(parse_job(made))
    assert warning.field == field
    assert words in warning.message


@pytest.mark.parametrize(
    "made",
    [
        pytest.param(
            with_command("conda activate x; ditask --platform k8s --topology mesh"), id="by hand"
        ),
        pytest.param(with_command("ditask --platform k8s", launcher="Off"), id="off, by hand"),
        pytest.param(with_command("ditask --platform slurm", runtime="slurm"), id="slurm in slurm"),
        pytest.param(with_command("conda activate x; ditask"), id="past the launcher's ditask"),
        pytest.param(with_command("conda activate x; python train.py"), id="no ditask in sight"),
        pytest.param(with_command("ditask --topology $T", topology="star"), id="the field says it"),
        pytest.param(with_command("sleep 1", launcher="Off"), id="another program"),
    ],
)
def test_no_warning_where_nothing_is_wrong(made: Body) -> None:
    assert warnings(parse_job(made)) == ()


@pytest.mark.parametrize(
    ("status", "read"),
    [
        pytest.param(
            {"phase": "Running", "listNumber": 3, "profilings": {}},
            {"phase": "Running", "listNumber": 3},
            id="unknown",
        ),
        pytest.param(
            {"replicas": {"a": 1}, "listNumber": 3}, {"listNumber": 3}, id="another shape"
        ),
        pytest.param(
            {"replicas": -1, "restarts": -2, "listNumber": 3}, {"listNumber": 3}, id="out of bounds"
        ),
        pytest.param(
            {"conditions": [{"type": "Failed"}], "listNumber": 3},
            {"listNumber": 3},
            id="something below it lacks",
        ),
        pytest.param(
            {"ready_replicas": -1, "listNumber": 3}, {"listNumber": 3}, id="our own name of it"
        ),
        pytest.param("Running", {}, id="text"),
        pytest.param(None, {}, id="null"),
    ],
)
def test_what_cannot_be_read_of_a_status_counts_as_absent(status: object, read: Body) -> None:
    assert (
        parse_job(body() | {"status": status}).status.model_dump(
            by_alias=True, exclude_defaults=True
        )
        == read
    )


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
        assert warnings(parse_job(made)) == ()
    except SpecError as error:
        return [problem.field for problem in error.problems]
    return []


@pytest.mark.parametrize("slip", [slip for _, slip in PODS], ids=[name for name, _ in PODS])
def test_a_pod_spec_of_any_shape_is_answered_by_sentences_only(
    slip: Callable[[Body], object],
) -> None:
    made = copy.deepcopy(body())
    slip(made["spec"]["template"]["spec"])
    no_container = not isinstance(made["spec"]["template"]["spec"]["containers"], list)
    assert fields_refused(made) == (["spec.template.spec.containers"] if no_container else [])


@pytest.mark.timed
def test_what_is_wrong_a_thousand_times_is_said_in_a_moment() -> None:
    begin = time.process_time()
    with pytest.raises(SpecError) as refused:
        parse_job(body(**{f"replicaz{number}": 1 for number in range(5000)}))
    assert time.process_time() - begin < allowed(0.25)  # 0.6 s where each gets its sentence
    assert len(refused.value.problems) == 20
