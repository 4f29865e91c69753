"""What is read from a raw pod: its owner, its peer list, its gate, its main container, its
image.
"""

from typing import Any

import pytest
from dijob import names
from dijob.core.addresses import AddressList
from dijob.core.observed import parse
from dijob.core.observed.made import main_name
from samples.builders import (
    OWNER,
    STARTED,
    UID,
    Body,
    container,
    job,
    manifest,
    pod_body,
    read,
    view,
)
from samples.statuses import RUNNING, condition, main_status, terminated


@pytest.mark.parametrize(
    ("name", "rank"),
    [
        ("job-0", 0),
        ("job-12", 12),
        ("job-01", -1),
        ("job-", -1),
        ("job", -1),
        ("other-1", -1),
        ("job-x", -1),
    ],
)
def test_the_rank_is_in_the_computed_name(name: str, rank: int) -> None:
    body = pod_body()
    body["metadata"]["name"] = name
    body["metadata"]["labels"][names.LABEL_RANK] = "5"
    assert read(body).rank == rank


@pytest.mark.parametrize(
    "text", ["²", "x", "", "-1", "1.5", "9" * 5000, "9" * 20], ids=lambda text: text[:10]
)
def test_invalid_annotations_never_raise(text: str) -> None:
    """An exception here would stop the watch of all pods of all jobs."""
    body = pod_body()
    body["metadata"]["annotations"][names.ANNOTATION_LIST_NUMBER] = text
    assert read(body).copy.address_list.number == 0


def test_a_running_gate_is_recognized() -> None:
    for state, gated in (
        ({"running": {}}, True),
        ({"terminated": {"exitCode": 0}}, False),
        ({"waiting": {}}, False),
    ):
        shown = main_status(name=names.GATE_CONTAINER, state=state)
        assert read(pod_body(initContainerStatuses=[shown])).containers.gated is gated


NOON, ELEVEN = "2026-05-04T12:00:00Z", "2026-05-04T11:00:00Z"
RUNS: Body = {"running": {"startedAt": NOON}}
OVER: Body = {"terminated": {"exitCode": 0, "startedAt": ELEVEN}}
WAITS: Body = {"waiting": {"reason": "PodInitializing"}}
# Status of the init containers, whether the rank has arrived, and since when.
ARRIVALS: dict[str, tuple[dict[str, Body], bool, str]] = {
    "nothing yet": ({}, False, ""),
    "the launcher comes": ({"dijob-launcher": RUNS, "dijob-gate": WAITS}, False, ""),
    "its image is pulled": ({"dijob-launcher": OVER, "dijob-gate": WAITS}, False, ""),
    "the gate runs": ({"dijob-launcher": OVER, "dijob-gate": RUNS}, True, NOON),
    "the gate is over": ({"dijob-launcher": OVER, "dijob-gate": OVER}, True, ELEVEN),
    # It may wait for the program of another rank, which itself waits for the list.
    "an own one runs": ({"own": RUNS, "dijob-launcher": WAITS, "dijob-gate": WAITS}, True, ""),
}


@pytest.mark.parametrize(("states", "arrived", "since"), ARRIVALS.values(), ids=ARRIVALS)
def test_a_rank_has_arrived_once_its_image_is_on_the_node(
    states: dict[str, Body], arrived: bool, since: str
) -> None:
    given = [main_status(name=name, state=state) for name, state in states.items()]
    waits = [main_status(state=WAITS)]
    found = read(pod_body(podIP="10.0.0.1", initContainerStatuses=given, containerStatuses=waits))
    assert (found.has_arrived, found.containers.gate_started) == (arrived, since)


def test_a_running_program_has_arrived_even_without_a_gate() -> None:
    assert read(pod_body(podIP="10.0.0.1", containerStatuses=[main_status(state=RUNS)])).has_arrived


@pytest.mark.parametrize("key", [names.LABEL_JOB, names.LABEL_RANK])
def test_edited_labels_are_recognized(key: str) -> None:
    body = pod_body(1)
    assert read(body).recognized
    body["metadata"]["labels"][key] = "other"
    assert not read(body).recognized


def test_annotations_written_by_the_operator_are_read_back() -> None:
    body = pod_body(1, podIP="10.0.0.1", phase="Running", conditions=[condition("Ready")])
    body["spec"] |= {"nodeName": "node-a", "activeDeadlineSeconds": 1}
    body["metadata"]["annotations"] |= {
        names.ANNOTATION_IPS: "10.0.0.0,10.0.0.1",
        names.ANNOTATION_LIST_NUMBER: "4",
    }
    found = read(body)
    assert (found.rank, found.uid, found.owner, found.version) == (1, "uid-1", OWNER, "7")
    assert (found.ip, found.copy.address_list) == ("10.0.0.1", AddressList(4, "10.0.0.0,10.0.0.1"))
    assert (found.placement.node, found.scheduled, found.ready, found.ending_soon) == (
        "node-a",
        True,
        True,
        True,
    )


@pytest.mark.parametrize(
    ("given", "name"),
    [(["a", "b"], "a"), (["a", names.MAIN_CONTAINER], names.MAIN_CONTAINER), ([], "")],
    ids=["first", "named", "none"],
)
def test_the_main_container_is_the_named_one_else_the_first(given: list[str], name: str) -> None:
    assert main_name({"containers": [{"name": one} for one in given]}) == name


PROXY: Body = {
    "name": "istio-proxy",
    "image": "p",
    "volumeMounts": [{"name": "certs", "mountPath": "/certs"}],
}
# A webhook may add volume mounts of its own to every container, and put its own container first.
INJECTED: dict[str, tuple[list[Body], str]] = {
    "a proxy before it": ([container(name="trainer")], "trainer"),
    "a proxy before it, among others": (
        [container(name="trainer"), {"name": "side", "image": "s"}],
        "trainer",
    ),
    "a proxy before it, and it has our name": (
        [{"name": "side", "image": "s"}, container()],
        names.MAIN_CONTAINER,
    ),
}


@pytest.mark.parametrize(("given", "main"), INJECTED.values(), ids=INJECTED)
def test_an_injected_container_is_never_the_main_one(given: list[Body], main: str) -> None:
    """The main container has ended, although the proxy still runs. So the rank has succeeded, or
    its launcher can restart it.
    """
    states = [
        main_status(name=PROXY["name"], state=RUNNING),
        main_status(name=main, state=terminated(0)),
    ]
    body = pod_body(owner=job({"containers": given}), phase="Running", containerStatuses=states)
    for one in body["spec"]["containers"]:
        one.setdefault("volumeMounts", []).append({"name": "certs", "mountPath": "/certs"})
    body["spec"]["containers"].insert(0, PROXY)
    assert main_name(body["spec"]) == main
    assert (read(body).containers.succeeded, read(body).made.restartable) == (True, True)


def test_a_pod_without_status_or_owner_has_defaults() -> None:
    body = {"metadata": {"name": "stray"}}
    found = read(body)
    assert (found.rank, found.phase, found.owner, found.containers.failures) == (
        -1,
        "Pending",
        "",
        0,
    )
    assert read(manifest(job())).owner == OWNER


@pytest.mark.parametrize(
    ("policy", "image"),
    [("IfNotPresent", "my/image:1"), ("Never", "my/image:1"), ("Always", "")],
)
def test_the_image_that_a_node_can_start_without_the_registry(policy: str, image: str) -> None:
    body = pod_body()
    main = next(c for c in body["spec"]["containers"] if c["name"] == names.MAIN_CONTAINER)
    main |= {"image": "my/image:1", "imagePullPolicy": policy}
    assert read(body).made.image == image


def test_an_init_container_of_the_template_may_need_another_image_first() -> None:
    body = pod_body()
    body["spec"]["initContainers"].insert(0, {"name": "fetch", "image": "another:1"})
    assert read(body).made.image == ""


OTHERS: dict[str, dict[str, Any]] = {
    "another namespace": {"namespace": "theirs"},
    "no such kind": {"apiVersion": "v9", "kind": "Nothing"},
    "another group": {"apiVersion": "other.example/v2alpha1"},
    "another kind": {"kind": "Job"},
    "another name": {"name": "other"},
    "no controller": {"controller": False},
}


@pytest.mark.parametrize("forged", OTHERS.values(), ids=OTHERS)
def test_a_pod_belongs_to_a_job_only_if_the_complete_reference_matches(
    forged: dict[str, Any],
) -> None:
    body = pod_body(1)
    assert parse.parse_pod(body).owner == OWNER
    body["metadata"]["namespace"] = forged.pop("namespace", "ns")
    body["metadata"]["ownerReferences"][0] |= forged
    assert parse.parse_pod(body).owner != OWNER
    assert parse.parse_child(body).owner != OWNER


def test_when_the_program_of_a_pod_has_started() -> None:
    assert (
        view(0).has_started,
        view(0, started=STARTED).has_started,
        view(0, ended=STARTED).has_started,
    ) == (
        False,
        True,
        True,
    )
    assert names.owner_key("ns", "job", UID) == OWNER
