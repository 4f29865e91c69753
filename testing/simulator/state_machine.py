"""The state machine: everything that can happen to a job's pods and to the operator, with
invariants that must hold at all times.
"""

from collections.abc import Sequence
from dataclasses import replace

from dijob import names
from dijob.core.options import Delivery, Options
from dijob.names import Addressing, CleanPodPolicy, Launcher, ServicePolicy
from hypothesis import strategies as st
from hypothesis.stateful import initialize, rule
from samples.builders import COMMAND, Body, container, job_body

from simulator.cluster import Cluster
from simulator.connection import Fault
from simulator.driving import PLENTY, ROUND_SECONDS, Driven, Faults
from simulator.kubelet import SimPod
from simulator.kueue import LABEL
from simulator.pod_actions import FATE, FORGERY, KUBELET, Deed
from simulator.virtual import VirtualLoop

DEADLINE = 900
# Runtimes whose ranks start together or not at all.
TORCH: Body = {"runtime": "torch", "restart": {"scope": "Job"}}
# Additional features of a job.
EXTRAS: dict[str, Body] = {
    "nothing": {},
    "tasks": {},
    "learners": {},
    "trainers": {},
    "success of rank 0": {"successPolicy": "Rank0"},
    "failures end it": {"failurePolicy": {"rules": [{"action": "FailJob"}]}},
    "failures renew all": {"failurePolicy": {"rules": [{"action": "RestartJob"}]}},
    "failures cost nothing": {"failurePolicy": {"rules": [{"action": "Ignore"}]}},
    "disruptions cost": {
        "failurePolicy": {
            "rules": [{"action": "Restart", "onPodConditions": [{"type": "DisruptionTarget"}]}]
        }
    },
    "a deadline": {"activeDeadlineSeconds": DEADLINE},
    "a time to live": {"ttlSecondsAfterFinished": 100},
    "stalls": {"stallSeconds": 10, "stallPolicy": "Restart"},
    "redis": {"messageQueue": {"type": "redis"}},
    "gang": {"scheduling": {"engine": "Native"}},
    "budget": {"disruptionBudget": {"maxUnavailable": 1}},
    "torch gang": {**TORCH, "scheduling": {"engine": "Native"}},
    "queue": {"queue": True},
    "torch queue": {**TORCH, "queue": True},
    "queued tasks": {"queue": True},
    # Volcano also counts pods that have succeeded.
    "Volcano": {"scheduling": {"engine": "Volcano", "queue": "team-a"}},
    "torch": TORCH,
    "torch, failures cost nothing": {
        **TORCH,
        "failurePolicy": {"rules": [{"action": "Ignore"}]},
    },
}
# What Kueue, or its administrator, does to the Workload of a job.
EVICT, TIMEOUT = "is evicted by its queue", "is evicted by its queue for a while"
DEACTIVATE, ACTIVATE = "its Workload is deactivated", "its Workload is activated"
UNQUEUE = "its Workload is deleted"
QUOTA = "its queue has a quota of"
INDEX = st.integers(0, 3)
FAULTS = st.builds(
    Faults,
    writes=st.sampled_from([0, 1, 2, 3, 5, PLENTY]),
    kills=st.booleans(),
    turn=st.integers(0, 3),
)
# Status codes of failing requests; 0 is a broken connection.
NOES = st.builds(
    Fault,
    method=st.sampled_from(["PATCH", "POST", "DELETE", "GET", "WATCH"]),
    plural=st.sampled_from(["pods", names.PLURAL, "services", "events", "poddisruptionbudgets"]),
    status=st.sampled_from([403, 409, 410, 422, 429, 500, 503, 0]),
    times=st.sampled_from([1, 2, 4]),
    done=st.booleans(),
)


class Chaos(Driven):
    """Each rule is one thing that can happen. Running the operator is a rule too, so anything can
    happen between its requests.
    """

    @initialize(
        size=st.sampled_from([3, 2, 4, 1]),
        policy=st.sampled_from(CleanPodPolicy),
        never=st.booleans(),
        sidecar=st.booleans(),
        limit=st.sampled_from([0, 1, 1000]),
        shape=st.sampled_from(
            [("mesh", "Pod"), ("star", "Pod"), ("alone", "Pod"), ("mesh", "Job")]
        ),
        least=st.sampled_from([4, 1, 2]),
        launcher=st.sampled_from(Launcher),
        addressing=st.sampled_from(Addressing),
        service=st.sampled_from(ServicePolicy),
        channel=st.booleans(),
        extra=st.sampled_from(sorted(EXTRAS.keys() - {"trainers"})),  # only in stories
        rounds=st.sampled_from([0, 2, 4, 5]),
    )
    def begin(  # noqa: PLR0913 (Hypothesis passes each as an argument)
        self,
        size: int,
        policy: CleanPodPolicy,
        never: bool,
        sidecar: bool,
        limit: int,
        shape: tuple[str, str] = ("mesh", "Pod"),
        least: int = 4,
        launcher: Launcher = Launcher.AUTO,
        addressing: Addressing = Addressing.IP,
        service: ServicePolicy = ServicePolicy.ALWAYS,
        channel: bool = False,
        blocked: bool = False,
        no_mount: tuple[str, str] = ("", ""),
        extra: str = "nothing",
        rounds: int = 0,
    ) -> None:
        """Create a job. First it runs `rounds` rounds without faults, because half of the rules
        apply only to a job that runs.
        """
        delivery = Delivery.AUTO if no_mount[0] else Delivery.INIT_CONTAINER
        more = dict(EXTRAS[extra])
        queued = bool(more.pop("queue", False))
        if extra == "stalls":
            launcher, limit = Launcher.AUTO, max(limit, 1)
        self.options = Options(
            channel="operator:1" if channel else "", launcher_delivery=delivery, queues=queued
        )
        # Without the launcher, the command itself must tell the program that it has peers.
        joins = [] if launcher is Launcher.AUTO else ["--platform", "k8s"]
        pod: Body = {
            "containers": [
                container(command=[*COMMAND, *joins]),
                *([{"name": "side", "image": "s"}] if sidecar else []),
            ]
        }
        if never:
            pod |= {"restartPolicy": "Never"}
        spec: Body = {"cleanPodPolicy": policy.value, "backoffLimit": limit, "maxReplicas": 4}
        spec |= {
            "addressing": addressing.value,
            "service": service.value,
            "launcher": launcher.value,
            "topology": shape[0],
            "restart": {"scope": shape[1]},
            "minReplicas": min(least, size),
        }
        spec |= {} if size == 4 else {"replicas": size}
        cluster = Cluster(VirtualLoop())
        made = job_body(pod, **spec | more)
        if extra in ("tasks", "queued tasks", "learners"):
            made = in_tasks(size, pod, spec, together=extra == "learners")
        elif extra == "trainers":
            made = in_tasks(size, pod, spec, together=False)
            last = made["spec"]["tasks"][-1]
            last |= {"runtime": "torch", "replicas": last.get("replicas", 1)}
        if queued:
            made = {**made, "metadata": {**made["metadata"], "labels": LABEL}}
        cluster.apply(made)
        cluster.channel_blocked = blocked
        cluster.no_mount = no_mount
        self.watch(cluster)
        self.operator.start()
        if rounds:
            self.it_goes_on_until_a_fault(rounds, Faults())

    # --- what happens
    # -------------------------------------------------------------------------------------------

    @rule(faults=FAULTS, hears=st.booleans(), seconds=st.sampled_from([0, 0.5, 4]))
    def operator_goes_on(self, faults: Faults, hears: bool, seconds: float) -> None:
        """Run the operator for a while. Unless `hears` is true, the watches deliver nothing during
        this time.
        """
        self.hears(hears)
        self.goes_on(faults, seconds)
        self.hears(False)

    @rule(rounds=st.integers(0, 6), faults=FAULTS)
    def it_goes_on_until_a_fault(self, rounds: int, faults: Faults) -> None:
        """Run several rounds. Without this rule, a test would very rarely reach a state in which
        all ranks of the job are running.
        """
        self.hears(True)
        for fault in [Faults()] * rounds + [faults]:
            self.nodes.work()
            self.goes_on(fault, ROUND_SECONDS)
        self.hears(False)

    @rule(count=st.integers(1, 3))
    def operator_hears_of_some(self, count: int) -> None:
        self.cluster.watches.release(count)
        self.goes_on(Faults(), 0)

    @rule()
    def operator_restarts(self) -> None:
        self.restart()

    @rule(fault=NOES)
    def apiserver_says_no(self, fault: Fault) -> None:
        self.line.faults.append(replace(fault))

    @rule(
        how=st.sampled_from(["end", "reset", "expired", "again", "silence"]),
        lose=st.booleans(),
        index=INDEX,
    )
    def watches_break(self, how: str, lose: bool, index: int) -> None:
        """Break the watches. If they end with `lose`, also remove a pod. No event reports its
        removal.
        """
        if how == "again":
            self.cluster.watches.repeat(index + 1)
        elif how == "silence":
            self.cluster.watches.silence()
        else:
            self.hears(False)
            if lose and (pods := self.pods()):
                self.cluster.bury(pick(pods, index))
                self.cluster.server.compact()
            self.cluster.watches.end(how, lose)

    @rule(deed=st.sampled_from(sorted(KUBELET)), index=INDEX)
    def kubelet(self, deed: str, index: int) -> None:
        self.at(index, KUBELET[deed])

    @rule(deed=st.sampled_from(sorted(FATE)), index=INDEX)
    def pod(self, deed: str, index: int) -> None:
        self.at(index, FATE[deed])

    @rule(how=st.sampled_from(["deleted", "evicted", "crashes"]))
    def server_is_lost(self, how: str) -> None:
        for pod in self.servers():
            if how == "crashes" and pod.main.state == "running":
                pod.end(pod.main, 137)
                self.cluster.report(pod)
            elif how == "evicted" and pod.sandbox:
                pod.kill("Evicted")
                self.cluster.report(pod)
            else:
                self.cluster.delete(pod)

    @rule(replicas=st.integers(1, 4))
    def user_scales(self, replicas: int) -> None:
        if self.cluster.gone():
            return
        self.cluster.scale(max(replicas, self.job.spec.minimum))
        self.most = max(self.most, replicas)

    @rule(suspend=st.booleans())
    def user_suspends(self, suspend: bool) -> None:
        if not self.cluster.gone():
            self.cluster.edit(suspend=suspend)

    @rule(room=st.sampled_from([0, 2, 4]), dies=st.booleans())
    def quota_changes(self, room: int, dies: bool) -> None:
        """Give the queue another quota. `dies`: Kueue is killed in the middle of each growth."""
        if self.kueue is not None:
            self.kueue.quota, self.kueue.dies = room, dies

    @rule(how=st.sampled_from([EVICT, TIMEOUT, DEACTIVATE, ACTIVATE, UNQUEUE]))
    def queue_decides(self, how: str) -> None:
        """Let Kueue, or its administrator, do something to the job's Workload."""
        kueue = self.kueue
        if kueue is None or not kueue.workloads():
            return
        if how == UNQUEUE:
            if len(kueue.workloads()) == 1:
                self.cluster.remove("workloads", kueue.only()["metadata"]["name"])
        elif how in (EVICT, TIMEOUT):
            kueue.evict("Preempted" if how == EVICT else "PodsReadyTimeout")
        else:
            kueue.activate(how == ACTIVATE)

    @rule(most=st.sampled_from([0, 1, 2, None]))
    def user_changes_budget(self, most: int | None) -> None:
        if self.cluster.gone() or self.job.spec.tasks:
            return
        self.cluster.edit(disruptionBudget=None if most is None else {"maxUnavailable": most})

    @rule(room=st.sampled_from([4, 3, 2, 0]))
    def room_changes(self, room: int) -> None:
        self.nodes.room = room

    @rule(
        rank=st.integers(0, 3),
        exhausted=st.booleans(),
        leave=st.booleans(),
        seconds=st.sampled_from([0, 5, 60, 700]),
    )
    def surroundings_change(self, rank: int, exhausted: bool, leave: bool, seconds: float) -> None:
        """Change the quota, the pods that do not belong to the job, or the time."""
        self.cluster.quota = exhausted
        self.time_passes(seconds)
        name = self.gang.member(rank).name
        if leave:
            self.strangers_leave()
        elif name not in self.cluster.names_of("pods"):
            spec = {"containers": [{"name": "x"}], "restartPolicy": "OnFailure"}
            self.cluster.create("pods", {"metadata": {"name": name}, "spec": spec})

    # --- when the faults are over
    # -------------------------------------------------------------------------------

    def teardown(self) -> None:
        if not hasattr(self, "cluster"):
            return
        try:
            self.ends_right()
        finally:
            self.close()

    def happens(self, deed: str, index: int) -> None:
        """Do an action by its name."""
        self.at(index, {**KUBELET, **FATE, **FORGERY}[deed])

    def at(self, index: int, deed: Deed) -> None:
        """Perform an action on one of the pods to which it applies."""
        found = [pod for pod in self.pods() if deed.possible(pod)]
        if found:
            pod = pick(found, index)
            deed.do(self, pod)
            self.cluster.report(pod)


def in_tasks(size: int, pod: Body, spec: Body, *, together: bool) -> Body:
    """Return the same job with tasks: one learner, the rest collectors. If `together`, there are up
    to two learners, whose runtime is torch.
    """
    template = {"spec": pod}
    learners = min(2, size) if together else 1
    own = {"runtime": "torch", "replicas": learners} if together else {}
    tasks: list[Body] = [{"type": "learner", "template": template, **own}]
    if left := size - learners:
        tasks.append({"type": "collector", "replicas": left, "template": template})
    others = learners if left else 0
    tasks[-1] |= {"minReplicas": max(1, spec["minReplicas"] - others)}
    tasks[-1] |= {"maxReplicas": spec["maxReplicas"] - others}
    rest = {
        name: value
        for name, value in spec.items()
        if name not in ("replicas", "minReplicas", "maxReplicas")
    }
    made = job_body(**rest, tasks=tasks, successPolicy="learner")
    for name in ("replicas", "template"):
        made["spec"].pop(name)
    return made


def pick(found: Sequence[SimPod], index: int) -> SimPod:
    return found[index % len(found)]
