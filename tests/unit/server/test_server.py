"""The HTTP server: the size of a job that a rank reads and changes, rate limits, metrics, and the
API description.
"""

import re
from pathlib import Path
from typing import Any

import pytest
from dijob import names
from dijob.api.parse import parse_job
from dijob.core.members import gang_of
from dijob.core.options import Options
from dijob.core.render.pod import pod_manifest
from dijob.history import metrics as history
from dijob.kube.kinds import PODS
from dijob.server.callers import ACCESS, REVIEWS
from dijob.server.metrics import REGISTRY
from dijob.server.openapi import ROUTES, build_document
from dijob.server.requests import Limit, Rate
from fakes.server_lab import BY_NAME, BY_UID, OTHER, UID, Apiserver, Body, lab, made, pod
from prometheus_client import CollectorRegistry
from samples.builders import recorded, tasks_body


@pytest.mark.parametrize("path", [BY_UID, BY_NAME, f"/v2alpha1/job/{UID}/replicas"])
async def test_a_rank_reads_and_changes_the_size_of_its_job(path: str) -> None:
    async with lab() as it:
        _, reply = await it.ask("GET", path)
        assert reply["data"] == ["10.0.0.0:50515", "10.0.0.1:50515", "10.0.0.2:50515"]
        for method, replicas, size in (("POST", 2, 5), ("DELETE", 3, 2), ("PUT", 4, 4)):
            status, reply = await it.ask(method, path, {"replicas": replicas})
            assert (status, reply["data"]) == (200, {"replicas": size})
            assert it.apiserver.job["spec"]["replicas"] == size


def forged(name: str, rank: str, **owner: Any) -> Body:
    body = pod(0)
    body["metadata"] |= {"name": name}
    body["metadata"]["labels"] |= {names.LABEL_RANK: rank}
    body["metadata"]["ownerReferences"][0] |= owner
    return body


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(forged("evil", "999999999999", controller=False), id="a large rank"),
        pytest.param(forged("evil", "999999999999"), id="a large rank, controlled by the job"),
        pytest.param(forged("job-1500", "1500"), id="a name beyond the largest job"),
        pytest.param(forged("job-01", "1"), id="a name that no rank has"),
        pytest.param(forged("job-4", "4", controller=False), id="owned, and not controlled"),
        pytest.param(forged("job-4", "4", uid=OTHER), id="controlled by another job"),
    ],
)
async def test_h7_a_pod_that_is_no_rank_of_the_job_is_not_counted(body: Body) -> None:
    """H7: the size of a response never depends on a number that a tenant writes."""
    async with lab() as it:
        it.apiserver.objects[PODS.path("ns", body["metadata"]["name"])] = body
        _, reply = await it.ask("GET", BY_UID)
        assert reply["data"] == ["10.0.0.0:50515", "10.0.0.1:50515", "10.0.0.2:50515"]


async def test_h7_a_rank_with_a_forged_label_keeps_its_place() -> None:
    """H7: the rank is taken from the pod's name, not from its label."""
    async with lab() as it:
        it.apiserver.objects[PODS.path("ns", "job-1")]["metadata"]["labels"] |= {
            names.LABEL_RANK: "999999999999"
        }
        _, reply = await it.ask("GET", BY_UID)
        assert reply["data"] == ["10.0.0.0:50515", "10.0.0.1:50515", "10.0.0.2:50515"]


PORTS = ["ditask", "--ports", "50600"]


@pytest.mark.parametrize(
    ("main", "pod_spec", "port"),
    [
        pytest.param({"command": PORTS}, {}, 50600, id="plain"),
        pytest.param({"command": PORTS}, {"hostNetwork": True}, 50600, id="hostNetwork"),
        pytest.param(
            {"command": ["bash", "-c"], "args": ["ditask --ports 50600"]},
            {"hostNetwork": True},
            50600,
            id="a script",
        ),
        pytest.param(
            {"command": PORTS, "ports": [{"name": "tb", "containerPort": 50515}]},
            {},
            50600,
            id="another port of the template has the usual number",
        ),
        pytest.param(
            {"command": PORTS, "ports": [{"name": "di-port", "containerPort": 7000}]},
            {"hostNetwork": True},
            7000,
            id="di-port of the template",
        ),
        pytest.param({"command": ["python3", "x.py"]}, {}, 50515, id="no ditask"),
    ],
)
@pytest.mark.parametrize("launcher", ["Auto", "Off"])
async def test_h14_addresses_have_the_port_on_which_the_first_process_listens(
    main: Body, pod_spec: Body, port: int, launcher: str
) -> None:
    """H14: hostNetwork, or another port of the template, does not change the response."""
    apiserver = made(replicas=1, launcher=launcher)
    template = apiserver.job["spec"]["template"]["spec"]
    template["containers"][0] |= main
    template |= pod_spec
    job = parse_job(apiserver.job)
    for rank in range(3):
        path = PODS.path("ns", f"job-{rank}")
        apiserver.objects.pop(path)
    body = pod_manifest(job, gang_of(job).member(0), Options())
    apiserver.objects[PODS.path("ns", "job-0")] = body | {"status": {"podIP": "10.0.0.9"}}
    apiserver.pods = {}
    async with lab(apiserver) as it:
        _, reply = await it.ask("GET", BY_NAME, token="bob")
        assert reply["data"] == [f"10.0.0.9:{port}"]


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
async def test_a_job_that_has_ended_keeps_its_size(phase: str) -> None:
    async with lab() as it:
        it.apiserver.job["status"]["phase"] = phase
        status, reply = await it.ask("PUT", BY_UID, {"replicas": 2})
        assert (status, "has ended" in reply["message"]) == (409, True)


def with_tasks(record: str, **spec: Any) -> Apiserver:
    """Return a cluster with a job of one learner and two to five collectors."""
    apiserver = made()
    body = recorded(tasks_body(1, 1, 3, **spec), record)
    body["spec"]["tasks"][-1] |= {"minReplicas": 2, "maxReplicas": 5}
    apiserver.job["spec"] = body["spec"]
    apiserver.job["metadata"]["annotations"] = body["metadata"]["annotations"]
    return apiserver


@pytest.mark.parametrize(
    ("method", "count", "size"), [("PUT", 5, 5), ("POST", 1, 5), ("DELETE", 2, 2)]
)
async def test_the_size_of_a_job_with_tasks_is_that_of_its_last_task(
    method: str, count: int, size: int
) -> None:
    async with lab(with_tasks("collector 3", replicas=4)) as it:
        status, reply = await it.ask(method, BY_UID, {"replicas": count})
        assert (status, reply["data"]) == (200, {"replicas": size})
        assert it.apiserver.job["spec"]["replicas"] == size
        assert it.apiserver.job["spec"]["tasks"][-1]["replicas"] == 3


@pytest.mark.parametrize("size", [1, 6])
async def test_the_bounds_of_the_last_task_apply(size: int) -> None:
    async with lab(with_tasks("collector 3", replicas=4)) as it:
        status, reply = await it.ask("PUT", BY_UID, {"replicas": size})
        assert (status, it.apiserver.job["spec"]["replicas"]) == (422, 4)
        assert f"cannot have {size} replicas of its last task" in reply["message"]
        assert "allow 2 to 5" in reply["message"]


async def test_a_size_that_the_operator_would_overwrite_is_not_written() -> None:
    async with lab(with_tasks("collector 2", replicas=4)) as it:
        status, reply = await it.ask("PUT", BY_UID, {"replicas": 5})
        assert (status, "try again" in reply["message"]) == (409, True)
        assert it.apiserver.job["spec"]["replicas"] == 4


@pytest.mark.parametrize(("conflicts", "status"), [(3, 200), (9, 409)])
async def test_a_concurrent_change_is_not_overwritten(conflicts: int, status: int) -> None:
    async with lab() as it:
        it.apiserver.conflicts = conflicts
        assert (await it.ask("PUT", BY_UID, {"replicas": 2}))[0] == status


async def test_an_unreachable_apiserver_is_reported_with_503() -> None:
    async with lab() as it:
        it.apiserver.down = True
        status, reply = await it.ask("GET", BY_UID)
        assert (status, "connection refused" in reply["message"]) == (503, True)
        it.apiserver.down = False
        assert (await it.ask("GET", BY_UID))[0] == 200


async def test_requests_of_one_person_are_limited_before_the_access_review() -> None:
    async with lab() as it:
        codes = [(await it.ask("GET", BY_NAME, token="eve"))[0] for _ in range(120)]
        assert codes == [403] * 100 + [429] * 20
        assert sum(call.path == ACCESS for call in it.apiserver.calls) == 100


async def test_requests_about_one_job_are_limited_and_reuse_the_token_review() -> None:
    async with lab() as it:
        codes = [(await it.ask("GET", BY_UID))[0] for _ in range(40)]
        assert codes == [200] * 30 + [429] * 10
        assert sum(call.path == REVIEWS for call in it.apiserver.calls) == 1
        it.clock.seconds += 0.1
        assert (await it.ask("GET", BY_UID))[0] == 200


async def test_unknown_tokens_from_one_address_are_limited() -> None:
    async with lab() as it:
        codes = [(await it.ask("GET", BY_UID, token=f"t{n}"))[0] for n in range(60)]
        assert codes == [401] * 50 + [429] * 10
        assert sum(call.path == REVIEWS for call in it.apiserver.calls) == 100


def test_a_limit_has_its_rate_and_burst() -> None:
    limit = Limit(Rate(2.0, 4.0))
    assert [limit.take("a", 10.0) for _ in range(4)] == [0.0] * 4
    assert limit.take("a", 10.0) == pytest.approx(0.5)
    assert limit.take("b", 10.0) == 0.0
    assert [limit.take("a", 10.5), limit.take("a", 10.9)] == [0.0, pytest.approx(0.1)]


PARTS = {"The HTTP server's": REGISTRY, "The history's": history.REGISTRY}


@pytest.mark.parametrize(("heading", "registry"), PARTS.items(), ids=PARTS)
def test_the_metrics_page_has_each_series(heading: str, registry: CollectorRegistry) -> None:
    page = (Path(__file__).parents[3] / "docs/metrics.md").read_text()
    page = page.partition(f"## {heading}\n")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| `(dijob_\w+)` \|([^|]*)\|", page, re.MULTILINE)
    listed = {name.removesuffix("_total"): re.findall(r"`(\w+)`", labels) for name, labels in rows}
    names: Any = registry._collector_to_names
    assert listed == {each._name: list(each._labelnames) for each in names}


def test_the_api_description_has_each_route() -> None:
    paths = build_document()["paths"]
    described = {(method.upper(), path) for path, methods in paths.items() for method in methods}
    assert described == {(route.method, path) for route in ROUTES for path in route.paths}
