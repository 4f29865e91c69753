"""Why a pod cannot start, quoted from its own status, and for which pods events are read."""

import pytest
from dijob import names
from dijob.core.observed.unexplained import unexplained_pods
from samples.builders import Body, later, pod_body, read, view
from samples.statuses import condition, looping, main_status, terminated


def waiting(
    reason: str, message: str = "", name: str = names.MAIN_CONTAINER, image: str = ""
) -> Body:
    return main_status(
        name=name, image=image, state={"waiting": {"reason": reason, "message": message}}
    )


def unscheduled(message: str) -> Body:
    found = condition("PodScheduled", "False", reason="Unschedulable", message=message)
    return {"conditions": [found]}


# Messages of kubelet 1.34 and containerd 2.
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
    "unschedulable": (unscheduled("0/2 nodes"), "Unschedulable: 0/2 nodes"),
    "a claim that does not exist": (
        unscheduled('0/3 nodes are available: persistentvolumeclaim "x" not found. not found'),
        'Unschedulable: 0/3 nodes are available: persistentvolumeclaim "x" not found',
    ),
    "no room": (
        unscheduled("0/2 nodes are available: 2 Insufficient cpu. preemption: no victims found."),
        "Unschedulable: 0/2 nodes are available: 2 Insufficient cpu. preemption: no victims found.",
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
    "image, without a message": (
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
    "crash loop with the cause": (
        {"containerStatuses": [looping(1)]},
        "container di-container exited 1: boom, and restarts after a back-off (CrashLoopBackOff)",
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
def test_a_complaint_quotes_the_cluster(status: Body, complaint: str) -> None:
    shown = pod_body(**status)
    for one in (*status.get("initContainerStatuses", ()), *status.get("containerStatuses", ())):
        if image := one.get("image"):
            set_image(shown, one["name"], image)
    assert read(shown).complaint == complaint


def set_image(pod: Body, container: str, image: str) -> None:
    """`kubectl set image`: the spec has the new image at once."""
    every = (*pod["spec"]["initContainers"], *pod["spec"]["containers"])
    next(one for one in every if one["name"] == container)["image"] = image


@pytest.mark.parametrize("message", ['Back-off pulling image "nope:1"', PULL])
def test_a_complaint_about_an_image_names_the_image_of_the_spec(message: str) -> None:
    """After `kubectl set image`, the container's status still has the image that ran before."""
    old = waiting("ImagePullBackOff", message, image="docker.io/library/old:1")
    shown = pod_body(phase="Running", containerStatuses=[old])
    set_image(shown, names.MAIN_CONTAINER, "nope:1")
    told = "container di-container: ImagePullBackOff: image nope:1 cannot be pulled"
    assert read(shown).complaint in (told, f"{told}: not found")


QUEUED = {"node": "", "unacknowledged": "scheduler default-scheduler"}
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
        ({**QUEUED, "prerequisites": ("the ResourceClaim x",)}, 3, True),
        ({**QUEUED, "group": "g", "prerequisites": ("the PodGroup g",)}, 3, False),
        ({**QUEUED, "group": "g", "prerequisites": ("the claim", "the PodGroup g")}, 3, True),
    ],
    ids=[
        *("silent", "young", "has-address", "no-node", "says-why", "no-date"),
        *("no-claim", "no-group", "no-claim-and-no-group"),
    ],
)
def test_events_are_read_only_for_pods_without_a_reason(
    fields: Body, seconds: float, asked: bool
) -> None:
    pod = view(0, **{**SILENT, **fields})
    assert unexplained_pods([pod], later(seconds)) == ((pod,) if asked else ())
