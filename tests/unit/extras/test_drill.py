"""`drill`: which pods it deletes, how it recognizes the stages of a recovery, what it reports."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from click.testing import CliRunner
from dijob.cli.errors import CliError, Exit
from dijob.cli.main import group
from dijob.client import AsyncClient, Job, RankPod
from dijob_extras.drill.carry_out import carry_out
from dijob_extras.drill.recovery import Recovery, Stage
from dijob_extras.drill.victims import DrillKind, Victims, choose_victims
from unit.client.kubelets import PODS, Kubelets, kubelets
from unit.extras.seen import condition, ended, job, pod

Body = dict[str, Any]
UP = [condition("Running", "Begun"), condition("PeersReady", "AllRanksReady")]
LOST = [condition("Running", "Begun"), condition("PeersReady", "Renewing", true=False, message="x")]
TEMPLATE = {"spec": {"containers": [{"name": "di-container", "image": "x", "command": ["a"]}]}}
TASKS: Body = {
    "replicas": None,
    "template": None,
    "tasks": [
        {"type": "learner", "replicas": 1, "template": TEMPLATE},
        {"type": "collector", "replicas": 2, "template": TEMPLATE},
    ],
}


def running(*, spec: Body | None = None, **status: Any) -> Job:
    return job(spec=spec, **{"conditions": UP, **status})


def placed(*nodes: str) -> list[RankPod]:
    """Return running pods on these nodes, in rank order."""
    pods = [pod(rank) for rank in range(len(nodes))]
    for each, node in zip(pods, nodes, strict=True):
        each.body["spec"]["nodeName"] = node
    return pods


def again(rank: int, **more: Any) -> RankPod:
    """Return the new pod of a rank."""
    made = pod(rank, **more)
    made.body["metadata"]["uid"] = f"new-{rank}"
    return made


@pytest.mark.parametrize(
    ("kind", "rank", "ranks", "others"),
    [
        (DrillKind.RANK, None, [2], set()),
        (DrillKind.RANK, 0, [0], {1, 2}),
        (DrillKind.NODE, None, [1, 2], set()),
        (DrillKind.NODE, 0, [0], {1, 2}),
    ],
    ids=["the last rank", "a rank", "the node with most ranks", "the node of a rank"],
)
def test_a_drill_deletes(
    kind: DrillKind, rank: int | None, ranks: list[int], others: set[int]
) -> None:
    found = choose_victims(running(), placed("n1", "n2", "n2"), kind, rank)
    assert (found.ranks, set(found.others)) == (ranks, others)


def test_all_ranks_restart_with_the_scope_job() -> None:
    found = choose_victims(
        running(spec={"restart": {"scope": "Job"}}), placed(*"aaa"), DrillKind.RANK
    )
    assert found.others == {0, 1}


def test_a_task_with_a_runtime_of_its_own_restarts_as_a_group() -> None:
    learner, collector = TASKS["tasks"]
    tasks = [{**learner, "replicas": 2, "runtime": "torch"}, {**collector, "replicas": 1}]
    spec = {**TASKS, "tasks": tasks, "topology": "star"}
    assert choose_victims(running(spec=spec), placed(*"aaa"), DrillKind.RANK, 1).others == {0, 2}
    assert choose_victims(running(spec=spec), placed(*"aaa"), DrillKind.RANK, 2).others == set()


def test_the_learner_is_found_by_the_type_of_its_task() -> None:
    found = choose_victims(running(spec=TASKS), placed(*"aaa"), DrillKind.LEARNER)
    assert found.ranks == [0]


@pytest.mark.parametrize(
    ("given", "rank", "kind", "words"),
    [
        (running(conditions=LOST), None, DrillKind.RANK, "not all of its ranks are connected"),
        (
            running(conditions=[condition("Finished", "Failed")]),
            None,
            DrillKind.RANK,
            "it has ended",
        ),
        (
            running(conditions=[*UP, condition("Paused", "Annotated", message="paused: see")]),
            None,
            DrillKind.RANK,
            "paused: see",
        ),
        (
            running(spec={"managedBy": "example.com/x"}),
            None,
            DrillKind.RANK,
            "example.com/x manages it",
        ),
        (running(spec={"replicas": -1}), None, DrillKind.RANK, "its spec is invalid"),
        (running(), 7, DrillKind.RANK, "rank 7 is not running; running ranks: 0-2"),
        (running(), None, DrillKind.LEARNER, "has no task of type learner"),
    ],
    ids=["recovering", "ended", "paused", "managed elsewhere", "invalid", "no rank", "no learner"],
)
def test_no_drill(given: Job, rank: int | None, kind: DrillKind, words: str) -> None:
    with pytest.raises(CliError, match=words):
        choose_victims(given, placed(*"aaa"), kind, rank)


def test_the_question_names_the_pods_and_the_other_ranks() -> None:
    found = choose_victims(running(), placed("n1", "n2", "n2"), DrillKind.RANK, 1)
    said = found.describe(running())
    assert said == (
        "This drill deletes rank 1 of the running job test (pod test-1 on node n2), and rank 2 will"
        " restart too."
    )
    whole = choose_victims(running(), placed("n1", "n2", "n2"), DrillKind.NODE, 0).describe(
        running()
    )
    assert "all other ranks will restart too" in whole
    assert "The node n1 itself is not changed" in whole


def observed(*states: tuple[Job, Sequence[RankPod]], before: Job | None = None) -> Recovery:
    """Return the recovery after these states, one second apart, since the loss of rank 2."""
    found = Recovery(before or running(), Victims((pod(2),), frozenset()))
    for second, (seen, pods) in enumerate(states, 1):
        found.observe(seen, pods, second)
    return found


OTHERS = [pod(0), pod(1)]
RENEWAL: Body = {"renewals": 1, "lastRenewal": {"message": "rank 2: deleted"}}
BACK: Body = {"renewals": 1, "listNumber": 2, "conditions": UP}


def test_the_stages_of_a_recovery() -> None:
    found = Recovery(running(), Victims((pod(2),), frozenset()))
    steps: list[tuple[Job, list[RankPod], str]] = [
        (running(), [*OTHERS, pod(2)], ""),
        (running(conditions=LOST, **RENEWAL), OTHERS, "detection: rank 2: deleted"),
        (running(conditions=LOST, **RENEWAL), [*OTHERS, again(2, state={"waiting": {}})], ""),
        (
            running(conditions=LOST, **RENEWAL),
            [*OTHERS, again(2, ready=False)],
            "restart: rank 2 runs in new pods",
        ),
        (running(**BACK), [*OTHERS, again(2, ready=False)], ""),
        (running(**BACK), [*OTHERS, again(2)], "connected: all ranks are Ready with peer list"),
    ]
    for second, (seen, pods, said) in enumerate(steps, 1):
        lines = found.observe(seen, pods, second)
        assert [said in line for line in lines] == ([True] if said else []), (second, lines)
    assert list(found.seconds.values()) == [2, 4, 6]
    assert found.next_stage is None
    assert found.summary() == "test recovered in 6.0 s, 0 failures counted"


def test_a_recovery_between_two_observations_is_recognized() -> None:
    found = observed((running(**BACK, lastRenewal={"message": "m"}), [*OTHERS, again(2)]))
    assert found.next_stage is None


def test_the_old_peer_list_is_no_recovery() -> None:
    seen = running(**RENEWAL, conditions=UP, listNumber=1)
    assert observed((seen, [*OTHERS, again(2)])).next_stage is Stage.CONNECTED


def progress(iteration: int, second: int) -> Body:
    stamp = f"2026-11-25T12:00:{second:02d}Z"
    return {"progress": {"iteration": iteration, "line": f"iter {iteration}", "time": stamp}}


def test_lost_iterations_are_how_far_the_progress_fell_behind() -> None:
    whole = [*OTHERS, again(2)]
    found = observed(
        (running(**RENEWAL, **progress(130, 1)), OTHERS),
        (running(**BACK, lastRenewal={"message": "m"}, **progress(130, 1)), whole),
        (running(**BACK, **progress(110, 9)), whole),
        before=running(**progress(120, 0)),
    )
    assert (found.repeated, found.next_stage) == (20, None)
    assert found.seconds[Stage.PROGRESS] == 3
    assert "20 iterations lost" in found.summary()
    assert found.as_data() == {
        "job": "test",
        "ranks": [2],
        "node": None,
        "seconds": {"detection": 1, "restart": 2, "connected": 2, "progress": 3},
        "lost": {"iteration": 20},
        "failures": 0,
    }


def test_a_report_from_before_the_rendezvous_is_no_progress() -> None:
    found = observed(
        (running(**BACK, lastRenewal={"message": "m"}, **progress(5, 1)), [*OTHERS, again(2)]),
        (running(**BACK, **progress(5, 1)), [*OTHERS, again(2)]),
        before=running(**progress(5, 0)),
    )
    assert found.next_stage is Stage.PROGRESS


def test_counted_failures_are_reported() -> None:
    assert observed((running(restarts=1, **RENEWAL), OTHERS)).failures == 1


def test_without_a_terminal_a_drill_needs_yes() -> None:
    done = CliRunner().invoke(group, ["drill", "test"], prog_name="dijob")
    assert done.exit_code == Exit.USAGE
    assert "add --yes" in done.output


class Operator:
    """Replaces the deleted pod and writes the status, as the operator would."""

    def __init__(self, made: Kubelets, *, fails: bool = False) -> None:
        self.made, self.fails, self.deleted = made, fails, list[Body]()

    def routes(self) -> list[web.RouteDef]:
        return [web.delete(f"{PODS}/{{name}}", self.delete)]

    async def delete(self, request: web.Request) -> web.StreamResponse:
        self.deleted.append(await request.json())
        assert self.made.job is not None
        rank = int(request.match_info["name"][-1])
        await self.made.remove(rank)
        if self.fails:
            kinds = ("Failed", "Finished")
            ends = [{"type": kind, "status": "True", "message": "over"} for kind in kinds]
            self.made.job["status"] |= {"phase": "Failed", "conditions": ends}
        else:
            await self.made.start(rank, "new")
            self.made.pods[f"test-{rank}"]["status"]["containerStatuses"][0]["ready"] = True
            self.made.job["status"] |= {**BACK, "lastRenewal": {"message": "rank 1: deleted"}}
        await self.made.change()
        return web.json_response({})


async def drilled(tmp_path: Path, *, fails: bool = False) -> tuple[Operator, list[str], Recovery]:
    operators: list[Operator] = []

    def more(made: Kubelets) -> list[web.RouteDef]:
        operators.append(Operator(made, fails=fails))
        return operators[0].routes()

    async with kubelets(tmp_path, more) as (made, kubeconfig), AsyncClient(kubeconfig) as client:
        assert made.job is not None
        made.job["status"] = {"phase": "Running", "desired": 2, "listNumber": 1, "conditions": UP}
        for rank in (0, 1):
            await made.start(rank)
        seen = await client.get("test")
        victims = choose_victims(seen, await client.pods(seen), DrillKind.RANK)
        lines = list[str]()
        return operators[0], lines, await carry_out(client, "test", victims, 10, lines.append)


async def test_a_drill_deletes_exactly_the_pod_that_it_has_shown(tmp_path: Path) -> None:
    operator, lines, recovery = await drilled(tmp_path)
    assert operator.deleted == [{"preconditions": {"uid": "uid-1"}}]
    assert [line.split()[2] for line in lines] == ["detection:", "restart:", "connected:"]
    assert json.loads(json.dumps(recovery.as_data()))["ranks"] == [1]


async def test_a_job_that_ends_during_the_drill_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(CliError, match="the job ended during the drill: test: Failed: over"):
        await drilled(tmp_path, fails=True)


def test_a_rank_that_has_ended_cannot_be_deleted() -> None:
    pods = [pod(0), pod(1, state=ended(0))]
    with pytest.raises(CliError, match="rank 1 is not running; running ranks: 0"):
        choose_victims(running(), pods, DrillKind.RANK, 1)
    assert choose_victims(running(), pods, DrillKind.RANK).ranks == [0]
