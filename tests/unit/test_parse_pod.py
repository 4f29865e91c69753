"""What is read from a pod as the apiserver shows it: what counts as a failure, a success, a
complaint.
"""

from typing import Any

import pytest
from dijob import names
from dijob.core.addresses import AddressList
from dijob.core.observed.containers import Ending
from dijob.core.observed.made import main_name
from dijob.core.observed.views import unexplained
from unit.builders import (
    OWNER,
    Body,
    container,
    job,
    later,
    main_status,
    manifest,
    pod_body,
    read,
    terminated,
    view,
)

RUNNING: Body = {"running": {}}
TWO = {"containers": [container(), {"name": "side", "image": "s"}]}


CLUSTERS_REASONS = (
    "OutOfcpu",
    "OutOfmemory",
    "OutOfpods",
    "UnexpectedAdmissionError",
    "NodeAffinity",
    "TaintToleration",
    "NodeShutdown",
    "Terminated",
)


def condition(type_: str, status: str = "True", **words: str) -> Body:
    return {"type": type_, "status": status, **words}


def gate(**states: Any) -> Body:
    return main_status(name=names.GATE_CONTAINER, **states)


def looping(code: int, restarts: int = 1) -> Body:
    waiting = {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 10s"}}
    return main_status(restarts, state=waiting, lastState=terminated(code, message="boom"))


# Restarts, and an end that was not followed by a start yet; the gate never; disruptions are not
# counted here but not charged by the ledger.
FAILURES: dict[str, tuple[Body, int]] = {
    "nothing yet": ({}, 0),
    "runs": ({"containerStatuses": [main_status(state=RUNNING)]}, 0),
    "runs again": (
        {"containerStatuses": [main_status(2, state=RUNNING, lastState=terminated(1))]},
        2,
    ),
    "down": ({"containerStatuses": [main_status(2, state=terminated(1))]}, 3),
    "crash loop": ({"containerStatuses": [looping(1)]}, 2),
    "waits before its first start": (
        {"containerStatuses": [main_status(state={"waiting": {}})]},
        0,
    ),
    "exited 0": ({"containerStatuses": [main_status(state=terminated(0))]}, 0),
    "exited 0 after restarts": ({"containerStatuses": [main_status(2, state=terminated(0))]}, 2),
    "sidecar down": (
        {
            "containerStatuses": [
                main_status(state=RUNNING),
                main_status(name="side", state=terminated(1)),
            ]
        },
        1,
    ),
    "sidecar crashes after the main container's success": (
        {
            "containerStatuses": [
                main_status(1, state=terminated(0)),
                {**looping(1, 5), "name": "side"},
            ]
        },
        1,
    ),
    "init container fails": ({"initContainerStatuses": [{**looping(1), "name": "init"}]}, 2),
    "init container ran again": (
        {"initContainerStatuses": [main_status(1, "init", state=terminated(0))]},
        0,
    ),
    "gate restarted": (
        {"initContainerStatuses": [{**looping(1), "name": names.GATE_CONTAINER}]},
        0,
    ),
    "failed without a word": ({"phase": "Failed"}, 1),
    "failed and down": (
        {"phase": "Failed", "containerStatuses": [main_status(state=terminated(1))]},
        1,
    ),
}


@pytest.mark.parametrize(("status", "count"), FAILURES.values(), ids=FAILURES)
def test_failures_are_counted_once_each(status: Body, count: int) -> None:
    assert read(pod_body(**status)).containers.failures == count


SUCCEEDED: dict[str, tuple[Body, bool]] = {
    "runs": ({"containerStatuses": [main_status(state=RUNNING)]}, False),
    "main exited 0, sidecar runs": (
        {
            "containerStatuses": [
                main_status(state=terminated(0)),
                main_status(name="side", state=RUNNING),
            ]
        },
        True,
    ),
    "sidecar exited 0, main runs": (
        {
            "containerStatuses": [
                main_status(state=RUNNING),
                main_status(name="side", state=terminated(0)),
            ]
        },
        False,
    ),
    "phase says so": ({"phase": "Succeeded"}, True),
    "exited 1": ({"containerStatuses": [main_status(state=terminated(1))]}, False),
    "exited 0 because it was evicted": (
        {
            "containerStatuses": [main_status(state=terminated(0))],
            "conditions": [condition("DisruptionTarget")],
        },
        False,
    ),
    "sidecar failed the pod": (
        {
            "phase": "Failed",
            "containerStatuses": [
                main_status(state=terminated(0)),
                main_status(name="side", state=terminated(1)),
            ],
        },
        True,
    ),
}


@pytest.mark.parametrize(("status", "succeeded"), SUCCEEDED.values(), ids=SUCCEEDED)
def test_a_rank_succeeds_when_its_main_container_exits_0_by_itself(
    status: Body, succeeded: bool
) -> None:
    found = read(pod_body(owner=job(TWO), **status))
    assert found.containers.succeeded is succeeded
    assert not (found.containers.succeeded and found.failed)


def test_an_exit_on_demand_is_no_success() -> None:
    body = pod_body(containerStatuses=[main_status(state=terminated(0))])
    body["metadata"]["deletionTimestamp"] = "2026-05-04T12:00:00Z"
    assert (read(body).containers.succeeded, read(body).deleting) == (False, True)


@pytest.mark.parametrize(
    ("status", "disrupted"),
    [
        ({"conditions": [condition("DisruptionTarget")]}, True),
        ({"conditions": [condition("DisruptionTarget", "False")]}, False),
        *(({"phase": "Failed", "reason": reason}, True) for reason in CLUSTERS_REASONS),
        ({"phase": "Failed", "reason": "Evicted"}, False),
        ({"phase": "Failed", "reason": "DeadlineExceeded"}, False),
        ({"phase": "Failed"}, False),
    ],
    ids=lambda value: str(value)[:60],
)
def test_the_clusters_doing_is_told_from_the_programs(status: Body, disrupted: bool) -> None:
    assert read(pod_body(**status)).placement.disrupted is disrupted


@pytest.mark.parametrize(
    ("policy", "code", "failed"),
    [("Never", 1, True), ("Never", 0, False), ("OnFailure", 1, False)],
    ids=["never", "never-and-well", "on-failure"],
)
def test_under_never_a_sidecar_does_not_hide_that_the_main_container_failed(
    policy: str, code: int, failed: bool
) -> None:
    statuses = [main_status(state=terminated(code)), main_status(name="side", state=RUNNING)]
    owner = job({**TWO, "restartPolicy": policy})
    assert read(pod_body(owner=owner, phase="Running", containerStatuses=statuses)).failed is failed


@pytest.mark.parametrize(
    ("phase", "ready_to_start", "sandbox"),
    [
        ("Running", "False", False),
        ("Running", "True", True),
        ("Pending", "False", True),
        ("Failed", "False", True),
    ],
)
def test_a_sandbox_that_died_under_a_running_pod_is_seen(
    phase: str, ready_to_start: str, sandbox: bool
) -> None:
    conditions = [condition("PodReadyToStartContainers", ready_to_start)]
    assert read(pod_body(phase=phase, conditions=conditions)).containers.sandbox is sandbox


@pytest.mark.parametrize(
    ("made", "began", "sandbox"),
    [
        ("2026-05-04T12:00:00Z", "2026-05-04T12:00:01Z", True),
        ("2026-05-04T12:00:01Z", "2026-05-04T12:00:01Z", True),
        ("2026-05-04T12:00:12Z", "2026-05-04T12:00:01Z", False),
        ("2026-05-04T12:00:12Z", "", True),
        ("", "2026-05-04T12:00:01Z", True),
    ],
    ids=["before it", "with it", "after it", "nothing runs", "no time is said"],
)
def test_a_container_that_ran_before_its_sandbox_was_made_has_died_with_another(
    made: str, began: str, sandbox: bool
) -> None:
    """Kubelet 1.37 and containerd 2.4, while the gate waits in the new one."""
    ready = condition("PodReadyToStartContainers", lastTransitionTime=made)
    main = main_status(state={"running": {"startedAt": began}})
    shown = pod_body(phase="Running", conditions=[ready], containerStatuses=[main])
    assert read(shown).containers.sandbox is sandbox


@pytest.mark.parametrize("ips", [("10.0.0.1", "fd00::1"), ("fd00::1", "10.0.0.1")])
def test_of_two_addresses_the_first_is_the_pods(ips: tuple[str, str]) -> None:
    """Dual stack: status.podIP, the first of status.podIPs, is of the node's first family."""
    both = [{"ip": ip} for ip in ips]
    assert read(pod_body(podIP=ips[0], podIPs=both)).ip == ips[0]


@pytest.mark.parametrize(
    ("ip", "code", "sandbox"), [("", 255, False), ("10.0.0.1", 255, True), ("", 0, True)]
)
def test_a_container_that_ended_and_has_no_address_any_more_went_with_its_sandbox(
    ip: str, code: int, sandbox: bool
) -> None:
    """Kubelet 1.37, after its node was without power for a moment: it says that the new sandbox is
    there before it says which address that has.
    """
    shown = pod_body(
        phase="Running",
        podIP=ip,
        conditions=[condition("PodReadyToStartContainers")],
        containerStatuses=[main_status(state=terminated(code))],
    )
    assert read(shown).containers.sandbox is sandbox


def test_a_sandbox_of_which_nothing_is_said_is_there() -> None:
    assert read(pod_body(phase="Running")).containers.sandbox


ENDINGS: dict[str, tuple[Body, Ending | None]] = {
    "none": ({"containerStatuses": [main_status(state=RUNNING)]}, None),
    "main": (
        {"containerStatuses": [main_status(state=terminated(3, message=" so \n"))]},
        Ending(3, 0, "Error", "so"),
    ),
    "main, before this start": (
        {"containerStatuses": [main_status(1, state=RUNNING, lastState=terminated(1))]},
        Ending(1, 0, "Error", ""),
    ),
    "signal": (
        {"containerStatuses": [main_status(state=terminated(137))]},
        Ending(137, 9, "Error", ""),
    ),
    "signal in words": (
        {"containerStatuses": [main_status(state=terminated(1, signal=15))]},
        Ending(1, 15, "Error", ""),
    ),
    "no signal": (
        {"containerStatuses": [main_status(state=terminated(255))]},
        Ending(255, 0, "Error", ""),
    ),
    "an init container": (
        {
            "initContainerStatuses": [
                main_status(1, "init", state={"waiting": {}}, lastState=terminated(7))
            ],
            "containerStatuses": [main_status(state={"waiting": {}})],
        },
        Ending(7, 0, "Error", ""),
    ),
    "a sidecar, the main container having ended well": (
        {
            "containerStatuses": [
                main_status(state=terminated(0)),
                main_status(name="side", state=terminated(4)),
            ]
        },
        Ending(4, 0, "Error", ""),
    ),
}


@pytest.mark.parametrize(("status", "ending"), ENDINGS.values(), ids=ENDINGS)
def test_the_ending_is_that_of_who_failed(status: Body, ending: Ending | None) -> None:
    assert read(pod_body(**status)).containers.last_end == ending


def waiting(
    reason: str, message: str = "", name: str = names.MAIN_CONTAINER, image: str = ""
) -> Body:
    return main_status(
        name=name, image=image, state={"waiting": {"reason": reason, "message": message}}
    )


# As kubelet 1.34 and containerd 2 say it.
PULL = (
    'Back-off pulling image "nope:1": ErrImagePull: rpc error: code = NotFound desc = failed to'
    ' pull and unpack image "docker.io/library/nope:1": failed to resolve reference'
    ' "docker.io/library/nope:1": docker.io/library/nope:1: not found'
)


COMPLAINTS: dict[str, tuple[Body, str]] = {
    "on its way": (
        {"containerStatuses": [waiting("PodInitializing"), waiting("ContainerCreating")]},
        "",
    ),
    "unschedulable": (
        {
            "conditions": [
                condition("PodScheduled", "False", reason="Unschedulable", message="0/2 nodes")
            ]
        },
        "Unschedulable: 0/2 nodes",
    ),
    "image": (
        {"containerStatuses": [waiting("ImagePullBackOff", PULL, image="nope:1")]},
        "container di-container: ImagePullBackOff: image nope:1 cannot be pulled: not found",
    ),
    "image, just tried": (
        {
            "containerStatuses": [
                waiting("ErrImagePull", PULL.partition(": ErrImagePull: ")[2], image="nope:1")
            ]
        },
        "container di-container: ImagePullBackOff: image nope:1 cannot be pulled: not found",
    ),
    "image, and nothing is said": (
        {
            "containerStatuses": [
                waiting("ImagePullBackOff", 'Back-off pulling image "nope:1"', image="nope:1")
            ]
        },
        "container di-container: ImagePullBackOff: image nope:1 cannot be pulled",
    ),
    "image of the gate, which is the user's": (
        {
            "initContainerStatuses": [
                waiting("ErrImagePull", PULL, names.GATE_CONTAINER, "nope:1")
            ],
            "containerStatuses": [waiting("PodInitializing", image="nope:1")],
        },
        "container di-container: ImagePullBackOff: image nope:1 cannot be pulled: not found",
    ),
    "image of the gate, which is the operator's": (
        {
            "initContainerStatuses": [
                waiting("ErrImagePull", PULL, names.GATE_CONTAINER, "nope:1")
            ],
            "containerStatuses": [waiting("PodInitializing", image="mine:1")],
        },
        (
            f"container {names.GATE_CONTAINER}: ImagePullBackOff: image nope:1 cannot be pulled:"
            " not found"
        ),
    ),
    "image's name": (
        {
            "containerStatuses": [
                waiting("InvalidImageName", "couldn't parse image name", image="No:1")
            ]
        },
        "container di-container: InvalidImageName: couldn't parse image name",
    ),
    "crash loop says why it crashed": (
        {"containerStatuses": [looping(1)]},
        "container di-container exited 1: boom, and starts again after a pause (CrashLoopBackOff)",
    ),
    "down": (
        {"containerStatuses": [main_status(state=terminated(2))]},
        "container di-container exited 2",
    ),
    "ended well": ({"containerStatuses": [main_status(state=terminated(0))]}, ""),
    "failed": (
        {"phase": "Failed", "reason": "Evicted", "message": "low on memory"},
        "Evicted: low on memory",
    ),
    "failed in silence": ({"phase": "Failed"}, ""),
}


@pytest.mark.parametrize(("status", "complaint"), COMPLAINTS.values(), ids=COMPLAINTS)
def test_a_complaint_is_in_the_clusters_own_words(status: Body, complaint: str) -> None:
    assert read(pod_body(**status)).complaint == complaint


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
def test_annotations_that_anybody_can_edit_hurt_nobody(text: str) -> None:
    """One pod that raises here would stop the watch of all pods of all jobs."""
    body = pod_body()
    body["metadata"]["annotations"][names.ANNOTATION_LIST_NUMBER] = text
    assert read(body).copy.address_list.number == 0


def test_a_gate_that_runs_is_seen() -> None:
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
# Status of the init containers; whether the rank counts, and since when.
ARRIVALS: dict[str, tuple[dict[str, Body], bool, str]] = {
    "nothing yet": ({}, False, ""),
    "the launcher comes": ({"dijob-launcher": RUNS, "dijob-gate": WAITS}, False, ""),
    "its image is pulled": ({"dijob-launcher": OVER, "dijob-gate": WAITS}, False, ""),
    "the gate runs": ({"dijob-launcher": OVER, "dijob-gate": RUNS}, True, NOON),
    "the gate is over": ({"dijob-launcher": OVER, "dijob-gate": OVER}, True, ELEVEN),
    # It may wait for the program of another rank, which waits for the list.
    "an own one runs": ({"own": RUNS, "dijob-launcher": WAITS, "dijob-gate": WAITS}, True, ""),
}


@pytest.mark.parametrize(("states", "arrived", "since"), ARRIVALS.values(), ids=ARRIVALS)
def test_a_rank_counts_once_its_image_is_there(
    states: dict[str, Body], arrived: bool, since: str
) -> None:
    given = [main_status(name=name, state=state) for name, state in states.items()]
    waits = [main_status(state=WAITS)]
    found = read(pod_body(podIP="10.0.0.1", initContainerStatuses=given, containerStatuses=waits))
    assert (found.has_arrived, found.containers.gate_started) == (arrived, since)


def test_a_program_that_runs_is_there_whoever_has_taken_the_gate_away() -> None:
    assert read(pod_body(podIP="10.0.0.1", containerStatuses=[main_status(state=RUNS)])).has_arrived


@pytest.mark.parametrize("key", [names.LABEL_JOB, names.LABEL_RANK])
def test_labels_that_somebody_has_changed_are_seen(key: str) -> None:
    body = pod_body(1)
    assert read(body).recognized
    body["metadata"]["labels"][key] = "other"
    assert not read(body).recognized


def test_what_the_operator_wrote_is_read_back() -> None:
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
def test_the_main_container_is_the_templates_whatever_is_injected(
    given: list[Body], main: str
) -> None:
    """It ended although the proxy runs on: the rank has succeeded, and its launcher can still start
    it again.
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


SILENT = {"ip": "", "created": "2026-05-04T12:00:00Z"}


@pytest.mark.parametrize(
    ("fields", "seconds", "asked"),
    [
        ({}, 3, True),
        ({}, 2, False),
        ({"ip": "10.0.0.1"}, 3, False),
        ({"node": ""}, 3, False),
        ({"complaint": "ImagePullBackOff"}, 3, False),
        ({"created": "yesterday"}, 3, False),
    ],
    ids=["silent", "young", "has-address", "no-node", "says-why", "no-date"],
)
def test_only_a_silent_pod_is_asked_after(fields: Body, seconds: float, asked: bool) -> None:
    pod = view(0, **{**SILENT, **fields})
    assert unexplained([pod], later(seconds)) == ((pod,) if asked else ())


def test_a_pod_without_status_or_owner_is_read_as_nothing_known() -> None:
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
def test_the_image_that_a_node_needs_no_registry_for(policy: str, image: str) -> None:
    body = pod_body()
    main = next(c for c in body["spec"]["containers"] if c["name"] == names.MAIN_CONTAINER)
    main |= {"image": "my/image:1", "imagePullPolicy": policy}
    assert read(body).made.image == image


def test_an_init_container_of_the_templates_own_may_need_another_image_first() -> None:
    body = pod_body()
    body["spec"]["initContainers"].insert(0, {"name": "fetch", "image": "another:1"})
    assert read(body).made.image == ""
