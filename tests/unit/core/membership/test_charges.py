"""Failure accounting over the life of a pod, from the statuses that its kubelet writes one after
the other (1.34, pkg/kubelet).
"""

import pytest
from dijob import names
from dijob.api.status import Status
from dijob.core.membership import failures
from dijob.core.membership.policy import Policy
from samples.builders import NOW, Body, gang, observed, world_of
from samples.lives import LOW, TOO_MUCH, disruption, failed, seen, status
from samples.statuses import main_status, terminated

RUNNING: Body = {"state": {"running": {"startedAt": "2026-05-04T11:59:00Z"}}}

REJECTED = "Pod was rejected: "
ADMISSION = (
    ("OutOfcpu", "Node didn't have enough resource: cpu, requested: 100, used: 10, capacity: 50"),
    (
        "OutOfnvidia.com/gpu",
        "Node didn't have enough resource: nvidia.com/gpu, requested: 1, used: 0, capacity: 0",
    ),
    (
        "NodeAffinity",
        "Predicate NodeAffinity failed: node(s) didn't match Pod's node affinity/selector",
    ),
    ("NodeName", "Predicate NodeName failed: node(s) didn't match the requested node name"),
    (
        "NodePorts",
        "Predicate NodePorts failed: node(s) didn't have free ports for the requested pod ports",
    ),
    (
        "TaintToleration",
        "Predicate TaintToleration failed: node(s) had taints that the pod didn't tolerate",
    ),
    ("TopologyAffinityError", "Resources cannot be allocated with Topology locality"),
    ("SMTAlignmentError", "SMT Alignment Error: requested 3 cpus not multiple cpus per core = 2"),
    (
        "UnexpectedAdmissionError",
        "Allocate failed due to no healthy devices present, which is unexpected",
    ),
    (
        "PodOSSelectorNodeLabelDoesNotMatch",
        "Failed to admit pod as the `kubernetes.io/os` label doesn't match",
    ),
    ("PodOSNotSupported", "Failed to admit pod as the OS field doesn't match node OS"),
    ("InvalidNodeInfo", "Kubelet cannot get node info."),
    (
        "SupplementalGroupsPolicyNotSupported",
        "SupplementalGroupsPolicy=Strict is not supported in this node",
    ),
    ("AppArmor", "Cannot enforce AppArmor: AppArmor is not enabled on the host"),
    ("SysctlForbidden", 'forbidden sysctl: "kernel.msgmax" not allowlisted'),
    ("PodLevelResourcesNotSupported", "PodLevelResources feature gate is disabled"),
    ("VolumeAttachmentLimitExceeded", "Volume attachment limit exceeded"),
    ("Evicted", "The node had condition: [DiskPressure]. "),
    ("NodeShutdown", "Pod was rejected as the node is shutting down."),
    ("ThatSomeLaterKubeletSays", "no"),
)


def down(code: int, restarts: int = 0, name: str = names.MAIN_CONTAINER) -> Body:
    waiting = {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 10s"}}
    return main_status(restarts, name, state=waiting, lastState=terminated(code))


def again(code: int, restarts: int = 1, name: str = names.MAIN_CONTAINER) -> Body:
    return main_status(restarts, name, lastState=terminated(code), **RUNNING)


def lost(code: int, reason: str) -> Body:
    """Return a container whose end was not observed."""
    return {
        "terminated": {"exitCode": code, "reason": reason, "finishedAt": "2026-05-04T12:00:00Z"}
    }


UP, DONE = main_status(**RUNNING), main_status(name="init", state=terminated(0))
WAITS = main_status(state={"waiting": {"reason": "PodInitializing"}})
# containerd after a reboot (pkg/cri/server: unknownExitCode), and a kubelet that no longer finds
# the container.
CONTAINERD, NOWHERE = lost(255, "Unknown"), lost(137, "ContainerStatusUnknown")
KILLED = terminated(137)

# restartPolicy, the statuses in order, and how many failures they count.
LIVES: dict[str, tuple[str, list[Body], int]] = {
    **{
        f"rejected, {reason}": (
            "OnFailure",
            [{"phase": "Failed", "reason": reason, "message": REJECTED + said}],
            0,
        )
        for reason, said in ADMISSION
    },
    "rejected, with an older kubelet's message": (
        "OnFailure",
        [{"phase": "Failed", "reason": "NodePorts"}],
        0,
    ),
    "preempted for a critical pod": (
        "OnFailure",
        [failed(137, "Preempting", "Preempted in order to admit critical pod")],
        0,
    ),
    "its node shuts down": (
        "Never",
        [failed(143, "Terminated", "Pod was terminated in response to imminent")],
        0,
    ),
    "its node shuts down, an old kubelet": (
        "Never",
        [failed(143, "Shutdown", "Node is shutting down")],
        0,
    ),
    "evicted, the node was low": (
        "OnFailure",
        [failed(137, "Evicted", LOW, **disruption("TerminationByKubelet"))],
        0,
    ),
    **{
        f"evicted for its own disk, by the {what}": (
            policy,
            [status(UP), failed(137, "Evicted", said)],
            1,
        )
        for policy in ("OnFailure", "Never")
        for what, said in ((f"{one}, {policy}", words) for one, words in TOO_MUCH.items())
    },
    "evicted for its own disk use, with all containers": (
        "OnFailure",
        [
            status(
                main_status(state=KILLED),
                main_status(name="side", state=KILLED),
                init=(main_status(name="proxy", state=KILLED),),
                phase="Failed",
                reason="Evicted",
                message=TOO_MUCH["pod"],
            )
        ],
        1,
    ),
    "evicted for its own disk after a crash": (
        "OnFailure",
        [status(down(1)), failed(137, "Evicted", "x")],
        1,
    ),
    "its template's deadline": (
        "OnFailure",
        [failed(137, "DeadlineExceeded", "active longer than")],
        1,
    ),
    "a crash": ("OnFailure", [status(down(1)), status(again(1)), status(down(1, 1))], 2),
    "a crash under Never": ("Never", [status(main_status(state=terminated(1))), failed(1)], 1),
    "255 that the program said": ("Never", [failed(255)], 1),
    "137 that memory said": (
        "Never",
        [status(main_status(state=lost(137, "OOMKilled")), phase="Failed")],
        1,
    ),
    "rebooted under Never, containerd": (
        "Never",
        [status(main_status(state=CONTAINERD), phase="Failed")],
        0,
    ),
    "rebooted under Never, without the container": (
        "Never",
        [status(main_status(state=NOWHERE), phase="Failed")],
        0,
    ),
    "rebooted under Never, with a sidecar that holds the pod": (
        "Never",
        [status(main_status(state=CONTAINERD), main_status(name="side", **RUNNING))],
        0,
    ),
    "rebooted under Never while an init container ran": (
        "Never",
        [status(WAITS, init=(main_status(name="init", state=CONTAINERD),), phase="Failed")],
        0,
    ),
    "its own deadline, with the reason of the node": (
        "Never",
        [status(main_status(state=NOWHERE), phase="Failed", reason="DeadlineExceeded")],
        1,
    ),
    "a native sidecar ends with a failed pod, under Never": (
        "Never",
        [
            status(main_status(state=terminated(1)), init=(main_status(name="proxy", **RUNNING),)),
            failed(1, init=(main_status(name="proxy", state=KILLED),)),
        ],
        1,
    ),
    "a native sidecar that restarted, under Never": (
        "Never",
        [
            status(UP, init=(again(1, 3, "proxy"),)),
            failed(1, init=(main_status(3, "proxy", state=KILLED),)),
        ],
        1,
    ),
    "a native sidecar that ends after the others": (
        "OnFailure",
        [status(main_status(state=terminated(0)), init=(main_status(name="proxy", state=KILLED),))],
        0,
    ),
    "a native sidecar that crashes while the program runs": (
        "OnFailure",
        [status(UP, init=(down(1, 0, "proxy"),)), status(UP, init=(again(1, 1, "proxy"),))],
        0,
    ),
    "two containers under Never": (
        "Never",
        [
            status(
                main_status(state=terminated(1)),
                main_status(name="side", state=terminated(1)),
                phase="Failed",
            )
        ],
        1,
    ),
    "an init container under Never": (
        "Never",
        [status(WAITS, init=(main_status(name="init", state=terminated(1)),), phase="Failed")],
        1,
    ),
    "an init container, and then the program twice": (
        "OnFailure",
        [
            status(WAITS, init=(down(1, 0, "init"),), phase="Pending"),
            status(WAITS, init=(again(1, 1, "init"),), phase="Pending"),
            status(UP, init=(main_status(1, "init", state=terminated(0)),)),
            status(down(1), init=(main_status(1, "init", state=terminated(0)),)),
            status(again(1), init=(main_status(1, "init", state=terminated(0)),)),
            status(down(1, 1), init=(main_status(1, "init", state=terminated(0)),)),
        ],
        3,
    ),
    "an init container twice": (
        "OnFailure",
        [
            status(WAITS, init=(down(1, 0, "init"),), phase="Pending"),
            status(WAITS, init=(again(1, 1, "init"),), phase="Pending"),
            status(WAITS, init=(down(1, 1, "init"),), phase="Pending"),
        ],
        2,
    ),
}


@pytest.mark.parametrize(("policy", "life", "cost"), LIVES.values(), ids=LIVES)
def test_how_many_failures_a_pods_life_counts(policy: str, life: list[Body], cost: int) -> None:
    counted = failures.read_ledger(Status(), gang())
    for shown in life:
        world = world_of(
            gang(), observed(seen(policy, shown)), counted.into(Status(list_number=1)), NOW
        )
        counted = failures.with_failures(counted, world, Policy(gang()), NOW)
        # A failure counts once, even if a new operator has just read the count from the status.
        counted = failures.read_ledger(counted.into(Status(list_number=1)), gang())
        assert failures.with_failures(counted, world, Policy(gang()), NOW) == counted
    assert counted.restarts == cost
