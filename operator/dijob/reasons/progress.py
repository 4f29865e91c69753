"""Reasons of the conditions about a job on its way: its pods, their addresses, whether they run."""

from typing import Final

from dijob.reasons.catalogue import (
    EventType,
    Reason,
    finished,
    good,
    problem,
    suspended,
    terminating,
    waiting,
)

_HEALS: Final = "nothing: the job heals by itself"
_GOES: Final = (
    f"{_HEALS}. The failed pod goes with its log; `status.firstFailure` keeps the job's first"
    " failure"
)


class PodsCreated(Reason):
    """Whether every rank that the job wants has its pod."""

    Creating = waiting("in progress; the message counts the pods that exist")
    BackOff = problem(
        "a pod was lost several times in a row, each time within 10 min: the operator waits 4, 8,"
        " 16 ... 60 s before it creates the pod again. The message says when",
        "find out what deletes the pod; the job goes on by itself",
    )
    WaitingForOldPod = waiting(
        "the pod of a deleted job of the same name, or a deleted pod of this one, is still ending",
        "wait for it; the message says what keeps that pod: a container, and until when it may"
        " run, or a finalizer, which its controller must remove",
    )
    PodNameTaken = problem(
        "a pod of that name belongs to somebody else, whom the message names if the pod does; it is"
        " never touched",
        "delete or rename that pod, or give the job another name",
    )
    PodRejected = problem(
        "the apiserver refuses the pod as it is written; its words are in the message. Asked again"
        " every 5 min",
        "correct the template while the job is suspended (`spec.suspend: true`), or replace the job"
        " (`kubectl dijob restart NAME -f FILE`)",
    )
    PodForbidden = problem(
        "rejected for now: a service account, priority class or runtime class that does not exist"
        " yet, a quota, a policy. Asked again after 1, 2, 4 ... s, at the latest after 30 s",
        "create what is missing or make room in the quota; the job goes on by itself",
    )
    ApiUnavailable = problem(
        "the apiserver, or a webhook that it asks, does not answer. Asked again after 1, 2, 4 ..."
        " 60 s",
        "nothing; if it lasts: look after the control plane",
    )
    Suspended = suspended()
    Terminating = terminating()
    AllCreated = good("every rank has its pod")


class AddressesReady(Reason):
    """Whether the ranks have a list of addresses that is true."""

    Gathering = waiting("in progress; the message names the ranks without an address")
    AddressMissing = problem(
        "a rank cannot get an address; the message says why in the cluster's words: unschedulable,"
        " image, mount; or which node or scheduler has not taken its pod within 10 s",
        "do what the message asks for; the job goes on by itself",
    )
    NoRoom = problem(
        "nobody of the job runs, and a rank below `minReplicas` found no node, or no room in a"
        " quota, within `scheduleTimeoutSeconds`: the job deletes its pods that have a node, as"
        " other pods wait for one. Pods without a node stay, so that a cluster autoscaler adds"
        " nodes for them. The message says when it tries again",
        "add nodes, raise the quota, ask for less, or lower `minReplicas`",
    )
    Publishing = waiting("the list is being written to the pods")
    BrokerNotReady = waiting(
        "every rank has its address, and the job's Redis server is not Ready yet",
        "see BrokerReady",
    )
    Published = good(
        "the list with the number that the message names is written to the pods; it also says which"
        " ranks join later, and why",
    )
    PodLost = problem("the pod of a rank is gone", f"{_HEALS}; if it repeats: see who deletes pods")
    PodDeleted = problem(
        "the pod of a rank is being deleted, evicted or preempted; the message says what keeps it",
        f"{_HEALS}, as soon as the old pod is gone. If the message names a finalizer: make the"
        " controller that set it remove it",
    )
    PodFailed = problem(
        "a rank failed with its pod; charged to `backoffLimit`, save disruptions and what a rule"
        " ignores. Or it crashed in its pod and cannot begin again without the ranks that the"
        " message names: they have succeeded, and begin again with it (`runtime: torch`)",
        _GOES,
    )
    SandboxLost = problem(
        "a pod's sandbox died, and its address with it: its node started again", _HEALS
    )
    AddressChanged = problem(
        "a pod has another address than the list says: its sandbox was re-created", _HEALS
    )
    NotRestarted = problem(
        "a rank should have restarted in its pod, and did not within its grace period and 15 s:"
        " its pod is re-created",
        f"{_HEALS}, but sooner if the command passes TERM on (`exec` in a shell script)",
    )
    BrokerLost = problem(
        "the job's own Redis server was lost, or has started again: all ranks begin anew with the"
        " new one, and are not charged",
        f"{_HEALS}; if it repeats: see why its pod, JOB-mq, ends",
    )
    ListLost = problem(
        "the pods' addresses are not those of the newest list any more: all ranks are renewed",
        _HEALS,
    )
    Scaled = waiting("another size, with `restart.scope: Job`: all ranks are renewed in it")
    FailurePolicy = problem(
        "a rule of `failurePolicy`, or the runtime, says RestartJob: all ranks are renewed. The"
        " message names those that had succeeded and begin again too",
        _GOES,
    )
    Suspended = suspended()
    Terminating = terminating()


class Running(Reason):
    """Whether the job has begun: all ranks of the list were Ready at once. It stays True while a
    process starts again in its pod, and while some ranks are renewed and others run on.
    """

    Starting = waiting(
        "the message names the ranks that are not Ready yet, or says that addresses are missing"
    )
    Blocked = problem(
        "a rank cannot start: its image cannot be pulled, it crashes; the message says why in the"
        " cluster's words",
        "correct the image or the command; the log of the rank's pod says more",
    )
    Begun = good("the job has begun; the event says after how long", event=EventType.NORMAL)
    Renewing = waiting("every rank is being restarted; AddressesReady says why")
    Suspended = suspended()
    Terminating = terminating()
    Finished = finished()


class PeersReady(Reason):
    """Whether every rank is Ready now and has the newest list. The one to wait for after a loss."""

    Starting = waiting(
        "the job has not begun, or the message names ranks that are not Ready yet, for less than a"
        " minute"
    )
    AllRanksReady = good(
        "every rank is Ready, and knows the newest list; the event comes only after the job has"
        " begun, and gives the seconds",
        event=EventType.NORMAL,
    )
    RankNotReady = problem(
        "a rank of a running job crashed and starts again, or cannot start, or has not been Ready"
        " for a minute: its readiness probe fails, its program runs without a peer that it waited"
        " for, or its node is silent",
        f"{_HEALS}; if it repeats: see the log of the rank that the message names",
    )
    LauncherBypassed = waiting(
        "every rank is Ready, but programs of the job may know no peers",
        "do what the condition LauncherBypassed says",
    )
    Renewing = waiting(
        "the message says which rank was lost, what happened to it, and which ranks are renewed;"
        " then which of them still end their programs, and how long they have for it"
        " (terminationGracePeriodSeconds)",
    )
    Suspended = suspended()
    Terminating = terminating()
    Finished = finished()
