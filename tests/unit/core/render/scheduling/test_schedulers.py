"""What the engines Volcano, Coscheduling, YuniKorn and KAI create, and what they add to pods."""

import json
from typing import Any

import pytest
from dijob.api.model import DIJob
from dijob.api.parse import parse_job
from dijob.core.options import Options
from dijob.core.render.pod import pod_manifest
from dijob.core.render.scheduling import ENGINES, Membership, engine_of, marks_of
from dijob.names import ANNOTATION_ENGINE, Engine
from samples.builders import Body, container, gang, job, job_body, tasks_job

SKIP = "kai.scheduler/skip-podgrouper"
TASK_GROUP = "yunikorn.apache.org/task-group-name"
TASK_GROUPS = "yunikorn.apache.org/task-groups"
WITH_OBJECT = (Engine.VOLCANO, Engine.COSCHEDULING, Engine.KAI)


def made(engine: Engine, options: Options | None = None, **spec: Any) -> Body:
    row = ENGINES[engine]
    found = row.manifest(job(**spec), "x", 2, options or Options())
    assert (found["apiVersion"], found["kind"]) == (row.api, "PodGroup")
    assert found["metadata"]["name"] == "x"
    assert found["metadata"]["ownerReferences"][0]["name"] == "job"
    return found


def pod_of(engine: Engine, owner: DIJob, options: Options | None = None, name: str = "x") -> Body:
    given = options or Options()
    of = Membership(owner, owner.pod_sets[0], name, 2)
    member = gang().member(0)
    found: Body = pod_manifest(owner, member, given, "", marks_of(engine, of, given))
    return found


@pytest.mark.parametrize(
    ("engine", "spec", "wanted"),
    [
        pytest.param(Engine.VOLCANO, {}, {"minMember": 2}, id="Volcano"),
        pytest.param(
            Engine.VOLCANO,
            {"scheduling": {"queue": "team-a"}, "priority": "high"},
            {"minMember": 2, "queue": "team-a", "priorityClassName": "urgent"},
            id="Volcano: queue and priority",
        ),
        pytest.param(
            Engine.VOLCANO,
            {"scheduling": {"topology": {"key": "rack"}}},
            {"minMember": 2, "networkTopology": {"mode": "hard", "highestTierName": "rack"}},
            id="Volcano: one rack",
        ),
        pytest.param(
            Engine.VOLCANO,
            {"scheduling": {"topology": {"key": "rack", "mode": "Preferred"}}},
            {"minMember": 2, "networkTopology": {"mode": "soft", "highestTierName": "rack"}},
            id="Volcano: preferably one rack",
        ),
        pytest.param(Engine.COSCHEDULING, {}, {"minMember": 2}, id="Coscheduling"),
        pytest.param(Engine.KAI, {}, {"minMember": 2, "queue": "default-queue"}, id="KAI"),
        pytest.param(
            Engine.KAI,
            {"scheduling": {"queue": "team-a"}, "priority": "high"},
            {"minMember": 2, "queue": "team-a", "priorityClassName": "urgent"},
            id="KAI: queue and priority",
        ),
    ],
)
def test_a_pod_group_follows_the_job(engine: Engine, spec: Body, wanted: Body) -> None:
    options = Options(priority_classes={"high": "urgent"})
    assert made(engine, options, **spec)["spec"] == wanted


@pytest.mark.parametrize("engine", WITH_OBJECT)
def test_the_size_of_a_pod_group_is_read_and_changed(engine: Engine) -> None:
    row = ENGINES[engine]
    assert row.count(made(engine)["spec"]) == 2
    assert row.count({}) == 0
    assert row.count(row.resized(1)) == 1


def test_only_volcano_counts_pods_that_have_succeeded() -> None:
    assert [one for one, row in ENGINES.items() if row.counts_succeeded] == [Engine.VOLCANO]


def test_pod_groups_of_different_engines_have_different_keys() -> None:
    rows = [row for row in ENGINES.values() if row.kind]
    assert len({row.key("x") for row in rows}) == len({row.full_kind for row in rows}) == len(rows)
    assert ENGINES[Engine.VOLCANO].key("x") == "podgroup.scheduling.volcano.sh/x"


@pytest.mark.parametrize(
    ("engine", "scheduler", "labels", "annotations"),
    [
        pytest.param(
            Engine.VOLCANO,
            "volcano",
            {},
            {"scheduling.k8s.io/group-name": "x"},
            id="Volcano",
        ),
        pytest.param(
            Engine.COSCHEDULING,
            "scheduler-plugins-scheduler",
            {"scheduling.x-k8s.io/pod-group": "x"},
            {},
            id="Coscheduling",
        ),
        pytest.param(
            Engine.KAI,
            "kai-scheduler",
            {"kai.scheduler/queue": "team-a"},
            {"pod-group-name": "x", SKIP: "true"},
            id="KAI",
        ),
        pytest.param(
            Engine.YUNIKORN,
            "yunikorn",
            {"applicationId": "dijob-u", "queue": "team-a"},
            {TASK_GROUP: "ranks"},
            id="YuniKorn",
        ),
    ],
)
def test_a_pod_is_marked_for_its_scheduler(
    engine: Engine, scheduler: str, labels: Body, annotations: Body
) -> None:
    owner = job(scheduling={"queue": "team-a"})
    labels = {key: value.replace("-u", f"-{owner.metadata.uid}") for key, value in labels.items()}
    pod = pod_of(engine, owner, name="job" if engine is Engine.YUNIKORN else "x")
    meta = pod["metadata"]
    assert pod["spec"]["schedulerName"] == scheduler
    assert labels.items() <= meta["labels"].items()
    assert {**annotations, ANNOTATION_ENGINE: engine}.items() <= meta["annotations"].items()


def test_the_tasks_of_a_job_are_marked_for_volcano() -> None:
    owner = tasks_job(1, 2)
    (learner, _) = owner.pod_sets
    marks = ENGINES[Engine.VOLCANO].marks(Membership(owner, learner, "x", 3))
    assert marks.annotations["volcano.sh/task-spec"] == "learner"


OWN_SCHEDULER: Body = {"containers": [{"name": "x", "image": "i"}], "schedulerName": "mine"}


@pytest.mark.parametrize(
    ("pod", "options", "name"),
    [
        pytest.param(OWN_SCHEDULER, Options(), "mine", id="the template's"),
        pytest.param(
            None, Options(engine=Engine.VOLCANO, scheduler_name="vc"), "vc", id="the chart's"
        ),
        pytest.param(
            None,
            Options(engine=Engine.KAI, scheduler_name="vc"),
            "volcano",
            id="the chart's is for another engine",
        ),
    ],
)
def test_the_name_of_the_scheduler(pod: Body | None, options: Options, name: str) -> None:
    assert pod_of(Engine.VOLCANO, job(pod), options)["spec"]["schedulerName"] == name


def test_native_keeps_the_scheduler_of_the_pods() -> None:
    assert "schedulerName" not in pod_of(Engine.NATIVE, job())["spec"]


def task_groups(owner: DIJob, count: int) -> list[Body]:
    of = Membership(owner, owner.pod_sets[0], "job", count)
    found: list[Body] = json.loads(ENGINES[Engine.YUNIKORN].marks(of).annotations[TASK_GROUPS])
    return found


def test_a_task_group_of_yunikorn_reserves_the_room_of_the_pods() -> None:
    pod: Body = {
        "containers": [
            container(resources={"requests": {"cpu": "500m", "memory": "1Gi"}}),
            {"name": "side", "image": "i", "resources": {"limits": {"cpu": "1", "x/gpu": "2"}}},
        ],
        "nodeSelector": {"pool": "a"},
        "tolerations": [{"key": "gpu", "operator": "Exists"}],
    }
    assert task_groups(job(pod), 2) == [
        {
            "name": "ranks",
            "minMember": 2,
            "minResource": {"cpu": "1.5", "memory": "1073741824", "x/gpu": "2"},
            "nodeSelector": {"pool": "a"},
            "tolerations": [{"key": "gpu", "operator": "Exists"}],
        }
    ]


@pytest.mark.parametrize(
    ("count", "succeeded", "members"),
    [
        pytest.param(5, "", {"learner": 1, "evaluator": 4}, id="all"),
        pytest.param(3, "", {"learner": 1, "evaluator": 2}, id="minAvailable"),
        pytest.param(1, "", {"learner": 1}, id="only the learner"),
        pytest.param(3, "0-1", {"evaluator": 3}, id="two ranks have succeeded"),
    ],
)
def test_the_task_groups_of_a_job_with_tasks(
    count: int, succeeded: str, members: dict[str, int]
) -> None:
    owner = tasks_job(1, 4)
    owner = owner.model_copy(
        update={"status": owner.status.model_copy(update={"succeeded_ranks": succeeded})}
    )
    assert {one["name"]: one["minMember"] for one in task_groups(owner, count)} == members


def test_each_life_of_a_job_is_an_application_of_its_own() -> None:
    owner, row = job(), ENGINES[Engine.YUNIKORN]
    ids = {
        row.marks(Membership(owner, owner.pod_sets[0], name, 2)).labels["applicationId"]
        for name in ("job", "job-1767225600")
    }
    uid = owner.metadata.uid
    assert ids == {f"dijob-{uid}", f"dijob-{uid}-1767225600"}


def test_a_topology_that_an_old_volcano_has_dropped_is_named() -> None:
    dropped = ENGINES[Engine.VOLCANO].dropped
    wanted = job(scheduling={"topology": {"key": "rack"}})
    assert dropped(wanted, {"networkTopology": {"highestTierName": "rack"}}) == ""
    assert dropped(job(), {}) == ""
    assert "highestTierName" in dropped(wanted, {"networkTopology": {"mode": "hard"}})


@pytest.mark.parametrize(
    "meta",
    [
        {"annotations": {"scheduling.k8s.io/group-name": "mine"}},
        {"labels": {"scheduling.x-k8s.io/pod-group": "mine"}},
        {"labels": {"applicationId": "mine"}},
        {"annotations": {"pod-group-name": "mine"}},
    ],
    ids=["Volcano", "Coscheduling", "YuniKorn", "KAI"],
)
def test_a_group_of_the_users_own_has_no_default_engine(meta: Body) -> None:
    body = job_body()
    body["spec"]["template"]["metadata"] = meta
    owner = parse_job(body)
    assert engine_of(owner, Engine.VOLCANO, ()) is Engine.NONE
    assert engine_of(job(), Engine.VOLCANO, ()) is Engine.VOLCANO
