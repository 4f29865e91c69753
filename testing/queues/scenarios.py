"""The scenarios on the real Kueue, as a table. Each returns what was observed, or raises an
AssertionError.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from queues.kills import MOST_POINTS, Killer
from queues.stage import LABEL, QUOTA, WORKLOADS, Stage, queued_job, thing

AT = {"lastTransitionTime": "2026-01-01T00:00:00Z"}


@dataclass(frozen=True)
class Scenario:
    """One row of the table. `settings` are added to Kueue's configuration."""

    name: str
    run: Callable[[Stage], str]
    settings: tuple[tuple[str, Any], ...] = ()


def quota_for_one_of_two(stage: Stage) -> str:
    """Two jobs of five ranks in a cohort with quota for six."""
    stage.apply(queued_job("one", 5))
    stage.phase("one", "Running")
    stage.apply(queued_job("two", 5, "team-b"))
    message = stage.says("two", "GangScheduled", "Queued", "insufficient unused quota")
    assert stage.pods("two") == {}
    stage.exit(*stage.pods("one"))
    stage.phase("one", "Succeeded")
    seconds = stage.phase("two", "Running")
    return f"two waited ({message!r}) and ran {seconds:.1f} s after one had ended"


def borrowing_and_reclaiming(stage: Stage) -> str:
    """A job borrows the other team's quota, and is evicted when that team needs it."""
    stage.apply(queued_job("borrower", 5))
    stage.phase("borrower", "Running")
    stage.apply(queued_job("owner", 2, "team-b"))
    stage.phase("owner", "Running")
    message = stage.says("borrower", "Suspended", "Queued")
    assert stage.pods("borrower") == {}
    status = stage.get("dijob", "borrower")["status"]
    assert status.get("restarts", 0) == 0, status
    stage.exit(*stage.pods("owner"))
    seconds = stage.phase("borrower", "Running")
    return f"evicted without a failure ({message!r}); back {seconds:.1f} s after the other's end"


def preemption_by_priority(stage: Stage) -> str:
    stage.apply(queued_job("low", 6, priority="low"))
    stage.phase("low", "Running")
    stage.apply(queued_job("high", 3, priority="high"))
    seconds = stage.phase("high", "Running")
    stage.says("low", "Suspended", "Queued")
    assert stage.running("low") == 0
    priority = stage.workload("high")["spec"]["priority"]
    assert priority == 1000, priority
    stage.exit(*stage.pods("high"))
    back = stage.phase("low", "Running")
    return f"high ran after {seconds:.1f} s; low was back {back:.1f} s after its end"


def partial_admission(stage: Stage) -> str:
    stage.apply(queued_job("elastic", 8, minReplicas=2))
    stage.phase("elastic", "Running")
    stage.until("six ranks run", lambda: stage.running("elastic") == 2 * QUOTA)
    message = stage.says("elastic", "GangScheduled", "AdmittedInPart", "insufficient")
    return f"of 8 ranks, 6 run, and the others wait for quota: {message!r}"


def growing(stage: Stage) -> str:
    """A job grows when there is quota for its new ranks. The running ranks stay."""
    stage.apply(queued_job("grows", 2, minReplicas=1, maxReplicas=6))
    stage.phase("grows", "Running")
    stage.apply(queued_job("other", 2, "team-b"))
    stage.phase("other", "Running")
    before = uids(stage, "grows")
    stage.kubectl("scale", "dijob", "grows", "--replicas=6")
    message = stage.says("grows", "GangScheduled", "AdmittedInPart", "insufficient")
    assert stage.running("grows") == 2
    stage.exit(*stage.pods("other"))
    seconds = stage.until("six ranks run", lambda: stage.running("grows") == 2 * QUOTA)
    after = uids(stage, "grows")
    assert before.items() <= after.items(), (before, after)
    stage.until("one Workload is left", lambda: len(stage.workloads("grows")) == 1)
    stage.says("grows", "GangScheduled", "admitted by the queue")
    assert stage.reserved() == 2 * QUOTA, stage.reserved()
    stage.edit("grows", replicas=3)
    stage.apply(queued_job("next", 3, "team-b"))
    stage.phase("next", "Running")
    return (
        f"waited ({message!r}), and grew {seconds:.1f} s after the other job had ended; its two"
        " ranks kept running. When it shrank, the next job got the quota"
    )


def growing_after_partial_admission(stage: Stage) -> str:
    stage.apply(queued_job("first", 2, "team-b"))
    stage.phase("first", "Running")
    stage.apply(queued_job("partly", 6, minReplicas=1))
    stage.until("four ranks run", lambda: stage.running("partly") == 4)
    before = uids(stage, "partly")
    stage.exit(*stage.pods("first"))
    seconds = stage.until("six ranks run", lambda: stage.running("partly") == 2 * QUOTA)
    assert before.items() <= uids(stage, "partly").items()
    return f"four ranks ran; the other two {seconds:.1f} s after quota was free"


def label_changed_before_growth(stage: Stage) -> str:
    """Change the queue label of a running job: the job keeps its quota, but cannot grow. After it
    is suspended and resumed, it gets its quota from the new queue.
    """
    stage.apply(queued_job("moves", 2, minReplicas=1, maxReplicas=4))
    stage.phase("moves", "Running")
    before = uids(stage, "moves")
    stage.kubectl("label", "dijob", "moves", f"{LABEL}=team-b", "--overwrite")
    stage.edit("moves", replicas=4)
    message = stage.says("moves", "GangScheduled", "AdmittedInPart", "suspend and resume")
    assert uids(stage, "moves") == before
    assert len(stage.workloads("moves")) == 1
    stage.edit("moves", suspend=True)
    stage.phase("moves", "Suspended")
    stage.edit("moves", suspend=False)
    stage.until("four ranks run", lambda: stage.running("moves") == 4)
    queue = stage.workload("moves")["spec"]["queueName"]
    assert queue == "team-b", queue
    return f"stayed at two ranks ({message!r}); after suspend and resume, four ran in {queue}"


def growing_without_slices(stage: Stage) -> str:
    """The feature gate is off."""
    # The operator of the previous scenario may remember that the gate was on.
    stage.kill_operator()
    stage.start_operator()
    stage.apply(queued_job("fixed", 2, minReplicas=1, maxReplicas=4))
    stage.phase("fixed", "Running")
    stage.edit("fixed", replicas=4)
    message = stage.says("fixed", "GangScheduled", "AdmittedInPart", "suspend and resume")
    assert stage.running("fixed") == 2
    assert len(stage.workloads("fixed")) == 1
    stage.edit("fixed", suspend=True)
    stage.phase("fixed", "Suspended")
    stage.edit("fixed", suspend=False)
    stage.until("four ranks run", lambda: stage.running("fixed") == 4)
    return f"stayed at two ranks: {message!r}"


def killed_while_growing(stage: Stage) -> str:
    """Kill the operator and Kueue between the writes that make a job grow."""
    stage.apply(queued_job("grows", 1, minReplicas=1, maxReplicas=6))
    stage.phase("grows", "Running")
    stage.apply(queued_job("other", 3, "team-b"))
    stage.phase("other", "Running")
    before = uids(stage, "grows")
    stage.edit("grows", replicas=5)
    stage.until("it asks for quota", lambda: len(stage.workloads("grows")) == 2)
    stage.kill_operator()
    stage.exit(*stage.pods("other"))
    stage.start_operator()
    stage.phase("other", "Succeeded")
    stage.until("it is admitted", lambda: stage.reserved() == 5)
    stage.kill_operator()
    stage.kueue.kill()
    stage.start_operator()
    stage.until("five ranks run", lambda: stage.running("grows") == 5)
    stage.kueue.start()
    stage.until("one Workload is left", lambda: len(stage.workloads("grows")) == 1)
    assert before.items() <= uids(stage, "grows").items()
    stage.edit("grows", replicas=6)
    stage.until("six ranks run", lambda: stage.running("grows") == 6)
    assert stage.reserved() == 6, stage.reserved()
    return "each continued where it had stopped, and no running rank restarted"


def redis_server(stage: Stage) -> str:
    """The pod of the job's own Redis server counts against the quota.

    The quota of both teams together is six CPUs. The job needs all of them: five for its ranks and
    one for its server.
    """
    stage.apply(queued_job("first", 1))
    stage.phase("first", "Running")
    stage.apply(queued_job("served", 5, "team-b", messageQueue={"type": "redis"}))
    stage.says("served", "GangScheduled", "Queued", "insufficient")
    stage.exit(*stage.pods("first"))
    stage.phase("served", "Running")
    assert stage.reserved() == 2 * QUOTA, stage.reserved()
    names = [one["name"] for one in stage.workload("served")["spec"]["podSets"]]
    assert names == ["main", "redis"], names
    pod = stage.pods("served").get("served-mq") or stage.get("pod", "served-mq")
    assert pod["spec"]["nodeSelector"] == {"type": "kwok"}, pod["spec"]
    return f"a job with five ranks and a server waited for six CPUs; pod sets {names}"


def uids(stage: Stage, job: str) -> dict[str, str]:
    """Return the uids of a job's pods by pod name."""
    return {name: pod["metadata"]["uid"] for name, pod in stage.pods(job).items()}


def succeeded_ranks_release_quota(stage: Stage) -> str:
    stage.apply(queued_job("first", 6))
    stage.phase("first", "Running")
    stage.apply(queued_job("second", 2))
    stage.says("second", "GangScheduled", "Queued")
    stage.exit("first-4", "first-5")
    seconds = stage.phase("second", "Running")
    assert stage.running("first") == 4
    return f"the next job ran {seconds:.1f} s after two ranks had succeeded"


def shrinking_releases_quota(stage: Stage) -> str:
    stage.apply(queued_job("shrinks", 6, minReplicas=1, maxReplicas=6))
    stage.phase("shrinks", "Running")
    stage.says("shrinks", "PeersReady", "AllRanksReady")
    stage.apply(queued_job("next", 2))
    stage.says("next", "GangScheduled", "Queued")
    stage.edit("shrinks", replicas=4)
    stage.phase("next", "Running")
    stage.edit("shrinks", replicas=6)
    message = stage.says("shrinks", "GangScheduled", "AdmittedInPart", "insufficient")
    assert stage.running("shrinks") == 4
    stage.exit(*stage.pods("next"))
    seconds = stage.until("six ranks run", lambda: stage.running("shrinks") == 6)
    return (
        f"the next job got the quota; growing again waited ({message!r}) and took {seconds:.1f} s"
        " after the next job had ended"
    )


def suspended_and_resumed(stage: Stage) -> str:
    stage.apply(queued_job("held", 6))
    stage.phase("held", "Running")
    stage.edit("held", suspend=True)
    stage.phase("held", "Suspended")
    stage.until("its Workload is gone", lambda: not stage.workload("held"))
    stage.edit("held", suspend=False)
    seconds = stage.phase("held", "Running")
    return f"without a Workload while suspended; ran {seconds:.1f} s after it was resumed"


def deactivated_and_activated(stage: Stage) -> str:
    stage.apply(queued_job("stopped", 3))
    stage.phase("stopped", "Running")
    name = stage.workload("stopped")["metadata"]["name"]
    for active in ("false", "true"):
        patch = f'{{"spec":{{"active":{active}}}}}'
        stage.kubectl("patch", WORKLOADS, name, "--type=merge", "-p", patch)
        if active == "false":
            stage.says("stopped", "GangScheduled", "Deactivated")
            stage.until("its pods are gone", lambda: not stage.pods("stopped"))
    seconds = stage.phase("stopped", "Running")
    return f"ran {seconds:.1f} s after its Workload was activated"


def pods_that_do_not_get_ready(stage: Stage) -> str:
    """With waitForPodsReady, Kueue evicts a job whose pods do not become ready in time."""
    # No node has this label, but the flavor does not exclude pods with this node selector.
    never = queued_job("never", 2)
    never["spec"]["template"]["spec"]["nodeSelector"] = {"no-such-label": "x"}
    stage.apply(never)
    stage.until("it is admitted", lambda: stage.pods("never"))
    stage.until(
        "it is evicted",
        lambda: "PodsReadyTimeout" in str(stage.workload("never").get("status")),
    )
    stage.until("its pods are gone", lambda: not stage.pods("never"))
    stage.apply(queued_job("ready", 3))
    stage.phase("ready", "Running")
    stage.until(
        "PodsReady is True",
        lambda: has_condition(stage.workload("ready"), "PodsReady"),
    )
    restarts = stage.get("dijob", "never")["status"].get("restarts", 0)
    assert restarts == 0, restarts
    return "evicted after 5 s, without a failure; another job then ran with PodsReady"


def killed_processes(stage: Stage) -> str:
    """Kill the operator and Kueue while jobs start, are evicted, and end."""
    stage.apply(queued_job("low", 6, priority="low"))
    stage.until("it has a Workload", lambda: stage.workload("low"))
    stage.kill_operator()
    stage.start_operator()
    stage.phase("low", "Running")
    stage.kueue.kill()
    stage.apply(queued_job("high", 3, priority="high"))
    # Kueue's webhook validates Workloads, so none can be created without Kueue.
    stage.says("high", "GangScheduled", "GroupRefused", "webhook")
    assert stage.running("low") == 6
    stage.kueue.start()
    stage.until("low is evicted", lambda: has_condition(stage.workload("low"), "Evicted"))
    stage.kill_operator()
    stage.start_operator()
    stage.phase("high", "Running")
    assert stage.running("low") == 0
    stage.kueue.kill()
    stage.exit(*stage.pods("high"))
    stage.phase("high", "Succeeded")
    stage.kueue.start()
    stage.phase("low", "Running")
    restarts = stage.get("dijob", "low")["status"].get("restarts", 0)
    assert restarts == 0, restarts
    return "each continued where it had stopped, and no failure was counted"


def lives_and_grows(stage: Stage) -> None:
    """A job starts, grows, shrinks and ends."""
    stage.apply(queued_job("life", 1, minReplicas=1, maxReplicas=6))
    stage.phase("life", "Running")
    before = uids(stage, "life")
    stage.edit("life", replicas=3)
    stage.until("three ranks run", lambda: stage.running("life") == 3)
    stage.edit("life", replicas=2)
    stage.until("its quota is given back", lambda: stage.reserved() == 2)
    assert before.items() <= uids(stage, "life").items()
    stage.exit(*stage.pods("life"))
    stage.phase("life", "Succeeded")
    stage.until("all quota is given back", lambda: stage.reserved() == 0)
    left = stage.workloads("life")
    assert all(has_condition(one, "Finished") for one in left), left


def is_evicted_and_returns(stage: Stage) -> None:
    """A job is evicted for another one, and starts again after the other one has ended."""
    stage.apply(queued_job("life", 5, priority="low"))
    stage.phase("life", "Running")
    stage.apply(queued_job("high", 3, priority="high"))
    stage.phase("high", "Running")
    stage.until("the other one has stopped", lambda: stage.running("life") == 0)
    stage.exit(*stage.pods("high"))
    stage.phase("high", "Succeeded")
    stage.phase("life", "Running")
    restarts = stage.get("dijob", "life")["status"].get("restarts", 0)
    assert restarts == 0, restarts


def killed_at_each_write(play: Callable[[Stage], None], victim: str) -> Callable[[Stage], str]:
    """Return the scenario that plays a story repeatedly, and kills the operator or Kueue each time.

    The kill happens at each write of a Workload: once before the write arrives, and once after it.
    """

    def run(stage: Stage) -> str:
        with stage.killed_by(victim) as killer:
            for number in range(1, MOST_POINTS):
                fired = [play_once(stage, play, killer, number, after) for after in (False, True)]
                if not all(fired):
                    return f"{number - 1} writes, each with a kill before and after it"
        raise AssertionError(f"at least {MOST_POINTS - 1} writes, which is probably a loop")

    return run


def play_once(
    stage: Stage, play: Callable[[Stage], None], killer: Killer, number: int, after: bool
) -> str:
    """Play a story with one kill. Return the write at which the program was killed; "" if there
    were fewer than `number` writes.
    """
    found = list[str]()

    def meanwhile() -> None:
        if write := killer.fired():
            found.append(write)

    killer.arm(number, after)
    stage.meanwhile = meanwhile
    try:
        play(stage)
    except AssertionError as error:
        point = f"{'after' if after else 'before'} write {number}, {found}"
        raise AssertionError(f"killed {point}: {error}") from error
    finally:
        killer.disarm()
        stage.meanwhile = lambda: None
        stage.clear()
    return "".join(found)


def messages(stage: Stage) -> str:
    stage.apply(queued_job("lost", 1, "no-such-queue"), queued_job("huge", 50))
    lost = stage.says("lost", "GangScheduled", "QueueMissing")
    huge = stage.says("huge", "GangScheduled", "NeverFits")
    return f"{lost!r}; {huge!r}"


def tasks_and_flavors(stage: Stage) -> str:
    """Each task is a pod set. The pods get the labels of the flavor as their node selector."""
    body = queued_job("tasks", 1)
    template = body["spec"].pop("template")
    body["spec"].pop("replicas")
    body["spec"]["tasks"] = [
        {"type": "learner", "template": template},
        {"type": "collector", "replicas": 3, "template": template},
    ]
    stage.apply(body)
    stage.phase("tasks", "Running")
    sets = [one["name"] for one in stage.workload("tasks")["spec"]["podSets"]]
    selectors = {str(one["spec"].get("nodeSelector")) for one in stage.pods("tasks").values()}
    assert selectors == {"{'type': 'kwok'}"}, selectors
    return f"pod sets {sets}; node selector of all pods: {selectors}"


def topology(stage: Stage) -> str:
    """Topology-aware scheduling: Kueue chooses the nodes of one rack."""
    levels = {"levels": [{"nodeLabel": "rack"}, {"nodeLabel": "kubernetes.io/hostname"}]}
    flavor = {"nodeLabels": {"type": "kwok"}, "topologyName": "racks"}
    quota = [{"name": "cpu", "nominalQuota": 100}]
    groups = [
        {
            "coveredResources": ["cpu"],
            "flavors": [{"name": "racked", "resources": quota}],
        }
    ]
    stage.apply(
        thing("Topology", "racks", levels),
        thing("ResourceFlavor", "racked", flavor),
        thing("ClusterQueue", "racked", {"namespaceSelector": {}, "resourceGroups": groups}),
        thing("LocalQueue", "racked", {"clusterQueue": "racked"}),
    )
    nodes = stage.kubectl("get", "nodes", "-o", "name").split()
    for number, node in enumerate(nodes):
        stage.kubectl("label", node, f"rack=r{number % 2}", "--overwrite")
    job = queued_job("near", 4, "racked", scheduling={"topology": {"key": "rack"}})
    stage.apply(job)
    stage.phase("near", "Running")
    racks = {
        stage.get("node", one["spec"]["nodeName"])["metadata"]["labels"]["rack"]
        for one in stage.pods("near").values()
    }
    assert len(racks) == 1, racks
    assert all(not one["spec"].get("schedulingGates") for one in stage.pods("near").values())
    return f"all ranks on the nodes of {racks}"


def admission_check(stage: Stage) -> str:
    """The scenario plays the role of an admission check's controller."""
    quota = [{"name": "cpu", "nominalQuota": 100}]
    flavors = [{"name": "default", "resources": quota}]
    spec = {
        "namespaceSelector": {},
        "resourceGroups": [{"coveredResources": ["cpu"], "flavors": flavors}],
        "admissionChecksStrategy": {"admissionChecks": [{"name": "prepared"}]},
    }
    stage.apply(
        thing("AdmissionCheck", "prepared", {"controllerName": "test.dijob/check"}),
        thing("ClusterQueue", "checked", spec),
        thing("LocalQueue", "checked", {"clusterQueue": "checked"}),
    )
    active = {"type": "Active", "status": "True", "reason": "Active", "message": "", **AT}
    stage.write_status("admissioncheck", "prepared", conditions=[active])
    stage.apply(queued_job("checked", 2, "checked"))
    message = stage.says("checked", "GangScheduled", "Queued", "quota is reserved")
    assert stage.pods("checked") == {}
    update = {"name": "main", "labels": {"provisioned": "yes"}, "nodeSelector": {"type": "kwok"}}
    answer_check(stage, "Ready", podSetUpdates=[update])
    stage.phase("checked", "Running")
    labels = [
        one["metadata"]["labels"].get("provisioned") for one in stage.pods("checked").values()
    ]
    assert labels == ["yes", "yes"], labels
    answer_check(stage, "Retry")
    stage.until("its pods are gone", lambda: not stage.pods("checked"))
    stage.says("checked", "GangScheduled", "Queued", "quota is reserved")
    answer_check(stage, "Ready", podSetUpdates=[update])
    stage.phase("checked", "Running")
    restarts = stage.get("dijob", "checked")["status"].get("restarts", 0)
    assert restarts == 0, restarts
    return f"waited ({message!r}); its pods got the labels of the check; a retry evicted the job"


def answer_check(stage: Stage, state: str, **more: Any) -> None:
    """Write the answer of the admission check for the job `checked`."""
    answer = {"name": "prepared", "state": state, "message": "", **AT, **more}
    name = stage.workload("checked")["metadata"]["name"]
    stage.write_status(WORKLOADS, name, admissionChecks=[answer])


def time_limit(stage: Stage) -> str:
    """Kueue deactivates a job that runs longer than its label allows."""
    body = queued_job("limited", 2)
    body["metadata"]["labels"]["kueue.x-k8s.io/max-exec-time-seconds"] = "5"
    stage.apply(body)
    stage.phase("limited", "Running")
    message = stage.says("limited", "GangScheduled", "Deactivated", "maximum execution time")
    stage.until("its pods are gone", lambda: not stage.pods("limited"))
    return f"stopped: {message!r}"


def has_condition(workload: dict[str, Any], type_: str) -> bool:
    """Whether a condition of a Workload is True."""
    conditions = (workload.get("status") or {}).get("conditions") or ()
    return any(one["type"] == type_ and one["status"] == "True" for one in conditions)


WAITING = (
    (
        "waitForPodsReady",
        {"timeout": "5s", "requeuingStrategy": {"backoffBaseSeconds": 600}},
    ),
)
STORIES = (
    ("starts, grows, shrinks and ends", lives_and_grows),
    ("is evicted and returns", is_evicted_and_returns),
)
KILLS = tuple(
    Scenario(
        f"{victim} is killed at each write while a job {what}", killed_at_each_write(play, victim)
    )
    for what, play in STORIES
    for victim in ("the operator", "Kueue")
)
NO_SLICES = (
    (
        "featureGates",
        {"VisibilityOnDemand": False, "ElasticJobsViaWorkloadSlices": False},
    ),
)
SCENARIOS = (
    Scenario("quota for one of two jobs in a cohort", quota_for_one_of_two),
    Scenario("borrowing, and reclaiming by the other team", borrowing_and_reclaiming),
    Scenario("preemption by priority", preemption_by_priority),
    Scenario("partial admission", partial_admission),
    Scenario("ranks that succeed release quota", succeeded_ranks_release_quota),
    Scenario("a job that shrinks releases quota", shrinking_releases_quota),
    Scenario("a job grows when there is quota", growing),
    Scenario("a job grows after partial admission", growing_after_partial_admission),
    Scenario("the operator and Kueue are killed while a job grows", killed_while_growing),
    Scenario("the queue of a running job is changed", label_changed_before_growth),
    Scenario("a Redis server", redis_server),
    Scenario("suspended and resumed", suspended_and_resumed),
    Scenario("deactivated and activated", deactivated_and_activated),
    Scenario("the operator and Kueue are killed", killed_processes),
    Scenario("tasks and flavors", tasks_and_flavors),
    Scenario("topology-aware scheduling", topology),
    Scenario("an admission check", admission_check),
    Scenario("a time limit", time_limit),
    Scenario("a missing queue, and a job that never fits", messages),
    *KILLS,
    Scenario("a job cannot grow without the feature gate", growing_without_slices, NO_SLICES),
    Scenario("waitForPodsReady", pods_that_do_not_get_ready, WAITING),
)
