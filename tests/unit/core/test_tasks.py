"""Jobs with tasks: ranks, names, and what the pods carry."""

import re

import pytest
from dijob import names
from dijob.api.model import DIJob
from dijob.api.parse import parse_job
from dijob.core.actions import PublishAddresses, SetReplicas
from dijob.core.members import Gang, gang_of
from dijob.core.observed.ranked import by_rank
from dijob.core.options import Options, option_warnings
from dijob.core.render.annotations import addresses_patch
from dijob.core.render.pod import template_hash
from samples.builders import (
    NOW,
    Body,
    container,
    given,
    job,
    job_body,
    manifest,
    observed,
    plan,
    recorded,
    tasks_body,
    tasks_job,
    view,
)
from simulator.environment import environment_of

NAMES = ["job-learner-0", "job-evaluator-0", "job-collector-0", "job-collector-1"]


def environment(owner: DIJob, rank: int, listed: str = "a,b,c,d") -> dict[str, str]:
    """Return the variables of the rank's program with this list."""
    pod = manifest(owner, rank)
    action = PublishAddresses(pod["metadata"]["name"], "u", given(1, listed))
    pod["metadata"]["annotations"] = addresses_patch(gang_of(owner), action)["metadata"][
        "annotations"
    ]
    return environment_of(pod)


def test_ranks_are_assigned_to_tasks_in_order() -> None:
    gang = gang_of(tasks_job(1, 1, 2))
    assert [member.name for member in gang.members] == NAMES
    assert [gang.rank_of(name) for name in NAMES] == [0, 1, 2, 3]
    assert (gang.size, gang.minimum) == (4, 4)


@pytest.mark.parametrize(
    ("name", "rank"),
    [
        pytest.param("job-collector-7", 9, id="beyond the size of the last task"),
        pytest.param("job-learner-1", -1, id="beyond another task's"),
        pytest.param("job-old-0", -1, id="no such task"),
        pytest.param("job-0", -1, id="of the template shape"),
        pytest.param("job-learner-00", -1, id="not as we write it"),
        pytest.param("other-learner-0", -1, id="another job's"),
    ],
)
def test_the_rank_of_a_pod_name(name: str, rank: int) -> None:
    gang = gang_of(tasks_job(1, 1, 2))
    assert gang.rank_of(name) == rank
    ranked, unranked = by_rank([view(-1, name=name)], gang)
    assert [pod.rank for pod in ranked.values()] == ([rank] if rank >= 0 else [])
    assert len(unranked) == (rank < 0)


def test_a_pod_carries_its_task() -> None:
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


def test_a_task_variable_set_by_the_user_is_kept() -> None:
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


def test_a_custom_task_name_is_a_label_too() -> None:
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
def test_the_template_hash_with_tasks(edit: Body, same: bool) -> None:
    owner = tasks_job(1, 1, 2)
    tasks = owner.spec.tasks or ()
    spec = owner.spec.model_copy(update={"tasks": (*tasks[:-1], tasks[-1].model_copy(update=edit))})
    assert (
        template_hash(owner) == template_hash(DIJob(metadata=owner.metadata, spec=spec))
    ) is same


def test_only_the_last_task_can_be_scaled() -> None:
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
    said = [note.field for note in option_warnings(owner, options)]
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


RECORD = "collector 2"


@pytest.mark.parametrize(
    ("owner", "wanted"),
    [
        pytest.param(tasks_body(1, 1, 2), SetReplicas(2, RECORD), id="a new job"),
        pytest.param(tasks_body(1, 1, 2, replicas=5), SetReplicas(5, RECORD), id="both fields"),
        pytest.param(recorded(tasks_body(1, 1, 2, replicas=5), RECORD), None, id="scaled"),
        pytest.param(
            recorded(tasks_body(1, 1, 3, replicas=5), RECORD),
            SetReplicas(3, "collector 3"),
            id="the task was resized",
        ),
        pytest.param(recorded(tasks_body(1, 1, 2), RECORD), SetReplicas(2, RECORD), id="removed"),
    ],
)
def test_the_operator_writes_the_size_of_the_last_task(
    owner: Body, wanted: SetReplicas | None
) -> None:
    found = plan(parse_job(owner), observed(), NOW).actions
    assert [one for one in found if isinstance(one, SetReplicas)] == ([wanted] if wanted else [])


def test_a_size_outside_new_bounds_is_corrected() -> None:
    body = recorded(tasks_body(1, 1, 2, replicas=7), RECORD)
    body["spec"]["tasks"][-1]["maxReplicas"] = 4
    owner = parse_job(body)
    assert owner.spec.desired == 6
    assert SetReplicas(4, RECORD) in plan(owner, observed(), NOW).actions


def test_the_scale_counts_and_selects_the_pods_of_the_last_task() -> None:
    owner = tasks_job(1, 1, 2)
    pods = observed(*(view(rank, owner) for rank in range(4)))
    status = plan(owner, pods, NOW).status
    assert (status.desired, status.replicas) == (4, 2)
    assert status.selector == f"{names.LABEL_JOB}=job,{names.LEGACY_TASK_NAME}=collector"


def test_a_job_with_tasks_starts_with_the_minimum_of_its_last_task() -> None:
    body = tasks_body(1, 1, 4)
    body["spec"]["tasks"][-1] |= {"minReplicas": 2, "maxReplicas": 8}
    owner = parse_job(body)
    assert (gang_of(owner).minimum, gang_of(owner).size, owner.spec.maximum) == (4, 6, 10)
    assert owner.fingerprint == tasks_job(1, 1, 4).fingerprint


def test_fewer_ranks_than_the_minimum_may_be_admitted() -> None:
    body = tasks_body(1, 1, 4)
    body["spec"]["tasks"][-1]["minReplicas"] = 3
    smaller = parse_job(body).resized(4)
    assert (gang_of(smaller).size, gang_of(smaller).minimum) == (4, 4)


def test_a_job_whose_tasks_were_replaced_by_a_template_needs_no_write() -> None:
    body = recorded(job_body(replicas=3), RECORD)
    found = plan(parse_job(body), observed(), NOW).actions
    assert not [one for one in found if isinstance(one, SetReplicas)]
