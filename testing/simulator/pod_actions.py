"""What can happen to a pod: actions of its kubelet, and faults."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from dijob import names

from simulator.cluster import Cluster, Nodes
from simulator.kubelet import SimPod

FORGED = "77"  # a forged number in an annotation


class Surroundings(Protocol):
    """What an action needs in addition to the pod."""

    cluster: Cluster
    exact: bool
    nodes: Nodes


@dataclass(frozen=True)
class Deed:
    """Something that can be done to a pod, and the pods to which it applies."""

    possible: Callable[[SimPod], bool]
    do: Callable[[Surroundings, SimPod], object]


def crash(pod: SimPod, main: bool) -> None:
    boxes = [box for box in pod.boxes if box.state == "running"]
    pod.end(pod.main if main and pod.main in boxes else boxes[-1], 1)


def fail_for_good(pod: SimPod) -> None:
    """Make a pod permanently Failed, as after the user's own deadline or after the failure of an
    init container with restartPolicy Never. This can happen even before the first peer list is
    published.
    """
    pod.crashes += max(1, sum(box.state == "running" for box in pod.boxes))
    pod.kill("DeadlineExceeded")


def lose_sandbox(chaos: Surroundings, pod: SimPod) -> None:
    """End the sandbox. With restartPolicy Never, the pod fails and gets no new sandbox."""
    chaos.exact = False
    pod.kill()


def taint(chaos: Surroundings, pod: SimPod) -> None:
    pod.disrupted = True
    chaos.cluster.report(pod)
    chaos.cluster.delete(pod)


def cut_off(chaos: Surroundings, pod: SimPod) -> None:
    taint(chaos, pod)
    pod.silent, pod.ready = True, False


def evict(pod: SimPod) -> None:
    pod.disrupted = True
    pod.kill("Evicted")


def collect(chaos: Surroundings, pod: SimPod) -> None:
    """Garbage-collect dead containers. If this happens after a container is created and before
    it starts, a kubelet keeps only the new container.
    """
    pod.main.collected = True


def block(pod: SimPod) -> None:
    """Block connections to the operator, for example with a NetworkPolicy."""
    pod.hang_up()
    pod.blocked = True


def placed(pod: SimPod) -> bool:
    return pod.sandbox and not pod.done


def running(pod: SimPod) -> bool:
    return pod.process is not None


def alive(pod: SimPod) -> bool:
    return any(box.state == "running" for box in pod.boxes)


KUBELET = {
    "places it": Deed(
        lambda pod: not (pod.sandbox or pod.done or pod.deleting),
        lambda c, pod: c.nodes.place(pod, False),
    ),
    "reuses an address": Deed(
        lambda pod: not (pod.sandbox or pod.done or pod.deleting),
        lambda c, pod: c.nodes.place(pod, True),
    ),
    "has its image": Deed(
        lambda pod: placed(pod) and not pod.imaged, lambda c, pod: setattr(pod, "imaged", True)
    ),
    "starts it": Deed(lambda pod: bool(pod.startable()), lambda c, pod: c.nodes.start(pod)),
    "launcher connects": Deed(
        lambda pod: pod.reports and not pod.blocked, lambda c, pod: c.cluster.talk(pod)
    ),
    "launcher starts it": Deed(lambda pod: pod.launchable, lambda c, pod: c.nodes.launch(pod)),
    "launcher renews it": Deed(lambda pod: pod.due, lambda c, pod: pod.renew()),
    "finds it ready": Deed(
        lambda pod: running(pod) and not pod.silent, lambda c, pod: setattr(pod, "ready", True)
    ),
    "collects its record": Deed(lambda pod: running(pod) and pod.main.restarts > 0, collect),
    "ends it": Deed(
        lambda pod: (pod.deleting or pod.overdue) and not pod.silent,
        lambda c, pod: c.nodes.end(pod),
    ),
}


def forge(chaos: Surroundings, pod: SimPod) -> None:
    """Edit one of the operator's labels and one of its annotations on a pod by hand."""
    meta = {
        "labels": {names.LABEL_JOB: "another"},
        "annotations": {names.ANNOTATION_NUM_NODES: FORGED},
    }
    chaos.cluster.patch("pods", pod.name, {"metadata": meta})


def write(annotations: dict[str, str]) -> Deed:
    """Write annotations by hand, although only the operator should write them."""
    patch = {"metadata": {"annotations": annotations}}
    return Deed(
        lambda pod: not pod.deleting, lambda c, pod: c.cluster.patch("pods", pod.name, patch)
    )


# A revision above all others, and a list with addresses of other pods.
LURE = {
    names.ANNOTATION_LIST_NUMBER: "999999999999999",
    names.ANNOTATION_IPS: ",".join(["10.6.6.6"] * 3),
}
# Not part of the random faults: a program that starts before the repair uses the forged values.
FORGERY = {
    "its list is forged": write(LURE),
    "its renewal is forged": write({names.ANNOTATION_RENEW: "777"}),
    "its label is taken off": Deed(
        lambda pod: not pod.deleting,
        lambda c, pod: c.cluster.patch(
            "pods", pod.name, {"metadata": {"labels": {names.MANAGED_BY: None}}}
        ),
    ),
}
FATE = {
    "its labels are forged": Deed(lambda pod: not pod.deleting, forge),
    "main crashes": Deed(alive, lambda c, pod: crash(pod, main=True)),
    "a container crashes": Deed(alive, lambda c, pod: crash(pod, main=False)),
    "succeeds": Deed(running, lambda c, pod: pod.end(pod.main, 0)),
    "is evicted": Deed(placed, lambda c, pod: evict(pod)),
    "loses its node": Deed(placed, taint),
    "is cut off with its node": Deed(placed, cut_off),
    "loses its sandbox": Deed(placed, lose_sandbox),
    "fails for good": Deed(placed, lambda c, pod: fail_for_good(pod)),
    "makes progress": Deed(
        lambda pod: running(pod) and pod.reports, lambda c, pod: pod.make_progress()
    ),
    "loses its connection": Deed(lambda pod: pod.link is not None, lambda c, pod: pod.hang_up()),
    "cannot connect": Deed(lambda pod: pod.reports, lambda c, pod: block(pod)),
    "hears of no renewal": Deed(running, lambda c, pod: setattr(pod, "stuck", True)),
    "is deleted by hand": Deed(lambda pod: not pod.deleting, lambda c, pod: c.cluster.delete(pod)),
}
