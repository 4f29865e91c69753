"""C47: the CRD in the cluster and the operator have different versions."""

import logging

import pytest
from dijob import __version__, names
from dijob.api.parse import parse_job
from dijob.api.problems import SpecError
from samples.builders import job_body, tasks_body
from simulator.objects import Body
from simulator.simulated import World, simulated

virtual = pytest.mark.virtual_time
NEWER = f"this operator ({__version__}) does not know the field, because the CRD"


def conditions(world: World) -> dict[str, tuple[str, str, str]]:
    found = world.cluster.job().status.conditions
    return {one.type: (one.status, one.reason, one.message) for one in found}


UNKNOWN: dict[str, tuple[Body, str]] = {
    "of the spec": (job_body(fromTheFuture=1), "spec.fromTheFuture"),
    "of a part": (job_body(restart={"mode": "Fast"}), "spec.restart.mode"),
    "of a task": (
        tasks_body(1, tasks=[{**tasks_body(1)["spec"]["tasks"][0], "colour": "red"}]),
        "spec.tasks[0].colour",
    ),
}


@pytest.mark.parametrize(("body", "field"), UNKNOWN.values(), ids=UNKNOWN)
def test_a_field_that_only_the_crd_knows_asks_for_an_upgrade_of_the_operator(
    body: Body, field: str
) -> None:
    with pytest.raises(SpecError) as refused:
        parse_job(body)
    assert f"{field}: {NEWER}" in str(refused.value)
    assert "upgrade the operator, or remove the field" in str(refused.value)


def test_an_unknown_field_in_a_users_file_is_a_typo() -> None:
    body = job_body(toplogy="star")
    del body["metadata"]["uid"]
    with pytest.raises(SpecError, match="did you mean topology"):
        parse_job(body)


def test_an_unknown_field_where_the_crd_keeps_all_fields_is_a_typo() -> None:
    rules: list[Body] = [{"form": [{"podSelector": {}}]}]
    with pytest.raises(SpecError) as refused:
        parse_job(job_body(networkPolicy={"ingress": rules}))
    assert NEWER not in str(refused.value)


@virtual
@pytest.mark.parametrize("field", ["listNumber", "renewals", "desired"])
async def test_an_older_crd_is_reported_in_a_condition_without_a_traceback(
    field: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    async with simulated(job_body(), starts=False) as world:
        world.cluster.server.pruned.add(field)
        world.operator.start()
        if field == "renewals":
            await world.running()
            world.cluster.remove("pods", "job-1")
        await world.runs(30)
        status, reason, message = conditions(world)["ChangesRefused"]
        assert (status, reason) == ("True", "CrdOutdated")
        assert f"drops status.{field}" in message
        assert "Apply crds/dijob.yaml" in message
        assert world.cluster.job().status.message.startswith("the CRD in the cluster is older")
        assert not [record for record in caplog.records if record.exc_info]
        assert len(world.writes("PATCH", names.PLURAL)) < 15
        world.cluster.server.pruned.clear()
        await world.until(lambda: conditions(world)["ChangesRefused"][0] == "False", 120)
        await world.running()


@virtual
async def test_a_job_runs_and_recovers_with_a_crd_that_lacks_the_figures() -> None:
    async with simulated(job_body(), starts=False) as world:
        world.cluster.server.pruned |= {"goodput", "lastRenewal.lost"}
        world.operator.start()
        await world.until(lambda: world.phase == "Running")
        world.cluster.remove("pods", "job-1")
        await world.until(lambda: world.cluster.job().status.list_number == 2)
        await world.settle()
        assert conditions(world)["PeersReady"][0] == "True"
        assert "ChangesRefused" not in conditions(world)
