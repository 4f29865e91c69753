"""Reasons of two groups of conditions. One group is about what a job's ranks share, the other about
changes that the apiserver rejects.
"""

from dijob.reasons.catalogue import Reason, finished_entry, good, problem, suspended_entry, waiting

# Conditions about optional objects are absent until something goes wrong with them. A job that
# never had a problem with its service needs no condition that says so.


class ServiceReady(Reason):
    """Whether the job's headless service exists and is unmodified. The service gives the ranks DNS
    names. Present only if the operator has ever failed to create the service, or if the service has
    ever been edited. The job's first pods wait for the service.
    """

    ServiceNameTaken = problem(
        "the name of the job's service is already used by a service that does not belong to the"
        " job, so the ranks have no DNS names. A job that is already running continues;"
        " connections by IP are unaffected",
        "delete that service, or give the job another name",
    )
    ServiceRefused = problem(
        "the apiserver rejects the service; the message quotes the API error. The operator retries"
        " as it does for pods",
        "follow the advice for PodRejected and PodForbidden",
    )
    ServiceChanged = problem(
        "the service was edited, so the ranks' names do not resolve as they should; the message"
        " names the fields. Connections by IP are unaffected",
        "delete the service; the operator recreates it. If the service changes again, find"
        " the tool that changes it (such as a policy engine or a GitOps tool), and make that tool"
        " ignore the service",
    )
    ServiceRemoved = problem(
        "something deletes the service each time the operator creates it. The operator waits"
        " longer before each new attempt",
        "find the tool that deletes the service (such as a policy engine, or a GitOps tool that"
        " prunes), and make that tool ignore the service",
    )
    Created = good("the service has been created")
    NotWanted = good("the job no longer needs a service (`service: Auto`)")


class Isolated(Reason):
    """Whether the job's NetworkPolicy has been created. The policy allows connections to the ranks
    only from the job's own ranks and from the peers in `spec.networkPolicy`. Present only if the
    operator has ever failed to create the policy. No pod is created without the policy.
    """

    NameTaken = problem(
        "the name of the job's network policy is already used by a policy that does not belong to"
        " the job. The operator never touches the existing policy",
        "delete that network policy, or give the job another name",
    )
    Refused = problem(
        "the apiserver rejects the network policy; the message quotes the API error. The operator"
        " retries as it does for pods",
        "if the message names a label of the template or a rule of `spec.networkPolicy`"
        " (spec.ingress[0] is the first rule), correct it. Otherwise, follow the advice for"
        " PodRejected and PodForbidden",
    )
    Removed = problem(
        "something deletes the network policy each time the operator creates it. The operator"
        " waits longer before each new attempt, and creates no pod in the meantime",
        "find the tool that deletes the policy (such as a policy engine, or a GitOps tool that"
        " prunes), and make that tool ignore the policy",
    )
    Created = good("the network policy has been created")
    NotWanted = good(
        "the operator no longer creates network policies (the chart value `networkPolicy.jobs`)"
    )


class GangScheduled(Reason):
    """Whether the job's engine (`spec.scheduling`) has given nodes to the ranks that must be
    scheduled together. Present only if the job has an engine. No pod is created before the engine's
    object, such as a PodGroup. With the Kueue engine: whether Kueue has admitted the job.
    """

    NotServed = problem(
        "the cluster does not serve the API of the engine, so the operator creates no pod. It"
        " checks again every minute",
        "enable the API as the message says, or suspend the job and set `spec.scheduling.engine:"
        " None`",
    )
    NotSupported = problem(
        "the cluster ignores a field of `spec.scheduling`, so the operator creates no pod",
        "suspend the job; enable the feature that the message names, or remove the field; then"
        " resume the job",
    )
    GroupNameTaken = problem(
        "the name of the object that the job's engine needs is already used by an object that does"
        " not belong to the job. The operator never touches the existing object",
        "delete the existing object, or give the job another name",
    )
    GroupRefused = problem(
        "the apiserver rejects the engine's object, or a request to read it; the message quotes the"
        " API error. The operator retries as it does for pods",
        "if the operator lacks permission, upgrade the chart's release: the chart grants the"
        " permission only if the cluster serves the API at the time of the upgrade. Otherwise,"
        " follow the advice for PodRejected and PodForbidden",
    )
    QueueMissing = problem(
        "the job has no queue label, or the LocalQueue in this label does not exist or is not"
        " active",
        "create the LocalQueue, set or correct the label `kueue.x-k8s.io/queue-name`, or ask the"
        " administrator of the queue",
    )
    NeverFits = problem(
        "the job requests more than its queue can ever provide; the message quotes Kueue",
        "request less, lower `minReplicas`, or use another queue",
    )
    Deactivated = problem(
        "the job's Workload has been deactivated by an administrator or by Kueue (for example,"
        " because the job exceeded its execution time). Kueue does not admit it again by itself",
        "activate the Workload as the message says, or suspend and resume the job",
    )
    Queued = waiting(
        "the job is waiting in its queue for Kueue to admit it; the message quotes Kueue"
    )
    Evicted = waiting(
        "Kueue has evicted the job, for example in favor of a job with a higher priority. The job"
        " stops gracefully, and waits in its queue again"
    )
    Waiting = waiting("the scheduler has not placed the ranks yet")
    NoRoom = problem(
        "the cluster cannot place all the ranks that must be scheduled together, so none gets"
        " a node. The message quotes the scheduler",
        "add nodes, request less, or lower `minReplicas` or `spec.scheduling.minAvailable`",
    )
    Placed = good("enough ranks have nodes")
    Admitted = good("Kueue has admitted the job")
    AdmittedInPart = good(
        "Kueue has admitted fewer ranks than `replicas`, and the job runs with them. The message"
        " says what the other ranks are waiting for"
    )
    NotWanted = good("the job no longer has an engine")
    Suspended = suspended_entry()
    Finished = finished_entry()


class DrainsLimited(Reason):
    """Whether the job's PodDisruptionBudgets exist. They limit how many ranks a node drain may stop
    (`disruptionBudget`). Present only if the operator has ever failed to read or create a
    budget.
    """

    NameTaken = problem(
        "the name of one of the job's budgets is already used by a PodDisruptionBudget that does"
        " not belong to the job. So drains can stop more ranks than the spec allows. The operator"
        " never touches the existing budget",
        "delete the existing budget, or remove `disruptionBudget` from the spec",
    )
    Refused = problem(
        "the apiserver rejects a budget, or a request to read it, so drains can stop more ranks"
        " than the spec allows. The message quotes the API error. The operator retries as it does"
        " for pods",
        "if the operator lacks permission, allow it to get and create poddisruptionbudgets."
        " Otherwise, follow the advice for PodRejected and PodForbidden",
    )
    Created = good("the budgets exist")
    NotWanted = good("the job no longer has a `disruptionBudget`")


class BrokerReady(Reason):
    """Whether the Redis server that the operator runs for the job is Ready. Present if
    `messageQueue` has type redis and no host. No rank starts before the server is Ready. If the
    server is lost, all ranks restart with a new one.
    """

    Starting = waiting("the server's pod is being created")
    NotRunning = problem(
        "the server's pod cannot run; the message quotes the cluster's reason",
        "if the image is the cause, set the chart value redis.image, or name your own server in"
        " `messageQueue.host`",
    )
    NameTaken = problem(
        "the server's name, JOB-mq, is already used by a pod, service or network policy that does"
        " not belong to the job. The operator never touches the existing object",
        "delete the existing object, or give the job another name",
    )
    OtherPort = problem(
        "the server's service was created for a port other than `messageQueue.port`, and the"
        " operator has no permission to change services. No rank starts",
        "delete the service and the network policy that the message names; the operator recreates"
        " both",
    )
    ServiceChanged = problem(
        "the server's service was edited, so ranks might not reach the server through it; the"
        " message names the fields. No rank starts",
        "delete the service that the message names; the operator recreates it",
    )
    Refused = problem(
        "the apiserver rejects the server's pod, service or network policy; the message quotes the"
        " API error. The operator retries as it does for pods",
        "follow the advice for PodRejected and PodForbidden",
    )
    Ready = good("the server is Ready")
    Suspended = suspended_entry()
    Finished = finished_entry()


class ChangesRefused(Reason):
    """True: the apiserver rejects a change or a deletion by the operator. The message quotes the
    API error. The operator retries each change after 1, 2, 4 ... 60 s. Present only if the
    condition has ever been True.
    """

    PodUpdateRefused = problem(
        "the peer list cannot be written to a pod: a policy or a webhook rejects the change, the"
        " pod's annotations exceed 256 KiB, or another controller reverts the change",
        "allow the operator to patch its pods, make the other controller leave the annotations"
        " alone, or shorten the pod's own annotations",
        status=True,
    )
    PodDeletionRefused = problem(
        "a pod cannot be deleted, so a lost rank is not recreated, or the pods of a job that has"
        " ended are not cleaned up",
        "allow the operator to delete pods, or delete the pod that the message names",
        status=True,
    )
    JobUpdateRefused = problem(
        "the operator cannot set `spec.replicas`, which `kubectl scale` and PodDisruptionBudgets"
        " need. It must do so because the field is absent, or because the last task's replicas have"
        " changed",
        "allow the operator to patch DIJobs, or set `replicas` in the manifest. In a job with"
        " tasks, this also happens if the CRD is older than the operator: upgrade the CRD",
        status=True,
    )
    PolicyUpdateRefused = problem(
        "a network policy of the job cannot be updated to match `spec.networkPolicy`, or something"
        " reverts the update",
        "correct the rule that the message names, allow the operator to patch networkpolicies, or"
        " stop the webhook or controller from reverting the update",
        status=True,
    )
    GroupUpdateRefused = problem(
        "the job's PodGroup cannot be resized, so lost ranks are not recreated. With the Kueue"
        " engine: the operator cannot update the job's Workload",
        "allow the operator to patch podgroups (with Kueue: workloads/status)",
        status=True,
    )
    GroupDeletionRefused = problem(
        "the job's PodGroup cannot be deleted, so a suspended job cannot be resumed. With the Kueue"
        " engine: the job's Workload cannot be deleted",
        "allow the operator to delete podgroups (with Kueue: workloads), or delete the object that"
        " the message names",
        status=True,
    )
    BudgetUpdateRefused = problem(
        "a PodDisruptionBudget of the job cannot be updated. So a drain may be blocked by ranks"
        " that have already succeeded, or may stop too many ranks",
        "allow the operator to patch poddisruptionbudgets, or stop the webhook or controller from"
        " reverting the update",
        status=True,
    )
    BudgetDeletionRefused = problem(
        "a PodDisruptionBudget that the job no longer needs cannot be deleted",
        "allow the operator to delete poddisruptionbudgets, or delete the budget that the message"
        " names",
        status=True,
    )
    JobDeletionRefused = problem(
        "the job has ended and its `ttlSecondsAfterFinished` has expired, but it cannot be deleted",
        "allow the operator to delete DIJobs, or delete the job",
        status=True,
    )
    CrdOutdated = problem(
        "the CRD in the cluster is older than the operator, so the apiserver drops fields of the"
        " job's status. Features that need those fields do not work",
        "apply `crds/dijob.yaml` of the operator's version, or upgrade the chart with"
        " `crds.install: true`",
        status=True,
    )
    ApiUnavailable = problem(
        "the apiserver (or a webhook that it calls) failed to respond to the same change at least"
        " twice in a row",
        "nothing; if the problem persists, check the control plane",
        status=True,
    )
    Accepted = good("changes are no longer being rejected", status=False)
