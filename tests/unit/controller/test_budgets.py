"""PodDisruptionBudgets in a simulated cluster: the requests for them, and what the operator does
when somebody edits or deletes one.
"""

from typing import Any

import pytest
from dijob.core.render.budget import budget_spec
from samples.builders import job_body, tasks_body
from simulator.connection import Fault
from simulator.simulated import World, simulated

pytestmark = pytest.mark.virtual_time

ONE: dict[str, Any] = {"disruptionBudget": {"maxUnavailable": 1}}
BUDGETS = "poddisruptionbudgets"


def requests(world: World) -> list[str]:
    return [call.method for call in world.line.calls if call.target.plural == BUDGETS]


def least(world: World, name: str = "job") -> int:
    return int(world.cluster.read(BUDGETS, name)["spec"]["minAvailable"])


def condition(world: World, kind: str = "DrainsLimited") -> tuple[str, str]:
    found = (one for one in world.cluster.job().status.conditions if one.type == kind)
    return next(((one.reason, one.message) for one in found), ("", ""))


def succeed(world: World, name: str) -> None:
    pod = world.cluster.pod(name)
    pod.end(pod.main, 0)
    world.cluster.report(pod)


def foreign() -> dict[str, Any]:
    return {
        "metadata": {"name": "job", "namespace": "ns"},
        "spec": {"maxUnavailable": 1, "selector": {}},
    }


async def test_a_budget_costs_one_read_and_one_write() -> None:
    async with simulated(job_body()) as world:
        await world.running()
        without = len(world.writes())
        assert requests(world) == []
    async with simulated(job_body(**ONE)) as world:
        await world.running()
        await world.settle()
        assert requests(world) == ["GET", "POST"]
        assert len(world.writes()) == without + 1
        assert least(world) == 2
        assert condition(world) == ("", "")


async def test_tasks_have_budgets_of_their_own() -> None:
    body = tasks_body(1, 1, 3)
    learner, _, collector = body["spec"]["tasks"]
    learner["disruptionBudget"] = {"maxUnavailable": 0}
    collector["disruptionBudget"] = {"maxUnavailable": 2}
    async with simulated(body) as world:
        await world.running()
        await world.settle()
        assert world.cluster.names_of(BUDGETS) == {"job-learner", "job-collector"}
        assert (least(world, "job-learner"), least(world, "job-collector")) == (1, 1)


async def test_the_next_operator_reads_the_budget_once() -> None:
    async with simulated(job_body(**ONE)) as world:
        await world.running()
        await world.settle()
        await world.restart()
        await world.settle()
        assert requests(world) == ["GET", "POST", "GET"]


async def test_a_success_is_one_write_and_the_end_another() -> None:
    async with simulated(job_body(**ONE)) as world:
        await world.running()
        await world.settle()
        succeed(world, "job-2")
        await world.settle()
        assert least(world) == 1
        for name in ("job-0", "job-1"):
            succeed(world, name)
        await world.settle()
        assert world.phase == "Succeeded"
        assert requests(world) == ["GET", "POST", "PATCH", "DELETE"]
        assert world.cluster.names_of(BUDGETS) == set()
        assert world.cluster.job().status.budgets == ""


async def test_a_success_is_no_write_if_no_eviction_is_allowed() -> None:
    async with simulated(job_body(disruptionBudget={"maxUnavailable": 0})) as world:
        await world.running()
        await world.settle()
        succeed(world, "job-2")
        await world.settle()
        assert requests(world) == ["GET", "POST"]


async def test_a_budget_that_is_edited_or_deleted_is_restored() -> None:
    async with simulated(job_body(**ONE)) as world:
        await world.running()
        await world.settle()
        spec = {"minAvailable": None, "maxUnavailable": 3, "unhealthyPodEvictionPolicy": None}
        world.cluster.patch(BUDGETS, "job", {"spec": spec})
        await world.runs(600)
        job = world.cluster.job()
        assert world.cluster.read(BUDGETS, "job")["spec"] == budget_spec(job, "", 2)
        world.cluster.remove(BUDGETS, "job")
        await world.runs(600)
        assert least(world) == 2


async def test_a_budget_of_another_owner_is_reported_and_not_touched() -> None:
    async with simulated(job_body(**ONE)) as world:
        world.cluster.create(BUDGETS, foreign())
        await world.running()
        await world.settle()
        reason, message = condition(world)
        assert reason == "NameTaken"
        assert "poddisruptionbudget job already exists" in message
        assert world.cluster.read(BUDGETS, "job")["spec"] == foreign()["spec"]
        assert world.phase == "Running"
        world.cluster.remove(BUDGETS, "job")
        await world.runs(120)
        assert least(world) == 2
        assert condition(world)[0] == "Created"


@pytest.mark.parametrize("method", ["GET", "POST"])
async def test_a_missing_permission_is_reported_and_does_not_stop_the_job(method: str) -> None:
    async with simulated(job_body(**ONE)) as world:
        world.line.faults.append(Fault(method, BUDGETS, 403, times=1000))
        await world.running()
        await world.settle()
        assert condition(world)[0] == "Refused"
        assert world.phase == "Running"
        world.line.faults.clear()
        await world.runs(61)
        assert least(world) == 2
        assert condition(world)[0] == "Created"


async def test_a_budget_that_cannot_be_deleted_is_reported() -> None:
    async with simulated(job_body(**ONE)) as world:
        await world.running()
        await world.settle()
        world.line.faults.append(Fault("DELETE", BUDGETS, 403, times=1000))
        world.cluster.edit(suspend=True)
        await world.settle()
        assert condition(world, "ChangesRefused")[0] == "BudgetDeletionRefused"
        world.line.faults.clear()
        await world.runs(61)
        assert world.cluster.names_of(BUDGETS) == set()


async def test_a_budget_that_was_removed_from_the_spec_while_no_operator_ran_is_deleted() -> None:
    async with simulated(job_body(**ONE)) as world:
        await world.running()
        await world.settle()
        world.cluster.edit(disruptionBudget=None)
        await world.restart()
        await world.settle()
        assert world.cluster.names_of(BUDGETS) == set()


async def test_a_budget_that_cannot_be_read_does_not_cause_a_loop_while_a_rank_is_missing() -> None:
    async with simulated(job_body(**ONE)) as world:
        world.line.faults.append(Fault("GET", BUDGETS, 403, times=1000))
        await world.running()
        world.line.faults.append(Fault("POST", "pods", 403, times=1000))
        world.cluster.remove("pods", "job-2")
        await world.runs(120)
        before = world.operator.passes
        await world.runs(600)
        assert world.operator.passes - before <= 60
