"""Reasons of the conditions that show whether a job's pods exist, have addresses, and run."""

from typing import Final

from dijob.reasons.catalogue import (
    EventType,
    Reason,
    finished_entry,
    good,
    problem,
    suspended_entry,
    terminating_entry,
    waiting,
)

# `kubectl dijob doctor` recognizes this prefix, and replaces the remedy if an old pod blocks the
# recovery.
_HEALS: Final = "nothing: the job recovers by itself"
_GOES: Final = (
    f"{_HEALS}. The failed pod is deleted together with its log; `status.firstFailure` keeps the"
    " job's first failure"
)


class PodsCreated(Reason):
    """Whether every rank that the job wants has a pod."""

    Creating = waiting("pods are being created; the message says how many exist")
    BackOff = problem(
        "a pod was lost several times in a row, each time within 10 min of its creation. The"
        " operator waits 4, 8, 16 ... 60 s before it creates the pod again; the message says when",
        "find out what deletes the pod; the job continues by itself",
    )
    WaitingForOldPod = waiting(
        "an old pod of the same name is still terminating. It belongs to a deleted job of the same"
        " name, or to this job",
        "wait. The message says what blocks the deletion. A container may run until the time in the"
        " message. A finalizer must be removed by the controller that set it",
    )
    PodNameTaken = problem(
        "the name of a rank's pod is already used by a pod that does not belong to the job. The"
        " message says who owns that pod, if this is known. The operator never touches that pod",
        "delete that pod, or give the job another name",
    )
    PodRejected = problem(
        "the apiserver rejects the pod as invalid; the message quotes the API error. The operator"
        " retries every 5 min",
        "correct the template while the job is suspended (`spec.suspend: true`), or replace the job"
        " (`kubectl dijob restart NAME -f FILE`)",
    )
    PodForbidden = problem(
        "the apiserver rejects the pod for now: a service account, priority class or runtime class"
        " does not exist yet, or a quota or a policy forbids the pod. The operator retries after 1,"
        " 2, 4 ... 30 s",
        "create the missing object, or make room in the quota; the job then continues by itself",
    )
    ApiUnavailable = problem(
        "the apiserver, or a webhook that it calls, does not respond. The operator retries after"
        " 1, 2, 4 ... 60 s",
        "nothing; if the problem persists, check the control plane",
    )
    Suspended = suspended_entry()
    Terminating = terminating_entry()
    AllCreated = good("every rank has a pod")


class AddressesReady(Reason):
    """Whether the pods have a correct peer list, with the address of each rank."""

    Gathering = waiting(
        "the operator is waiting for the pods' addresses; the message names the ranks that have"
        " none yet"
    )
    AddressMissing = problem(
        "a rank cannot get an address. The message quotes the cluster's reason, for example an"
        " unschedulable pod, an image that cannot be pulled, or a volume that cannot be mounted."
        " If the cluster gives no reason, the message names the node or the scheduler that has not"
        " accepted the pod within 10 s",
        "remove the cause that the message names (for example, add a node that matches the pods,"
        " make room on the nodes, or push the image); the job continues by itself",
    )
    LauncherNotMounted = problem(
        "a node cannot mount the launcher's image in a pod, because its kubelet or its container"
        " runtime does not support image volumes. The operator re-creates the pod with an init"
        " container, which copies the launcher. This does not count against `backoffLimit`",
        f"{_HEALS}. Each time the operator restarts, it tries to mount the image again, and a start"
        " fails. To prevent this, set the chart value `launcher.delivery: InitContainer`",
    )
    NoRoom = problem(
        "no rank of the job is running, and a rank that must have an address before the job starts"
        " (`minReplicas`) found no node, or no room in a quota, within `scheduleTimeoutSeconds`. If"
        " a quota is full, the job deletes all its pods. Otherwise, it deletes only its pods that"
        " have a node, because pods outside the job are waiting for a node. It keeps the pods that"
        " have not been assigned to a node, so that a cluster autoscaler can add nodes for them."
        " The message says when the job tries again",
        "add nodes, raise the quota, request less, or lower `minReplicas`",
    )
    Publishing = waiting("the operator is writing the peer list to the pods")
    BrokerNotReady = waiting(
        "every rank has an address, but the job's Redis server is not Ready yet",
        "see BrokerReady",
    )
    Published = good(
        "the pods have the peer list; the message gives its revision, and says which ranks join"
        " later, and why",
    )
    PodLost = problem(
        "the pod of a rank is gone", f"{_HEALS}; if pods are lost again, find out what deletes them"
    )
    PodDeleted = problem(
        "the pod of a rank is being deleted, evicted or preempted; the message says what blocks it",
        f"{_HEALS} once the old pod is gone. If the message names a finalizer, make the controller"
        " that set the finalizer remove it",
    )
    PodFailed = problem(
        "the pod of a rank failed. This counts against `backoffLimit`, except for disruptions and"
        " for failures that a rule ignores. The reason also applies if a rank crashed in its pod,"
        " and other ranks must restart with it (`runtime: torch`). The message names the ranks that"
        " restart although they had succeeded",
        _GOES,
    )
    SandboxLost = problem(
        "a pod lost its sandbox, and thereby its address, because its node restarted", _HEALS
    )
    AddressChanged = problem(
        "a pod's address differs from its entry in the peer list, because the pod's sandbox was"
        " recreated",
        _HEALS,
    )
    NotRestarted = problem(
        "the program of a rank should have restarted in its pod, but did not do so within the pod's"
        " grace period plus 15 s. The operator replaces the pod",
        f"{_HEALS}, but faster if the command forwards SIGTERM (`exec` in a shell script)",
    )
    BrokerLost = problem(
        "the job's own Redis server was lost or has restarted. All ranks restart with the new"
        " server, and no failure is counted",
        f"{_HEALS}; if the server is lost again, find out why its pod, JOB-mq, keeps terminating",
    )
    ListLost = problem(
        "the pods' addresses are no longer those of the newest peer list, so all ranks restart with"
        " a new list",
        _HEALS,
    )
    # Not a problem, because the user asked for it.
    Scaled = waiting("the size of a job with `restart.scope: Job` changed, so all ranks restart")
    FailurePolicy = problem(
        "a rule of `failurePolicy`, or the runtime, requires RestartJob: all ranks restart. The"
        " message names the ranks that restart although they had succeeded",
        _GOES,
    )
    ProgressStalled = problem(
        "the training made no progress for `stallSeconds`, and `stallPolicy` is Restart. The"
        " operator restarts the rank that the message names. This counts against `backoffLimit`",
        f"{_HEALS}; if the training stalls again, the operator only reports it",
    )
    Suspended = suspended_entry()
    Terminating = terminating_entry()


class Running(Reason):
    """Whether the job has started: all ranks of the peer list were Ready at the same time. The
    condition stays True while a process restarts in its pod, and while some ranks restart and
    others keep running.
    """

    Starting = waiting(
        "the message names the ranks that are not Ready yet, or says that addresses are missing"
    )
    Blocked = problem(
        "a rank cannot start: its image cannot be pulled, or its container crashes. The message"
        " quotes the cluster's reason",
        "correct the image or the command; the log of the rank's pod has more details",
    )
    Begun = good("the job has started; the event says how long this took", event=EventType.NORMAL)
    Renewing = waiting("all ranks are restarting; AddressesReady says why")
    Suspended = suspended_entry()
    Terminating = terminating_entry()
    Finished = finished_entry()


class PeersReady(Reason):
    """Whether every rank is Ready now and has the newest peer list. To wait until a job has
    recovered from a loss, wait for this condition.
    """

    Starting = waiting(
        "the job has not started, or some ranks have been unready for less than a minute; the"
        " message names them"
    )
    AllRanksReady = good(
        "every rank is Ready and has the newest peer list. The event is published only after the"
        " job has started, and says how many seconds the ranks took to become Ready again",
        event=EventType.NORMAL,
    )
    # A rank that is not Ready is a problem only after a minute, unless the rank has crashed or the
    # cluster says why it cannot start. A rank that joins is not Ready at first, and a rank that is
    # about to exit closes its port before it exits (docs/decisions/019).
    RankNotReady = problem(
        "a rank of a running job has crashed and is restarting, cannot start, is on a node that"
        " does not respond, or has been unready for a minute. A rank can be unready because its"
        " readiness probe fails, or because its program gave up waiting for a peer and is still"
        " running without it",
        f"{_HEALS}; if the problem recurs, read the log of the rank that the message names",
    )
    # Not a problem here, because the condition LauncherBypassed publishes the Warning.
    LauncherBypassed = waiting(
        "every rank is Ready, but programs of the job might not know their peers",
        "do what the condition LauncherBypassed says",
    )
    Renewing = waiting(
        "the message says which rank was lost, why, and which ranks restart. Later it says which"
        " programs are still stopping, and how much time they have (terminationGracePeriodSeconds)",
    )
    Suspended = suspended_entry()
    Terminating = terminating_entry()
    Finished = finished_entry()
