"""Every reason that a condition can have: what it means and what to do about it. docs/conditions.md is made from it."""

from typing import Final

from dijob import names
from dijob.crd.reason import FINISHED, SUSPENDED, About, good, over, problem, waiting
from dijob.crd.reasons_refused import CHANGES_REFUSED
from dijob.crd.reasons_shared import BROKER_READY, SERVICE_READY
from dijob.names import Condition as Type

_HEALS: Final = "nothing: the job heals by itself"
_LOGS: Final = (
    "`kubectl logs` of the pod that the message names; it is kept unless `cleanPodPolicy` is All. The pod's annotation "
    "`ended` says what DeadlineExceeded and ContainerStatusUnknown mean there"
)
_GOES: Final = f"{_HEALS}. The failed pod goes with its log; `status.firstFailure` keeps the job's first failure"

_PODS_CREATED: Final = About(
    "Whether every rank that is wished for has its pod.",
    (
        waiting("Creating", "on its way; the message counts the pods that exist"),
        waiting(
            "WaitingForOldPod",
            "the pod of a deleted job of the same name, or a deleted pod of this one, is still ending",
            "if it lasts: see what holds that pod (a finalizer, a long grace period, a node that is gone)",
        ),
        problem(
            "PodNameTaken",
            "a pod of that name belongs to somebody else; it is never touched",
            "delete or rename that pod, or give the job another name",
        ),
        problem(
            "PodRejected",
            "the apiserver refuses the pod as it is written; its words are in the message. Asked again every 5 min",
            "correct the template while the job is suspended (`spec.suspend: true`), or delete the job and apply it",
        ),
        problem(
            "PodForbidden",
            "refused for now: a service account or priority class that does not exist yet, a quota, a policy. "
            "Asked again after 1, 2, 4 ... 60 s",
            "create what is missing or make room in the quota; the job goes on by itself",
        ),
        problem(
            "ApiUnavailable",
            "the apiserver, or a webhook that it asks, does not answer. Asked again after 1, 2, 4 ... 60 s",
            "nothing; if it lasts: look after the control plane",
        ),
        SUSPENDED,
        good("AllCreated", "every rank has its pod"),
    ),
)

_ADDRESSES_READY: Final = About(
    "Whether the ranks have been told a list of addresses that is true.",
    (
        waiting("Gathering", "on its way; the message names the ranks without an address"),
        problem(
            "AddressMissing",
            "a rank cannot get an address; the message says why in the cluster's words: unschedulable, image, mount; "
            "or which node or scheduler has not taken its pod within 10 s",
            "do what the message asks for; the job goes on by itself",
        ),
        problem(
            "NoRoom",
            "nobody of the job runs, and a rank below `minReplicas` found no node, or no room in a quota, within "
            "`scheduleTimeoutSeconds`: the job has given all its pods back for others to start. The message says when "
            "it tries again",
            "add nodes, raise the quota, ask for less, or lower `minReplicas`",
        ),
        waiting("Publishing", "the list is being handed out"),
        waiting(
            "BrokerNotReady",
            "every rank has its address, and the job's Redis server is not Ready yet",
            "see BrokerReady",
        ),
        good(
            "Published",
            "the list is handed out, as the epoch that the message names; it also says which ranks join later, and why",
        ),
        problem("PodLost", "the pod of a rank is gone", f"{_HEALS}; if it repeats: see who deletes pods"),
        problem("PodDeleted", "the pod of a rank is being deleted, evicted or preempted", _HEALS),
        problem(
            "PodFailed",
            "a rank failed with its pod; charged to `backoffLimit`, save disruptions and what a rule ignores",
            _GOES,
        ),
        problem("SandboxLost", "a pod's sandbox died, and its address with it: its node started again", _HEALS),
        problem("AddressChanged", "a pod has another address than the list says: its sandbox was made anew", _HEALS),
        problem(
            "NotRestarted",
            "a rank was told to start again in its pod, and has not within its grace period and 15 s: its pod is made "
            "anew",
            f"{_HEALS}, but sooner if the command passes TERM on (`exec` in a shell script)",
        ),
        problem(
            "BrokerLost",
            "the job's own Redis server was lost, or has started again: all ranks begin anew with the new one, and are "
            "not charged",
            f"{_HEALS}; if it repeats: see why its pod, JOB-mq, ends",
        ),
        problem(
            "ListLost", "the pods' addresses are not those of the newest list any more: all ranks are renewed", _HEALS
        ),
        waiting("Scaled", "another size, with `restart.scope: Job`: all ranks are renewed in it"),
        problem(
            "FailurePolicy",
            "a rule of `failurePolicy`, or the runtime, says RestartJob: all ranks are renewed",
            _GOES,
        ),
        SUSPENDED,
    ),
)

_RUNNING: Final = About(
    "Whether the job has begun: all ranks of the list were Ready at once. It stays True while a process starts again "
    "in its pod, and while some ranks are renewed and others run on.",
    (
        waiting("Starting", "the message names the ranks that are not Ready yet, or says that addresses are missing"),
        problem(
            "Blocked",
            "a rank cannot start: its image cannot be pulled, it crashes; the message says why in the cluster's words",
            "correct the image or the command; the log of the rank's pod says more",
        ),
        good("AllRanksReady", "the job has begun"),
        waiting("Renewing", "every rank is renewed; AddressesReady says why"),
        SUSPENDED,
        FINISHED,
    ),
)

_PEERS_READY: Final = About(
    "Whether every rank is Ready now and has the newest list. The one to wait for after a loss.",
    (
        waiting("Starting", "the message names the ranks that are not Ready yet"),
        good("AllRanksReady", "every rank is Ready, and knows the newest list"),
        problem(
            "RankNotReady",
            "a rank of a running job is not Ready: it crashed and starts again, or its node is silent",
            f"{_HEALS}; if it repeats: see the log of the rank that the message names",
        ),
        waiting(
            "Renewing",
            "the message says which rank was lost, what happened to it, and which ranks are renewed; then which of "
            "them still end their programs, and how long they have for it (terminationGracePeriodSeconds)",
        ),
        SUSPENDED,
        FINISHED,
    ),
)

_SUCCEEDED: Final = About(
    "True: the job has ended well.",
    (
        good("AllRanksSucceeded", "the main container of every rank exited 0"),
        good("SuccessPolicy", "those have exited 0 whose success `successPolicy` asks for; the others are ended"),
    ),
)

_FAILED: Final = About(
    "True: the job has ended badly. The message and `status.firstFailure` name the first failure, usually the cause.",
    (
        problem("BackoffLimitExceeded", "more failures than `backoffLimit`, of all ranks together", _LOGS, status=True),
        problem("FailurePolicy", "a rule of `failurePolicy` says FailJob; the message says which", _LOGS, status=True),
        problem(
            "DeadlineExceeded",
            "not done within `activeDeadlineSeconds`; time suspended does not count",
            "give it more time in a new job, or see what it waited for",
            status=True,
        ),
        problem(
            "StartupDeadlineExceeded",
            "not Running within `startupDeadlineSeconds` of its creation, of being resumed, or of its last renewal; "
            "the message says for which rank it waited, and why",
            "remove that cause, or give it more time, and create the job anew",
            status=True,
        ),
    ),
)

_FINISHED_TYPE: Final = About(
    "True: the job has ended, well or badly. The one to wait for. It has the message of Succeeded or Failed.",
    (
        over("Succeeded", "the job has ended well, see Succeeded", status=True),
        over("Failed", "the job has ended badly, see Failed", status=True),
    ),
)

_SUSPENDED_TYPE: Final = About(
    "Whether `spec.suspend` holds the job. There once it has been set.",
    (
        waiting("Suspending", "its pods are ending, gently; also before it can go on again", status=True),
        waiting("Suspended", "it has no pods", "set `spec.suspend` to false to go on", status=True),
        good("Resumed", "it goes on, with the same ranks and names", status=False),
        FINISHED,
    ),
)

_INVALID: Final = About(
    "True: the spec asks for what cannot be done; what runs is left alone. There once it was True.",
    (
        problem(
            "SpecInvalid",
            "the message names each field and what is wrong with it; lost ranks are not made anew",
            "correct it",
            status=True,
        ),
        problem(
            "TemplateChanged",
            "the spec differs from what the running pods were made from: lost ones are not made anew",
            "write the old one back, or suspend the job (`spec.suspend: true`) until its pods are gone; one that has "
            "ended: delete it and apply again",
            status=True,
        ),
        problem(
            "OperatorError",
            "the operator itself fails with this job, or with what belongs to it, as the message says; it leaves both "
            "alone until they change",
            "report it with the traceback in the operator's log; if something was changed by hand, change it back",
            status=True,
        ),
        good("Valid", "corrected", status=False),
    ),
)

_LAUNCHER_BYPASSED: Final = About(
    "True: the command goes round the launcher. There once it was True.",
    (
        problem(
            "LauncherBypassed",
            "ditask may not join the world, and each pod may train alone",
            "do what the message says, see [launcher.md](launcher.md)",
            status=True,
        ),
        good("NothingToSay", "no longer so", status=False),
    ),
)

_SPEC_WARNING: Final = About(
    "True: something in the spec cannot be read or done as it is written. There once it was True.",
    (
        problem(
            "SpecWarning", "the message says what, and what is done instead", "do what the message says", status=True
        ),
        good("NothingToSay", "no longer so", status=False),
    ),
)

_PAUSED: Final = About(
    f"Whether the annotation `{names.ANNOTATION_PAUSED}` is set: the operator looks and tells, and touches nothing of "
    "the job, nor heals it. For emergencies: "
    f"`kubectl annotate dijob NAME {names.ANNOTATION_PAUSED}=true`. There once it has been set.",
    (
        waiting(
            "Annotated", "paused", f"`kubectl annotate dijob NAME {names.ANNOTATION_PAUSED}-` to go on", status=True
        ),
        good("Resumed", "the operator takes care of the job again", status=False),
    ),
)

REASONS: Final[dict[Type, About]] = {
    Type.PODS_CREATED: _PODS_CREATED,
    Type.ADDRESSES_READY: _ADDRESSES_READY,
    Type.RUNNING: _RUNNING,
    Type.PEERS_READY: _PEERS_READY,
    Type.SUCCEEDED: _SUCCEEDED,
    Type.FAILED: _FAILED,
    Type.FINISHED: _FINISHED_TYPE,
    Type.INVALID: _INVALID,
    Type.SUSPENDED: _SUSPENDED_TYPE,
    Type.LAUNCHER_BYPASSED: _LAUNCHER_BYPASSED,
    Type.SPEC_WARNING: _SPEC_WARNING,
    Type.SERVICE_READY: SERVICE_READY,
    Type.BROKER_READY: BROKER_READY,
    Type.PAUSED: _PAUSED,
    Type.CHANGES_REFUSED: CHANGES_REFUSED,
}
