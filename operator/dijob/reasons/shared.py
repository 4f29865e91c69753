"""Reasons of the conditions about what the ranks share, and about changes that the apiserver
refuses.
"""

from dijob.reasons.catalogue import Reason, finished, good, problem, suspended, waiting


class ServiceReady(Reason):
    """Whether the job's headless service could be created: it gives the ranks DNS names. Present
    only once it could not. The first pods are not created without it.
    """

    ServiceNameTaken = problem(
        "a service of the job's name belongs to somebody else: ranks have no DNS names. A job that"
        " already runs goes on; connections by IP are unaffected",
        "delete or rename that service, or give the job another name",
    )
    ServiceRefused = problem(
        "the apiserver would not create it; its words are in the message. Asked again, as for pods",
        "as for PodRejected and PodForbidden",
    )
    ServiceRemoved = problem(
        "something deletes the service whenever the operator creates it: it is created ever more"
        " rarely",
        "find what deletes it (a policy engine, a GitOps tool that prunes) and let it leave the"
        " service alone",
    )
    Created = good("it is there now")
    NotWanted = good("nothing asks for it any more (`service: Auto`)")


class Isolated(Reason):
    """Whether the NetworkPolicy that lets nobody but the job's ranks, and whom
    `spec.networkPolicy` names, in to them could be created. Present only once it could not; no pod
    is created without it.
    """

    NameTaken = problem(
        "a network policy of the job's name belongs to somebody else; it is never touched",
        "delete or rename that one, or give the job another name",
    )
    Refused = problem(
        "the apiserver would not create it; its words are in the message. Asked again, as for pods",
        "correct the label of the template, or the rule of `spec.networkPolicy`, that they name"
        " (spec.ingress[0] is the first rule); else as for PodRejected and PodForbidden",
    )
    Removed = problem(
        "something deletes the network policy whenever the operator creates it: it is created ever"
        " more rarely, and no pod is created meanwhile",
        "find what deletes it (a policy engine, a GitOps tool that prunes) and let it leave the"
        " policy alone",
    )
    Created = good("it is there now")
    NotWanted = good("the operator makes none any more (the chart's value `networkPolicy.jobs`)")


class BrokerReady(Reason):
    """Whether the Redis server that the operator runs for the job can be used. Present where
    `messageQueue` is redis without a host. Nobody starts before it is Ready. When it is lost,
    all ranks begin anew with the next one.
    """

    Starting = waiting("its pod is being created")
    NotRunning = problem(
        "its pod cannot run; the message says why in the cluster's words",
        "if it is the image: set the chart's value redis.image, or give `messageQueue.host` a"
        " server of your own",
    )
    NameTaken = problem(
        "a pod, service or network policy of its name, JOB-mq, belongs to somebody else; it is"
        " never touched",
        "delete or rename that one, or give the job another name",
    )
    OtherPort = problem(
        "its service was made for another port than `messageQueue.port` is now, and the operator"
        " has no right to change services. No rank begins",
        "delete the service and the network policy that the message names: both are made anew",
    )
    Refused = problem(
        "the apiserver would not create its pod, service or network policy; its words are in the"
        " message. Asked again, as for pods",
        "as for PodRejected and PodForbidden",
    )
    Ready = good("it answers")
    Suspended = suspended()
    Finished = finished()


class ChangesRefused(Reason):
    """True: the apiserver refuses what the operator would change or delete; its words are in the
    message. Each change is asked for again after 1, 2, 4 ... 60 s. Present only once it has been
    True.
    """

    PodUpdateRefused = problem(
        "a pod cannot be given its address list: a policy, a webhook, or annotations over 256 KiB;"
        " or somebody changes back whatever the operator writes there",
        "let the operator patch the pods it makes, and leave alone what it writes there, or make"
        " the pod's own annotations shorter",
        status=True,
    )
    PodDeletionRefused = problem(
        "a pod cannot be deleted, so a lost rank is not re-created, or a job is not cleaned up",
        "let the operator delete the pods it makes, or delete the pod that the message names",
        status=True,
    )
    JobUpdateRefused = problem(
        "`spec.replicas` cannot be written into a job that leaves it out, which `kubectl scale`"
        " needs",
        "let the operator patch DIJobs, or write `replicas` into the manifest",
        status=True,
    )
    PolicyUpdateRefused = problem(
        "a network policy of the job cannot be changed to what `spec.networkPolicy` says, or"
        " something changes it back",
        "correct the rule that the message names, let the operator patch networkpolicies, or let"
        " the webhook or controller that changes it leave it alone",
        status=True,
    )
    JobDeletionRefused = problem(
        "the job has ended and its `ttlSecondsAfterFinished` is over, and it cannot be deleted",
        "let the operator delete DIJobs, or delete the job",
        status=True,
    )
    CrdOutdated = problem(
        "the CRD in the cluster is older than the operator, so the apiserver drops fields of the"
        " job's status. What depends on them is not done",
        "apply `crds/dijob.yaml` of the operator's version, or upgrade the chart with"
        " `crds.install: true`",
        status=True,
    )
    ApiUnavailable = problem(
        "the apiserver, or a webhook that it asks, has not answered twice or more in a row",
        "nothing; if it lasts: look after the control plane",
        status=True,
    )
    Accepted = good("nothing is refused any more", status=False)
