"""The state machine: all that can happen to a job's pods and to the operator, and what must hold all the while."""

from collections.abc import Sequence
from dataclasses import replace

from dijob.core.phases import ended
from dijob.core.waits import RESYNC_SECONDS
from dijob.names import Addressing, CleanPodPolicy, Launcher
from dijob.spec.model import DIJob
from dijob.spec.status import stamp
from hypothesis import strategies as st
from hypothesis.stateful import initialize, rule
from unit.builders import Body, container, job, job_body
from unit.deeds import FATE, FORGERY, KUBELET, Deed
from unit.invariants import Watched
from unit.kubelet import SimPod
from unit.simulator import Cluster, Faults

ROUNDS = 60
DEADLINE = 900
# What else a job can ask for.
EXTRAS: dict[str, Body] = {
    "nothing": {},
    "tasks": {},
    "success of rank 0": {"successPolicy": "Rank0"},
    "failures end it": {"failurePolicy": {"rules": [{"action": "FailJob"}]}},
    "failures renew all": {"failurePolicy": {"rules": [{"action": "RestartJob"}]}},
    "failures cost nothing": {"failurePolicy": {"rules": [{"action": "Ignore"}]}},
    "disruptions cost": {
        "failurePolicy": {"rules": [{"action": "Restart", "onPodConditions": [{"type": "DisruptionTarget"}]}]}
    },
    "a deadline": {"activeDeadlineSeconds": DEADLINE},
    "a time to live": {"ttlSecondsAfterFinished": 100},
    "redis": {"messageQueue": {"type": "redis"}},
}
INDEX = st.integers(0, 3)
FAULTS = st.builds(
    Faults, writes=st.sampled_from([0, 1, 2, 3, 5, 1_000_000]), turn=st.integers(0, 3), put_off=st.booleans()
)


class Chaos(Watched):
    """Each rule is one thing that happens; the operator's passes are rules too: anything can come in between."""

    @initialize(
        size=st.sampled_from([3, 2, 4, 1]),
        policy=st.sampled_from(CleanPodPolicy),
        never=st.booleans(),
        sidecar=st.booleans(),
        limit=st.sampled_from([0, 1, 1000]),
        shape=st.sampled_from([("mesh", "Pod"), ("star", "Pod"), ("alone", "Pod"), ("mesh", "Job")]),
        least=st.sampled_from([4, 1, 2]),
        launcher=st.sampled_from(Launcher),
        addressing=st.sampled_from(Addressing),
        extra=st.sampled_from(sorted(EXTRAS)),
    )
    def begin(  # noqa: PLR0913 (Hypothesis gives each as an argument)
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
        extra: str = "nothing",
    ) -> None:
        pod: Body = {"containers": [container(), *([{"name": "side", "image": "s"}] if sidecar else [])]}
        if never:
            pod |= {"restartPolicy": "Never"}
        spec: Body = {"cleanPodPolicy": policy.value, "backoffLimit": limit, "maxReplicas": 4}
        spec |= {
            "addressing": addressing.value,
            "launcher": launcher.value,
            "topology": shape[0],
            "restart": {"scope": shape[1]},
            "minReplicas": min(least, size),
        }
        spec |= {} if size == 4 else {"replicas": size}
        self.watch(Cluster(in_tasks(size, pod, spec) if extra == "tasks" else job(pod, **spec | EXTRAS[extra])))

    # --- what happens -------------------------------------------------------------------------------------------

    @rule(faults=FAULTS, hears=st.booleans())
    def operator_passes(self, faults: Faults, hears: bool) -> None:
        if hears:
            self.operator.relist()
        self.operator.run_pass(replace(faults))

    @rule(rounds=st.integers(0, 6), faults=FAULTS)
    def it_goes_on_until_a_fault(self, rounds: int, faults: Faults) -> None:
        """Without this the deep states (a whole world, running) would be found once in a blue moon."""
        for fault in [Faults()] * rounds + [faults]:
            self.kubelet_works()
            self.operator.relist()
            self.operator.run_pass(replace(fault))

    @rule(index=INDEX)
    def operator_hears_of_a_pod(self, index: int) -> None:
        stored = [pod for pod in self.cluster.buried if pod.uid in self.operator.store]
        if seen := [*self.pods(), *stored]:
            self.operator.see(pick(seen, index))

    @rule()
    def operator_restarts(self) -> None:
        self.operator.restart()

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
                self.cluster.touch(pod.body)
            elif how == "evicted" and pod.sandbox:
                pod.kill("Evicted")
                self.cluster.touch(pod.body)
            else:
                self.cluster.delete(pod.name, pod.uid)

    @rule(replicas=st.integers(1, 4))
    def user_scales(self, replicas: int) -> None:
        self.cluster.scale(max(replicas, self.cluster.job.spec.minimum))
        self.most = max(self.most, replicas)

    @rule(suspend=st.booleans())
    def user_suspends(self, suspend: bool) -> None:
        self.cluster.edit(suspend=suspend)

    @rule(room=st.sampled_from([4, 3, 2, 0]))
    def room_changes(self, room: int) -> None:
        self.room = room

    @rule(rank=st.integers(0, 3), exhausted=st.booleans(), leave=st.booleans(), seconds=st.sampled_from([0, 5, 700]))
    def surroundings_change(self, rank: int, exhausted: bool, leave: bool, seconds: float) -> None:
        """The quota, pods of other people, time."""
        self.cluster.quota = exhausted
        self.time_passes(seconds)
        name = self.gang.member(rank).name
        if leave:
            self.strangers_leave()
        elif name not in self.cluster.pods:
            meta = {"name": name, "namespace": "ns", "annotations": {}}
            spec = {"containers": [{"name": "x"}], "restartPolicy": "OnFailure"}
            self.cluster.create({"metadata": meta, "spec": spec})

    # --- when the faults are over -------------------------------------------------------------------------------

    def teardown(self) -> None:
        if not hasattr(self, "cluster"):
            return
        self.calm()
        if self.cluster.job.spec.suspend:
            self.cluster.edit(suspend=False)
            self.calm()
        for pod in self.pods():
            if pod.process is not None and not ended(self.cluster.job.status):
                pod.end(pod.main, 0)
        self.calm()
        assert ended(self.cluster.job.status), self.cluster.job.status

    def calm(self) -> None:
        """Until nothing happens any more, which must come soon and must be the right end."""
        self.cluster.quota, self.room, quiet = False, 4, 0
        self.strangers_leave()
        for _ in range(ROUNDS):
            before = self.cluster.count
            self.kubelet_works()
            self.operator.relist()
            self.operator.run_pass(Faults())
            self.time_passes(self.operator.decided.requeue_after)
            self.check_everything()
            # A plan that wants to look again soon still hopes for something.
            resting = self.cluster.count == before and self.operator.decided.requeue_after >= RESYNC_SECONDS
            quiet = quiet + 1 if resting or self.cluster.gone else 0
            if quiet == 2:
                break
        assert quiet == 2, f"no rest after {ROUNDS} rounds: {self.operator.decided}"
        timeless = ended(self.cluster.job.status) or not self.cluster.job.spec.active_deadline_seconds
        if timeless and not self.cluster.gone:
            assert not self.operator.plan().actions
            assert self.operator.decided.status == self.cluster.job.status
        if ended(self.cluster.job.status):
            self.check_cleaned()
        elif self.cluster.job.spec.suspend:
            self.check_suspended()
        else:
            self.check_running()

    # --- helpers ------------------------------------------------------------------------------------------------

    def happens(self, deed: str, index: int) -> None:
        """One deed by its name."""
        self.at(index, {**KUBELET, **FATE, **FORGERY}[deed])

    def at(self, index: int, deed: Deed) -> None:
        """Do something to one of the pods to which it can happen."""
        found = [pod for pod in self.pods() if deed.possible(pod)]
        if found:
            pod = pick(found, index)
            deed.do(self, pod)
            self.cluster.touch(pod.body)

    def strangers_leave(self) -> None:
        for pod in self.strangers():
            self.cluster.bury(pod)

    def place(self, pod: SimPod, reuse: bool) -> None:
        taken = {other.ip for other in self.cluster.pods.values()}
        free = [f"10.0.0.{n}" for n in range(1, self.cluster.ips + 1) if f"10.0.0.{n}" not in taken]
        if not reuse or not free:
            self.cluster.ips += 1
            free = [f"10.0.0.{self.cluster.ips}"]
        pod.placed = pod.placed or self.cluster.now.isoformat()
        pod.place(free[0])

    def has_room(self, pod: SimPod) -> bool:
        """A pod that is on a node stays there; the scheduler says of another when it finds none."""
        placed = sum("nodeName" in other.body["spec"] for other in self.pods())
        pod.homeless = "nodeName" not in pod.body["spec"] and placed >= self.room
        return not pod.homeless

    def start(self, pod: SimPod) -> None:
        process = pod.start()
        if process is not None:
            self.check_start(process)
            self.met[pod.uid] = self.life()

    def end(self, pod: SimPod) -> None:
        self.cluster.bury(pod) if pod.deleting else pod.kill("DeadlineExceeded")

    def serve(self, pod: SimPod) -> None:
        """The kubelet's round for the job's Redis server."""
        if pod.deleting:
            self.cluster.bury(pod)
        elif not pod.done and pod.main.state != "running":
            if not pod.sandbox:
                self.place(pod, reuse=False)
            pod.main.start(stamp(self.cluster.now))
            pod.ready = True
            self.cluster.touch(pod.body)

    def kubelet_works(self) -> None:
        """One round of all that kubelets do by themselves."""
        for pod in self.servers():
            self.serve(pod)
        for pod in self.pods():
            if pod.silent:
                continue
            if pod.deleting or pod.overdue:
                self.end(pod)
            elif not pod.sandbox and not pod.done:
                if self.has_room(pod):
                    self.place(pod, reuse=False)
            elif pod.due:
                pod.renew()
            elif pod.startable():
                self.start(pod)
            elif pod.process is None or pod.ready:
                continue
            else:
                pod.ready = True
            self.cluster.touch(pod.body)


def in_tasks(size: int, pod: Body, spec: Body) -> DIJob:
    """The same job with tasks: one learner, and collectors."""
    template = {"spec": pod}
    tasks = [{"type": "learner", "template": template}]
    tasks += [{"type": "collector", "replicas": size - 1, "template": template}] if size > 1 else []
    rest = {name: value for name, value in spec.items() if name not in ("replicas", "minReplicas", "maxReplicas")}
    made = job_body(**rest, tasks=tasks, successPolicy="learner")
    for name in ("replicas", "template"):
        made["spec"].pop(name)
    return DIJob.parse(made)


def pick(found: Sequence[SimPod], index: int) -> SimPod:
    return found[index % len(found)]
