"""Jobs with tasks: who has which rank and name, what the pods say of themselves, what the spec may
say.
"""

import re
from typing import Any

import pytest
from dijob.api.model import DIJob
from dijob.api.parse import parse_job
from dijob.api.parts import Task
from dijob.api.problems import SpecError
from dijob.core.actions import PublishAddresses
from dijob.core.members import Gang, gang_of
from dijob.core.observed.ranked import by_rank
from dijob.core.options import Options, notes
from dijob.core.render.annotations import addresses_patch
from dijob.core.render.pod import template_hash
from unit.builders import Body, container, given, job, manifest, tasks_body, tasks_job, view
from unit.launched import environment_of

NAMES = ["job-learner-0", "job-evaluator-0", "job-collector-0", "job-collector-1"]


def environment(owner: DIJob, rank: int, listed: str = "a,b,c,d") -> dict[str, str]:
    """What the rank's program is started with under this list."""
    pod = manifest(owner, rank)
    action = PublishAddresses(pod["metadata"]["name"], "u", given(1, listed))
    pod["metadata"]["annotations"] = addresses_patch(gang_of(owner), action)["metadata"][
        "annotations"
    ]
    return environment_of(pod)


def test_ranks_go_through_the_tasks_in_their_order() -> None:
    gang = gang_of(tasks_job(1, 1, 2))
    assert [member.name for member in gang.members] == NAMES
    assert [gang.rank_of(name) for name in NAMES] == [0, 1, 2, 3]
    assert (gang.size, gang.minimum) == (4, 4)


@pytest.mark.parametrize(
    ("name", "rank"),
    [
        pytest.param("job-collector-7", 9, id="beyond the last task's wish: too many, and goes"),
        pytest.param("job-learner-1", -1, id="beyond another task's"),
        pytest.param("job-old-0", -1, id="no such task"),
        pytest.param("job-0", -1, id="of the template shape"),
        pytest.param("job-learner-00", -1, id="not as we write it"),
        pytest.param("other-learner-0", -1, id="another job's"),
    ],
)
def test_whose_pod_a_name_is(name: str, rank: int) -> None:
    gang = gang_of(tasks_job(1, 1, 2))
    assert gang.rank_of(name) == rank
    ranked, unranked = by_rank([view(-1, name=name)], gang)
    assert [pod.rank for pod in ranked.values()] == ([rank] if rank >= 0 else [])
    assert len(unranked) == (rank < 0)


def test_a_pod_says_which_task_it_is_of() -> None:
    pod = manifest(tasks_job(1, 1, 2), 3)
    labels, annotations = pod["metadata"]["labels"], pod["metadata"]["annotations"]
    assert pod["spec"]["hostname"] == "job-collector-1"
    assert (
        labels.items()
        >= {
            "diengine/job": "job",
            "diengine/operator": "di-operator",
            "diengine/pod": "job-collector-1",
            "diengine/task-name": "collector",
            "diengine/task-type": "collector",
            "diengine.opendilab.org/rank": "3",
        }.items()
    )
    assert (
        annotations.items()
        >= {"diengine/rank": "3", "diengine/task-rank": "1", "diengine/replicas": "4"}.items()
    )


def test_a_process_knows_its_labels_and_each_tasks_addresses() -> None:
    owner = tasks_job(1, 1, 2)
    found = environment(owner, 2)
    assert (found["DI_RANK"], found["DI_LABELS"]) == ("2", "collector")
    told = {name: text for name, text in found.items() if re.fullmatch("DI_([A-Z]+_)?NODES", name)}
    assert told == {
        "DI_NODES": "a,b,c,d",
        "DI_LEARNER_NODES": "a",
        "DI_EVALUATOR_NODES": "b",
        "DI_COLLECTOR_NODES": "c,d",
        "DI_NUM_NODES": "4",
    }


def test_a_tasks_list_that_the_user_names_himself_is_left_to_him() -> None:
    variables = [{"name": "DI_LEARNER_NODES", "value": "his"}]
    template = {"spec": {"containers": [container(env=variables)]}}
    tasks = [
        {"name": name, "type": name, "replicas": 1, "template": template}
        for name in ("learner", "collector")
    ]
    found = environment(tasks_job(tasks=tasks), 0, "a,b")
    assert (found["DI_LEARNER_NODES"], found["DI_COLLECTOR_NODES"]) == ("his", "b")


def named(*tasks: tuple[str, str, int]) -> DIJob:
    template = tasks_body()["spec"]["tasks"][0]["template"]
    made = [
        {"name": name, "type": kind, "replicas": size, "template": template}
        for name, kind, size in tasks
    ]
    return tasks_job(tasks=made)


def test_a_name_of_its_own_is_a_label_too() -> None:
    owner = named(("main", "learner", 1), ("side-car", "none", 1))
    assert environment(owner, 0)["DI_LABELS"] == "learner,main"
    assert environment(owner, 1)["DI_LABELS"] == "side-car"
    assert environment(owner, 0, "a,b")["DI_SIDE_CAR_NODES"] == "b"


def test_each_task_has_its_own_template() -> None:
    body = tasks_body(1, 1)
    body["spec"]["tasks"][1]["template"] = {
        "metadata": {"labels": {"a": "b"}},
        "spec": {"containers": [container(image="other", command=["./evaluate"])]},
    }
    owner = parse_job(body)
    learner, evaluator = manifest(owner, 0), manifest(owner, 1)
    assert [pod["spec"]["containers"][0]["image"] for pod in (learner, evaluator)] == [
        "img:1",
        "other",
    ]
    assert "readinessProbe" in learner["spec"]["containers"][0]
    assert "readinessProbe" not in evaluator["spec"]["containers"][0]
    assert evaluator["metadata"]["labels"]["a"] == "b"
    assert "a" not in learner["metadata"]["labels"]


def test_volumes_are_in_every_pod() -> None:
    owner = tasks_job(1, 1, volumes=[{"name": "shared", "emptyDir": {}}])
    for rank in range(2):
        assert {"name": "shared", "emptyDir": {}} in manifest(owner, rank)["spec"]["volumes"]


@pytest.mark.parametrize(
    ("edit", "same"),
    [
        pytest.param({"replicas": 5}, True, id="the last task's replicas"),
        pytest.param({"name": "other"}, False, id="its name"),
    ],
)
def test_what_a_running_pod_was_made_from(edit: Body, same: bool) -> None:
    owner = tasks_job(1, 1, 2)
    tasks = owner.spec.tasks or ()
    spec = owner.spec.model_copy(update={"tasks": (*tasks[:-1], tasks[-1].model_copy(update=edit))})
    assert (
        template_hash(owner) == template_hash(DIJob(metadata=owner.metadata, spec=spec))
    ) is same


def test_the_last_task_grows_and_shrinks() -> None:
    assert gang_of(tasks_job(1, 1, 4)).rank_of("job-collector-3") == 5
    assert Gang.member(gang_of(tasks_job(1, 1, 1)), 4).name == "job-collector-2"


@pytest.mark.parametrize(
    ("classes", "template", "expected"),
    [
        pytest.param({"high": "urgent"}, {}, "urgent", id="the operator's"),
        pytest.param(
            {"high": "urgent"}, {"priorityClassName": "mine"}, "mine", id="the template's own"
        ),
        pytest.param({}, {}, None, id="none is known"),
    ],
)
def test_priority(classes: dict[str, str], template: Body, expected: str | None) -> None:
    owner, options = job(template, priority="high"), Options(priority_classes=classes)
    assert manifest(owner, 0, options)["spec"].get("priorityClassName") == expected
    said = [note.field for note in notes(owner, options)]
    assert said == ([] if classes else ["spec.priority"])


def test_a_group_is_a_label() -> None:
    assert manifest(job(group="team"))["metadata"]["labels"]["diengine/group"] == "team"


FIELDS = [
    pytest.param(
        {"engineFields": {"topology": "alone", "parallelWorkers": 2}}, ("alone", 2), id="both"
    ),
    pytest.param({"engineFields": {}}, ("star", 1), id="star, as in DI-orchestrator 1.0"),
    pytest.param(
        {"engineFields": {"topology": "mesh"}, "topology": "mesh"}, ("mesh", 1), id="the same twice"
    ),
]


@pytest.mark.parametrize(("spec", "expected"), FIELDS)
def test_engine_fields(spec: Body, expected: tuple[str, int]) -> None:
    owner = job(**spec)
    assert (owner.topology.value, owner.workers) == expected


def with_tasks(*edits: Body, **spec: Any) -> Body:
    """Tasks in which each edit has been written over the task of its number."""
    body = tasks_body(1, 1, 2, **spec)
    for task, edit in zip(body["spec"]["tasks"] or (), edits, strict=False):
        task.update(edit)
    return body


def with_command(*commands: str) -> Body:
    pods = [{"spec": {"containers": [container(command=command.split())]}} for command in commands]
    return with_tasks(*({"template": pod} for pod in pods))


NO_TASK = {"action": "Ignore", "task": "other"}
CODES = {"action": "FailJob", "onExitCodes": {"values": [3]}}
REFUSED: dict[str, tuple[Body, str, str]] = {
    "both shapes": (
        with_tasks(template=tasks_body()["spec"]["tasks"][0]["template"]),
        "spec",
        "remove one of the two",
    ),
    "neither": (with_tasks(tasks=None), "spec", "add one of the two"),
    "slurm": (
        with_tasks(runtime="slurm"),
        "spec.runtime",
        "all nodes of slurm and oneflow are alike",
    ),
    "oneflow": (
        with_tasks(runtime="oneflow"),
        "spec.runtime",
        "all nodes of slurm and oneflow are alike",
    ),
    "no task": (with_tasks(tasks=[]), "spec.tasks", "at least 1 item"),
    "replicas as well": (
        with_tasks(replicas=4),
        "spec.replicas",
        "replicas of its last task instead",
    ),
    "one name twice": (
        with_tasks({"name": "a"}, {"name": "a"}),
        "spec.tasks[1].name",
        "two tasks have this name",
    ),
    "one type twice": (
        with_tasks({}, {"type": "learner", "name": "b"}),
        "spec.tasks[1].type",
        "at most one task of each",
    ),
    "an unknown type": (
        with_tasks({"type": "actor"}),
        "spec.tasks[0].type",
        "'learner', 'collector', 'evaluator' or 'none'",
    ),
    "none without a name": (with_tasks({"type": "none"}), "spec.tasks[0].name", "needs a name"),
    "a name that is none": (with_tasks({"name": "A_b"}), "spec.tasks[0].name", "must match"),
    "a typo in a task": (
        with_tasks({"replica": 1}),
        "spec.tasks[0].replica",
        "did you mean replicas?",
    ),
    "no container": (
        with_tasks({"template": {"spec": {}}}),
        "spec.tasks[0].template.spec.containers",
        "at least one",
    ),
    "our variable": (
        with_tasks(
            {
                "template": {
                    "spec": {"containers": [container(env=[{"name": "DI_RANK", "value": "1"}])]}
                }
            }
        ),
        "spec.tasks[0].template.spec.containers[0].env",
        "DI_RANK is set by the operator",
    ),
    "workers that differ": (
        with_command("ditask --parallel-workers 2", "ditask --parallel-workers 3"),
        "spec.parallelWorkers",
        "--parallel-workers 2 in task learner and --parallel-workers 3 in task evaluator",
    ),
    "a success policy of nobody": (
        with_tasks(successPolicy="actor"),
        "spec.successPolicy",
        "AllReplicas, Rank0, learner",
    ),
    "a rule of nobody": (
        with_tasks(failurePolicy={"rules": [NO_TASK]}),
        "spec.failurePolicy.rules[0].task",
        "no task",
    ),
    "exit codes under OnFailure": (
        with_tasks(failurePolicy={"rules": [CODES]}),
        "spec.failurePolicy.rules[0].onExitCodes",
        "needs restartPolicy: Never",
    ),
    "no exit code": (
        with_tasks(failurePolicy={"rules": [{"action": "FailJob", "onExitCodes": {"values": []}}]}),
        "spec.failurePolicy.rules[0].onExitCodes.values",
        "at least 1 item",
    ),
    "exit code 0": (
        with_tasks(
            failurePolicy={"rules": [{"action": "FailJob", "onExitCodes": {"values": [0]}}]}
        ),
        "spec.failurePolicy.rules[0].onExitCodes.values[0]",
        "at least 1",
    ),
    "an unknown action": (
        with_tasks(failurePolicy={"rules": [{"action": "Panic"}]}),
        "spec.failurePolicy.rules[0].action",
        "'FailJob', 'RestartJob', 'Restart' or 'Ignore'",
    ),
    "a name that takes a variable of ours": (
        with_tasks({"type": "none", "name": "num"}),
        "spec.tasks[0].name",
        "DI_NUM_NODES",
    ),
    "a rule on what every pod goes through": (
        with_tasks(
            failurePolicy={"rules": [{"action": "FailJob", "onPodConditions": [{"type": "Ready"}]}]}
        ),
        "spec.failurePolicy.rules[0].onPodConditions[0].type",
        "every pod goes through",
    ),
    "a shared volume of our name": (
        with_tasks(volumes=[{"name": "dijob-bin"}]),
        "spec.volumes[0].name",
        "something that the operator adds",
    ),
    "a shared volume twice": (
        with_tasks(volumes=[{"name": "v"}, {"name": "v"}]),
        "spec.volumes[1].name",
        "twice",
    ),
    "a shared volume without a name": (
        with_tasks(volumes=[{"emptyDir": {}}]),
        "spec.volumes[0].name",
        "is missing",
    ),
    "a deadline of 0": (
        with_tasks(activeDeadlineSeconds=0),
        "spec.activeDeadlineSeconds",
        "at least 1",
    ),
    "a startup deadline of 0": (
        with_tasks(startupDeadlineSeconds=0),
        "spec.startupDeadlineSeconds",
        "at least 1",
    ),
    "an unknown priority": (with_tasks(priority="low"), "spec.priority", "'normal' or 'high'"),
    "a group that is no label": (with_tasks(group="a b"), "spec.group", "becomes a label"),
    "two topologies": (
        with_tasks(topology="mesh", engineFields={"topology": "star"}),
        "spec.engineFields.topology",
        "is star, but spec.topology is mesh",
    ),
    "a volume twice": (
        with_tasks(
            {"template": {"spec": {"containers": [container()], "volumes": [{"name": "v"}]}}},
            volumes=[{"name": "v"}],
        ),
        "spec.tasks[0].template.spec.volumes[0].name",
        "one of spec.volumes too",
    ),
}


@pytest.mark.parametrize(("made", "field", "words"), REFUSED.values(), ids=REFUSED)
def test_what_is_refused_and_why(made: Body, field: str, words: str) -> None:
    with pytest.raises(SpecError) as caught:
        parse_job(made)
    found = {problem.field: problem.message for problem in caught.value.problems}
    assert words in found.get(field, f"nothing is said of {field}: {found}")


def test_exit_codes_need_never_only_where_the_rule_is() -> None:
    never = {"spec": {"containers": [container()], "restartPolicy": "Never"}}
    assert parse_job(
        with_tasks({"template": never}, failurePolicy={"rules": [{**CODES, "task": "learner"}]})
    )


def test_every_field_of_a_task_is_known() -> None:
    assert {str(field.alias) for field in Task.model_fields.values()} == {
        "name",
        "type",
        "replicas",
        "template",
    }
