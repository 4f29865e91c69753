"""The state machine: all that can happen to a job's pods and to the operator, and what must hold all the while."""

from collections.abc import Sequence
from dataclasses import replace

from dijob.core.phases import ended
from dijob.core.plan import RESYNC_SECONDS
from dijob.names import Addressing, CleanPodPolicy, Launcher
from hypothesis import strategies as st
from hypothesis.stateful import initialize, rule
from unit.builders import Body, container, job
from unit.deeds import FATE, KUBELET, Deed
from unit.invariants import Watched
from unit.kubelet import SimPod
from unit.simulator import Cluster, Faults, wait

ROUNDS = 60
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
        self.watch(Cluster(job(pod, **spec)))

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

    @rule(replicas=st.integers(1, 4))
    def user_scales(self, replicas: int) -> None:
        self.cluster.scale(max(replicas, self.cluster.job.spec.minimum))
        self.most = max(self.most, replicas)

    @rule(room=st.sampled_from([4, 3, 2, 0]))
    def room_changes(self, room: int) -> None:
        self.room = room

    @rule(rank=st.integers(0, 3), exhausted=st.booleans(), leave=st.booleans(), seconds=st.sampled_from([0, 5, 700]))
    def surroundings_change(self, rank: int, exhausted: bool, leave: bool, seconds: float) -> None:
        """The quota, pods of other people, time."""
        self.cluster.quota = exhausted
        wait(self.cluster, seconds)
        name = f"job-{rank}"
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
            wait(self.cluster, self.operator.decided.requeue_after)
            self.check_everything()
            # A plan that wants to look again soon still hopes for something.
            resting = self.cluster.count == before and self.operator.decided.requeue_after >= RESYNC_SECONDS
            quiet = quiet + 1 if resting else 0
            if quiet == 2:
                break
        assert quiet == 2, f"no rest after {ROUNDS} rounds: {self.operator.decided}"
        assert not self.operator.plan().actions
        assert self.operator.decided.status == self.cluster.job.status
        self.check_cleaned() if ended(self.cluster.job.status) else self.check_running()

    # --- helpers ------------------------------------------------------------------------------------------------

    def happens(self, deed: str, index: int) -> None:
        """One deed by its name."""
        self.at(index, {**KUBELET, **FATE}[deed])

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

    def end(self, pod: SimPod) -> None:
        self.cluster.bury(pod) if pod.deleting else pod.kill("DeadlineExceeded")

    def kubelet_works(self) -> None:
        """One round of all that kubelets do by themselves."""
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


def pick(found: Sequence[SimPod], index: int) -> SimPod:
    return found[index % len(found)]
