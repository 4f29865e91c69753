"""`explain`: variables, connections, sizes and output for a file, without a cluster."""

import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from dijob.api.model import DIJob
from dijob.api.parse import parse_job
from dijob.cli.errors import CliError, Exit
from dijob.cli.explain import text
from dijob.cli.explain.edges import edges_of, listens_on
from dijob.cli.explain.environment import PodPlace, main_process
from dijob.cli.explain.report import explain_job
from dijob.cli.files import job_of, parse_file
from dijob.cli.main import group
from dijob.core.addresses import AddressList
from dijob.core.members import gang_of
from dijob.core.options import Options
from dijob.core.render import quantities
from samples.builders import container, job, tasks_body
from unit.images.test_light_peer import light_peer

EXAMPLES = Path(__file__).parents[3] / "examples"
NOT_ASKED: dict[str, Any] = {"asked": False, "why": "", "findings": []}
TWO = """
apiVersion: diengine.opendilab.org/v2alpha1
kind: DIJob
metadata: {name: pair}
spec:
  replicas: 2
  template:
    spec:
      containers:
      - name: di-container
        image: my/image
        command: [ditask, --package, my_module, --main, my_module.main]
        resources: {requests: {cpu: 500m, memory: 1Gi}}
"""


def seen(made: DIJob, rank: int = 0, **lookups: str) -> dict[str, str]:
    """Return the variables of a rank. The ranks have the IPs 10.0.0.0, 10.0.0.1, ..."""
    gang = gang_of(made)
    ips = AddressList(1, ",".join(gang.address(m.rank, f"10.0.0.{m.rank}") for m in gang.members))
    place = PodPlace(
        gang.member(rank),
        f"10.0.0.{rank}",
        ips,
        lookup=lambda kind, name, key: lookups.get(f"{kind}_{name}_{key}"),
    )
    return {one.name: one.shown for one in main_process(made, place, Options()).public}


def test_processes_that_only_the_program_knows_are_counted_as_the_least() -> None:
    """N1."""
    script = TWO.replace("ditask, --package, my_module, --main, my_module.main", "python3, main.py")
    found = explain_job(job_of(parse_file("pair.yaml", script)), Options())
    shown = "\n".join(text.explanation_lines({**found, "cluster": NOT_ASKED}))
    assert "2 pods x at least 1 process = at least 2, mesh" in shown
    assert "Processes    the program sets the number of processes per pod" in shown
    assert "Connections  at least 1 between DI-engine's processes" in shown


@pytest.mark.parametrize("topology", ["mesh", "star", "alone"])
@pytest.mark.parametrize(("pods", "workers"), [(1, 1), (1, 4), (3, 1), (2, 3), (4, 2)])
def test_the_edges_are_those_that_the_light_peer_dials(
    topology: str, pods: int, workers: int
) -> None:
    made = job(topology=topology, replicas=pods, parallelWorkers=workers)
    world = light_peer.World(0, tuple(f"h{rank}" for rank in range(pods)), workers, topology)
    dialled = [(node, peer) for node in range(pods * workers) for peer in world.dials(node)]
    found = edges_of(gang_of(made))
    assert found.total == len(dialled)
    assert found.between_pods == sum(a // workers != b // workers for a, b in dialled)
    for rank in range(pods):
        others = {b // workers for a, b in dialled if a // workers == rank} - {rank}
        assert set(found.dialled[rank]) == others


@pytest.mark.parametrize(
    ("spec", "edges"),
    [
        pytest.param({"addressing": "Hostname"}, 3, id="with host names the ranks dial the same"),
        pytest.param({"messageQueue": {"type": "redis"}}, 3, id="each process dials the server"),
    ],
)
def test_other_ways_to_connect(spec: dict[str, Any], edges: int) -> None:
    assert edges_of(gang_of(job(**spec))).total == edges


@pytest.mark.parametrize(
    ("command", "spec", "first"),
    [
        pytest.param([], {}, 50515, id="DI-engine's first port"),
        pytest.param(["--ports", "6000"], {}, 6000, id="the command's"),
        pytest.param(["--platform", "slurm"], {"runtime": "slurm"}, 15151, id="Slurm's"),
        pytest.param([], {"messageQueue": {"type": "redis"}}, None, id="none with redis"),
    ],
)
def test_ports(command: list[str], spec: dict[str, Any], first: int | None) -> None:
    main = container(command=["ditask", "--package", "p", "--main", "p.main", *command])
    found = listens_on(job({"containers": [main]}, parallelWorkers=2, **spec), 1)
    assert (list(found) if found is not None else None) == (
        [first, first + 1] if first is not None else None
    )


ENVIRONMENTS = [
    pytest.param(
        [{"name": "LISTEN", "value": "tcp://$(DI_POD_IP):$(PORT)/$(DI_NODES)"}],
        {"LISTEN": "tcp://10.0.0.1:$(PORT)/10.0.0.0,10.0.0.1,10.0.0.2"},
        id="a value refers to variables, one of the peer list, and an unknown one",
    ),
    pytest.param(
        [{"name": "TEXT", "value": "$$(DI_RANK)"}], {"TEXT": "$(DI_RANK)"}, id="$$ is one dollar"
    ),
    pytest.param(
        [{"name": "DI_LABELS", "value": "mine"}], {"DI_LABELS": "mine"}, id="the user's own wins"
    ),
    pytest.param(
        [{"name": "ME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}],
        {"ME": "job-1"},
        id="a field of the pod",
    ),
    pytest.param(
        [
            {
                "name": "RANK_LABEL",
                "valueFrom": {"fieldRef": {"fieldPath": "metadata.labels['diengine/rank']"}},
            }
        ],
        {"RANK_LABEL": "1"},
        id="a label of the pod",
    ),
    pytest.param(
        [{"name": "A", "valueFrom": {"configMapKeyRef": {"name": "c", "key": "a"}}}],
        {"A": "1"},
        id="a known ConfigMap",
    ),
    pytest.param(
        [{"name": "B", "valueFrom": {"secretKeyRef": {"name": "s", "key": "b"}}}],
        {"B": "<key b of Secret s>"},
        id="an unknown Secret",
    ),
]


@pytest.mark.parametrize(("env", "expected"), ENVIRONMENTS)
def test_the_templates_own_variables(env: list[Any], expected: dict[str, str]) -> None:
    found = seen(job({"containers": [container(env=env)]}), rank=1, ConfigMap_c_a="1")
    assert {name: found[name] for name in expected} == expected


def test_without_a_launcher_the_variables_are_the_same() -> None:
    plain, off = job(), job(launcher="Off")
    assert seen(plain, 2) == seen(off, 2)
    assert seen(plain, 2)["DI_NODES"] == "10.0.0.0,10.0.0.1,10.0.0.2"


def test_the_limits_of_drains_are_shown() -> None:
    def shown(made: DIJob) -> str:
        found = explain_job(made, Options())
        lines = text.explanation_lines({**found, "cluster": NOT_ASKED})
        return " ".join(" ".join(lines).split())

    body = tasks_body(1, 1, 3)
    learner, _, collector = body["spec"]["tasks"]
    learner["disruptionBudget"] = {"maxUnavailable": 0}
    collector["disruptionBudget"] = {"maxUnavailable": 1}
    tasks = shown(parse_job(body))
    assert "PodDisruptionBudget job-learner, PodDisruptionBudget job-collector" in tasks
    assert "no rank of task learner may be unavailable" in tasks
    assert "1 rank of task collector may be unavailable" in tasks
    plain = shown(job(disruptionBudget={"maxUnavailable": 2}))
    assert "Drains 2 ranks may be unavailable" in plain
    assert "Drains" not in shown(job())


AMOUNTS = [("100m", "0.1"), ("2", "2"), ("1Gi", "1073741824"), ("1e3", "1000"), ("5k", "5000")]


@pytest.mark.parametrize(("words", "number"), AMOUNTS, ids=[words for words, _ in AMOUNTS])
def test_quantities(words: str, number: str) -> None:
    assert quantities.parse_quantity(words) == Decimal(number)


@pytest.mark.parametrize("words", ["", "many", "inf", "None"])
def test_an_invalid_quantity_counts_as_0(words: str) -> None:
    assert quantities.parse_quantity(words) == 0


def test_a_pod_asks_for_its_containers_or_its_largest_init_container() -> None:
    spec = {
        "containers": [
            {"resources": {"requests": {"cpu": "1"}, "limits": {"cpu": "2", "memory": "1Gi"}}},
            {"resources": {"requests": {"cpu": "500m"}}},
        ],
        "initContainers": [{"resources": {"requests": {"cpu": "3"}}}, {}],
        "overhead": {"cpu": "100m"},
    }
    assert quantities.format_amounts(quantities.pod_requests(spec)) == "cpu 3100m, memory 1Gi"


def test_two_pods_in_twenty_lines() -> None:
    found = explain_job(job_of(parse_file("pair.yaml", TWO)), Options())
    lines = list(text.explanation_lines({**found, "cluster": NOT_ASKED}))
    assert len(lines) <= 20, "\n".join(lines)
    assert lines[0] == (
        "DIJob pair in namespace default: 2 pods x 1 process = 2, mesh over nng, runtime ditask"
    )
    assert "1     pair-1  1         <IP of rank 1>:50515  rank 0" in lines
    assert "Job requests cpu 1, memory 2Gi" in lines
    assert "of rank 1:  DI_POD_IP=<IP of rank 1>  DI_RANK=1  DI_NODE_IDS=1" in lines


def test_a_rank_listens_at_the_address_of_the_peer_list() -> None:
    found = explain_job(job(addressing="Hostname"), Options())
    lines = list(text.explanation_lines({**found, "cluster": NOT_ASKED}))
    assert any("  job-1.job:50515  " in line for line in lines), "\n".join(lines)


def test_tasks_with_a_runtime_of_their_own_are_named() -> None:
    path = EXAMPLES / "learners-collectors.yaml"
    done = CliRunner().invoke(group, ["explain", str(path), "--offline"])
    said = " ".join(done.output.split())
    assert "mesh over nng, runtime ditask (torch in task learner) RANK" in said
    place = "Rendezvous <IP of rank 0>:29500 (MASTER_ADDR, MASTER_PORT) of task learner: ranks 0-1,"
    assert f"{place} which restart together" in said


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.yaml")), ids=lambda path: path.name)
def test_every_example_is_explained(path: Path) -> None:
    if "\nkind: DIJob\n" not in path.read_text():
        return
    done = CliRunner().invoke(group, ["explain", str(path), "--offline", "-o", "json"])
    assert done.exit_code == Exit.OK, done.output
    found = json.loads(done.output)
    assert [pod["rank"] for pod in found["pods"]] == list(range(found["world"]["pods"]))
    assert all(pod["environment"]["DI_NODES"] for pod in found["pods"])


def test_a_large_job_is_explained_in_few_lines_and_in_full() -> None:
    found = explain_job(job(replicas=40), Options())
    short, full = (
        list(text.explanation_lines({**found, "cluster": NOT_ASKED})),
        list(text.explanation_lines({**found, "cluster": NOT_ASKED}, full=True)),
    )
    assert len(short) < 40
    assert "...   (33 more: --full)" in short
    assert full.count("  DI_NUM_NODES=40") == 40


WRONG = [
    pytest.param("a: [", "invalid YAML: ", id="no YAML"),
    pytest.param(f"{TWO}kind: DIJob", "duplicate key kind", id="a key twice"),
    pytest.param(TWO.replace("DIJob", "Pod"), "found no DIJob", id="no DIJob"),
    pytest.param(f"{TWO}---{TWO}", "found 2 DIJobs", id="two DIJobs"),
    pytest.param("- 1", "not a Kubernetes object", id="a list"),
    pytest.param(TWO.replace("v2alpha1", "v1"), "set it to", id="another version"),
    pytest.param(TWO.replace("{name: pair}", "{}"), "has no metadata.name", id="no name"),
    pytest.param(TWO.replace("replicas: 2", "replicas: 0"), "spec.replicas", id="a wrong field"),
]


@pytest.mark.parametrize(("words", "said"), WRONG)
def test_a_wrong_file_is_one_sentence_and_exit_code_2(words: str, said: str) -> None:
    done = CliRunner().invoke(group, ["explain", "-", "--offline"], input=words)
    assert done.exit_code == Exit.USAGE
    assert done.output.startswith("Error: standard input: ")
    assert said in done.output
    assert done.output.count("\n") == 1


def test_a_file_that_is_not_there() -> None:
    done = CliRunner().invoke(group, ["explain", "/nowhere.yaml", "--offline"])
    assert (done.exit_code, done.output) == (
        Exit.USAGE,
        "Error: /nowhere.yaml: no such file or directory\n",
    )


def test_yaml_output_is_the_same_data() -> None:
    import yaml

    said = [
        CliRunner().invoke(group, ["explain", "-", "--offline", "-o", form], input=TWO).output
        for form in ("json", "yaml")
    ]
    assert json.loads(said[0]) == yaml.safe_load(said[1])


def test_an_error_names_the_problem() -> None:
    with pytest.raises(CliError, match=r"spec\.topology"):
        job_of(parse_file("f", TWO.replace("replicas: 2", "replicas: 2\n  topology: ring")))


BOUNDED = """
apiVersion: diengine.opendilab.org/v2alpha1
kind: DIJob
metadata: {name: pair}
spec:
  replicas: 3
  tasks:
  - type: collector
    minReplicas: 1
    maxReplicas: 2
    template: {spec: {containers: [{name: di-container, image: x, command: [python3, x.py]}]}}
"""


@pytest.mark.parametrize(
    ("body", "said"),
    [
        pytest.param(
            TWO.replace("replicas: 2", "replica: 2"),
            r"spec\.replica: there is no such field; did you mean replicas\?",
            id="a misspelt field",
        ),
        pytest.param(
            BOUNDED,
            r"spec\.replicas: is 3, but is the size of the last task",
            id="more than the last task can have",
        ),
    ],
)
def test_a_file_is_checked_like_a_new_job(body: str, said: str) -> None:
    """The placeholder for the uid made the job look like one that the apiserver has stored."""
    with pytest.raises(CliError, match=said):
        job_of(parse_file("f", body))
