"""Authentication and authorization of the HTTP server, and its messages for rejected requests."""

from typing import Any

import pytest
from dijob.server.app import BODY_BYTES
from dijob.server.callers import REVIEWS
from dijob.server.openapi import OPENAPI_PATH, ROUTES
from fakes.server_lab import BY_NAME, BY_UID, OTHER, POD, UID, Body, lab, made, token_of
from yarl import URL


async def test_every_route_but_the_description_needs_a_token() -> None:
    """The routes of the application are compared with the description, so none can be missing."""
    async with lab() as it:
        served = {
            (route.method, route.resource.canonical)
            for route in it.server.app().router.routes()
            if route.resource is not None
        }
        assert served == {
            ("GET", OPENAPI_PATH),
            *((route.method, path) for route in ROUTES for path in route.paths),
        }
        for method, path in served - {("GET", OPENAPI_PATH)}:
            for token in ("", "nothing", "null"):
                status, reply = await it.ask(method, path.format(job=UID), {"replicas": 1}, token)
                assert status == 401, (method, path, reply)
        assert it.apiserver.job == made().job


REFUSED = {
    "another job's token": ("GET", f"/v2alpha1/{OTHER}/replicas", None, 403, "its own job, ns.job"),
    "another job by name": ("GET", "/v2alpha1/ns.other/replicas", None, 403, "only for its own"),
    "another namespace": ("GET", "/v2alpha1/other.job/replicas", None, 403, "only for its own"),
    "a bare name": ("GET", "/v2alpha1/job/replicas", None, 404, "NAMESPACE.NAME"),
    "no such path": ("GET", "/v1/jobs", None, 404, OPENAPI_PATH),
    "no such method": ("PATCH", BY_UID, None, 405, "use DELETE,GET,POST,PUT"),
    "no JSON": ("POST", BY_UID, b"{", 400, "JSON"),
    "no number": ("POST", BY_UID, {"replicas": "2"}, 422, "replicas"),
    "none": ("POST", BY_UID, {"replicas": 0}, 422, "replicas"),
    "a field more": ("POST", BY_UID, {"replicas": 1, "x": 1}, 422, "x"),
    "nothing": ("POST", BY_UID, {}, 422, "replicas"),
    "a list": ("POST", BY_UID, [1], 422, "the body"),
    "above the maximum": ("POST", BY_UID, {"replicas": 3}, 422, "allow 1 to 5"),
    "below the minimum": ("DELETE", BY_UID, {"replicas": 3}, 422, "allow 1 to 5"),
    "too large": ("POST", BY_UID, b" " * (BODY_BYTES + 1), 413, "at most 65536 bytes"),
    "a large profiling": (
        "POST", f"/v2alpha1/{UID}/profilings", {"a": "x" * 5000}, 413, "at most 4096 bytes",
    ),
    "no progress": ("POST", f"/v2alpha1/{UID}/progress", {}, 422, "at least one of"),
    "infinite": ("POST", f"/v2alpha1/{UID}/progress", b'{"episode_return": 1e999}', 422, "finite"),
}  # fmt: skip


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "words"), REFUSED.values(), ids=list(REFUSED)
)
async def test_a_rejected_request_has_a_status_and_a_reason(
    method: str, path: str, body: Any, status: int, words: str
) -> None:
    async with lab() as it:
        found, reply = await it.ask(method, path, body)
        assert (found, words in reply["message"]) == (status, True), reply
        assert it.apiserver.job == made().job


NOBODY = {
    "a pod that is gone": (token_of("job-9", "pod-9"), 401, "is gone"),
    "its name is another pod's": (token_of("job-0", "pod-7"), 401, "is gone"),
    "bound to no pod": ({"username": "system:serviceaccount:ns:default"}, 401, "bound to a pod"),
    "no service account": (token_of("job-0", "pod-0", "bob"), 401, "bound to a pod"),
}


@pytest.mark.parametrize(("user", "status", "words"), NOBODY.values(), ids=list(NOBODY))
async def test_a_token_that_is_not_bound_to_a_rank_is_rejected(
    user: Body, status: int, words: str
) -> None:
    apiserver = made()
    apiserver.pods["odd"] = user
    async with lab(apiserver) as it:
        found, reply = await it.ask("GET", BY_UID, token="odd")
        assert (found, words in reply["message"]) == (status, True), reply


async def test_the_token_of_a_pod_without_a_job_is_rejected() -> None:
    apiserver = made()
    apiserver.objects[POD]["metadata"]["ownerReferences"] = []
    async with lab(apiserver) as it:
        assert (await it.ask("GET", BY_UID))[0] == 403


async def test_the_token_of_a_deleted_pod_is_rejected_within_seconds() -> None:
    async with lab() as it:
        assert (await it.ask("GET", BY_UID))[0] == 200
        del it.apiserver.pods["rank"]
        it.clock.seconds += 11
        assert (await it.ask("GET", BY_UID))[0] == 401


async def test_a_new_job_with_the_same_name_is_not_changed() -> None:
    async with lab() as it:
        it.apiserver.job["metadata"]["uid"] = OTHER
        status, reply = await it.ask("POST", BY_NAME, {"replicas": 1})
        assert (status, it.apiserver.job["spec"]["replicas"]) == (404, 3), reply


PEOPLE = {
    "may": ("bob", "PUT", BY_NAME, 200),
    "may read": ("bob", "GET", BY_NAME, 200),
    "may not": ("eve", "PUT", BY_NAME, 403),
    "may not read": ("eve", "GET", BY_NAME, 403),
    "may not, and there is none": ("eve", "GET", "/v2alpha1/ns.none/replicas", 403),
    "elsewhere": ("bob", "GET", "/v2alpha1/other.job/replicas", 403),
    "by uid": ("bob", "GET", BY_UID, 404),
}


@pytest.mark.parametrize(("who", "method", "path", "status"), PEOPLE.values(), ids=list(PEOPLE))
async def test_people_need_permission_for_the_jobs_scale(
    who: str, method: str, path: str, status: int
) -> None:
    async with lab() as it:
        body = {"replicas": 4} if method == "PUT" else None
        assert (await it.ask(method, path, body, who))[0] == status
        assert it.apiserver.job["spec"]["replicas"] == (
            4 if (status, method) == (200, "PUT") else 3
        )


# In a URL, each of these would change the path or the query.
NO_NAMES = {
    "another namespace's job": "ns.x%2F..%2F..%2F..%2Fother%2Fdijobs%2Fjob",
    "through the namespace": "ns%2F..%2Fother.job",
    "a query": "ns.job%3FdryRun=All",
    "a subresource": "ns.job%2Fstatus",
    "two names": "ns.job.x",
    "upper case": "ns.Job",
    "no namespace": ".job",
    "no name": "ns.",
    "a new line": "ns.job%0A",
}


@pytest.mark.parametrize("given", NO_NAMES.values(), ids=list(NO_NAMES))
async def test_an_invalid_job_name_is_never_put_into_a_path(given: str) -> None:
    async with lab() as it:
        for token, status in (("bob", 404), ("rank", 404)):
            path = URL(f"/v2alpha1/{given}/replicas", encoded=True)
            headers = {"Authorization": f"Bearer {token}"}
            async with it.client.get(path, headers=headers) as answer:
                assert answer.status == status, await answer.text()
        assert {call.path for call in it.apiserver.calls} == {REVIEWS, POD}


async def test_an_owner_whose_name_contains_a_path_is_rejected() -> None:
    """The apiserver does not validate the names in a pod's ownerReferences."""
    apiserver = made()
    (owner,) = apiserver.objects[POD]["metadata"]["ownerReferences"]
    owner["name"] = "x/../../../other/dijobs/job"
    async with lab(apiserver) as it:
        assert (await it.ask("GET", BY_UID))[0] == 403
        assert {call.path for call in it.apiserver.calls} == {REVIEWS, POD}
