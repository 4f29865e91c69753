"""The state machine: all that can happen to a job's pods and to the operator, and what must hold all the while."""

from collections.abc import Sequence
from dataclasses import replace

from dijob import names
from dijob.actions import Action, CreatePod, DeletePod, EndPod, PublishAddresses
from dijob.members import expand
from dijob.names import CleanPodPolicy
from dijob.names import Condition as Type
from dijob.observe import Pod
from dijob.phases import ended, is_true
from dijob.plan import RESYNC_SECONDS
from dijob.status import Status
from dijob.world import NOBODY
from hypothesis import currently_in_test_context, note
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from unit.builders import Body, container, job
from unit.deeds import FATE, KUBELET, Deed
from unit.kubelet import Process, SimPod
from unit.simulator import Cluster, Faults, Operator, wait

ROUNDS = 60
INDEX = st.integers(0, 3)
FAULTS = st.builds(
    Faults, writes=st.sampled_from([0, 1, 2, 3, 5, 1_000_000]), turn=st.integers(0, 3), put_off=st.booleans()
)


class Chaos(RuleBasedStateMachine):
    """Each rule is one thing that happens; the operator's passes are rules too: anything can come in between."""

    @initialize(
        size=st.sampled_from([3, 2, 4, 1]),
        policy=st.sampled_from(CleanPodPolicy),
        never=st.booleans(),
        sidecar=st.booleans(),
        limit=st.sampled_from([0, 1, 1000]),
    )
    def begin(self, size: int, policy: CleanPodPolicy, never: bool, sidecar: bool, limit: int) -> None:
        pod: Body = {"containers": [container(), *([{"name": "side", "image": "s"}] if sidecar else [])]}
        if never:
            pod |= {"restartPolicy": "Never"}
        spec: Body = {"cleanPodPolicy": policy.value, "backoffLimit": limit, "minReplicas": 1, "maxReplicas": 4}
        spec |= {} if size == 4 else {"replicas": size}
        self.cluster = Cluster(job(pod, **spec))
        self.operator = Operator(self.cluster, self.check_action, self.check_status)
        self.policy = policy
        self.most = size
        self.before = Status()
        self.lists: dict[int, str] = {}
        self.charged: dict[str, int] = {}
        self.exact = True  # no failure so far that is free

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
        self.cluster.scale(replicas)
        self.most = max(self.most, replicas)

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

    # --- what must hold -----------------------------------------------------------------------------------------

    @invariant()
    def no_more_pods_than_wished(self) -> None:
        live = [pod.name for pod in self.pods() if not pod.deleting and not pod.done]
        assert len(live) <= self.most, live
        assert len({pod.rank for pod in self.pods()}) == len(self.pods())

    @invariant()
    def status_only_grows(self) -> None:
        old, new = self.before, self.cluster.job.status
        for field in ("epoch", "restarts", "renewals"):
            assert getattr(new, field) >= getattr(old, field), (field, old, new)
        assert expand(new.succeeded_ranks) >= expand(old.succeeded_ranks)
        for field in ("first_failure", "start_time", "completion_time"):
            assert getattr(old, field) in (None, getattr(new, field)), (field, old, new)
        assert not ended(old) or ended(new)
        self.before = new

    @invariant()
    def nothing_is_charged_that_was_no_failure(self) -> None:
        status, every = self.cluster.job.status, [*self.cluster.pods.values(), *self.cluster.buried]
        crashes = sum(pod.crashes for pod in every)
        assert status.restarts <= crashes, (status.restarts, crashes)
        for charge in status.charged:
            assert charge.restarts >= self.charged.get(charge.uid, 0), charge
            self.charged[charge.uid] = charge.restarts
        assert status.restarts == sum(self.charged.values()) or not self.exact, status

    @invariant()
    def one_number_means_one_list(self) -> None:
        """Among all that can meet: what lives now, and what the annotations would start now."""
        shown = [(p.epoch, p.env["DI_NODES"]) for p in self.cluster.processes]
        shown += [told(pod) for pod in self.pods() if told(pod)[0]]
        assert len({epoch for epoch, _ in shown}) == len(set(shown)), shown

    def check_action(self, operator: Operator, action: Action) -> None:
        """What is true of each single write, judged just before it is made."""
        if currently_in_test_context():
            note(str(action))
        status = self.cluster.job.status
        if ended(status):
            allowed = (EndPod,) if self.policy is CleanPodPolicy.NONE else (EndPod, DeletePod)
            assert isinstance(action, allowed), action
        elif isinstance(action, DeletePod):
            self.check_deletion(operator, action, status)
        elif isinstance(action, CreatePod):
            assert action.member.rank not in expand(status.succeeded_ranks), action
            assert action.member.rank < operator.job.spec.desired, action
        elif isinstance(action, PublishAddresses):
            assert action.epoch >= status.epoch, action
            known = self.lists.get(action.epoch, action.ips) if action.epoch == status.epoch else action.ips
            assert known == action.ips, f"epoch {action.epoch} was {known}, becomes {action.ips}"
            self.lists[action.epoch] = action.ips

    def check_deletion(self, operator: Operator, action: DeletePod, status: Status) -> None:
        """What only the pod knows is written down before the pod goes."""
        view = operator.store[action.uid]
        died = status.last_renewal.epoch if status.last_renewal else 0
        # Those of a dead list were counted when it died; what happens in them until they go is nobody's fault.
        assert died >= view.epoch > 0 or self.is_counted(view, status), view
        assert not view.succeeded or view.rank in expand(status.succeeded_ranks), view

    def check_status(self, operator: Operator, status: Status) -> None:
        """Whatever else is put off: when a list dies, all that its pods have shown is counted."""
        if status.renewals > operator.job.status.renewals:
            assert all(self.is_counted(view, status) for view in operator.store.values()), status

    def is_counted(self, view: Pod, status: Status) -> bool:
        charged = max((c.restarts for c in status.charged if c.uid == view.uid), default=0)
        return view.failures <= charged or view.disrupted or view.deleting or not view.sandbox

    def check_start(self, process: Process) -> None:
        """A process that starts is told the truth: about itself always, about others as far as anyone could know."""
        nodes, env = process.nodes, process.env
        assert nodes[process.rank] == env["DI_POD_IP"], env
        assert len(nodes) == int(env["DI_NUM_NODES"]), env
        assert env["DI_NODE_IPS"] == env["DI_NODES"]
        every = [*self.cluster.pods.values(), *self.cluster.buried]
        for rank, ip in enumerate(nodes):
            peers = [pod for pod in every if pod.rank == rank and ip in pod.addresses]
            epochs = [told(pod)[0] for pod in peers]
            # 0: it has not been told yet. A smaller one: it is of a world that has died.
            fits = any(epoch in (0, process.epoch) for epoch in epochs)
            finished = any(pod.main.last == 0 for pod in every if pod.rank == rank)
            assert fits or (finished and (ip == NOBODY or peers)), f"rank {rank} in {env}: {epochs}"

    def check_everything(self) -> None:
        """The invariants, for who drives the machine by hand."""
        self.no_more_pods_than_wished()
        self.status_only_grows()
        self.nothing_is_charged_that_was_no_failure()
        self.one_number_means_one_list()

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
        self.cluster.quota, quiet = False, 0
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

    def check_cleaned(self) -> None:
        left = self.pods()
        if self.policy is CleanPodPolicy.ALL:
            assert not left, left
        elif self.policy is CleanPodPolicy.RUNNING:
            assert all(pod.done for pod in left), left

    def check_running(self) -> None:
        status, size = self.cluster.job.status, self.operator.job.spec.desired
        waiting = [rank for rank in range(size) if rank not in expand(status.succeeded_ranks)]
        processes = {process.rank: process for process in self.cluster.processes}
        assert is_true(status, Type.RUNNING), status
        assert status.phase == "Running"
        assert sorted(processes) == waiting
        assert self.cluster.service
        assert {process.epoch for process in processes.values()} == {status.epoch}
        ips = {pod.rank: pod.ip for pod in self.pods()}
        for process in processes.values():
            assert [process.nodes[rank] for rank in waiting] == [ips[rank] for rank in waiting], process

    # --- helpers ------------------------------------------------------------------------------------------------

    def pods(self) -> list[SimPod]:
        """The job's own pods, in rank order."""
        return [pod for _, pod in sorted(self.cluster.pods.items()) if pod not in self.strangers()]

    def strangers(self) -> list[SimPod]:
        return [pod for pod in self.cluster.pods.values() if "ownerReferences" not in pod.body["metadata"]]

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
        pod.place(free[0])

    def start(self, pod: SimPod) -> None:
        process = pod.start()
        if process is not None:
            self.check_start(process)

    def end(self, pod: SimPod) -> None:
        self.cluster.bury(pod) if pod.deleting else pod.kill("DeadlineExceeded")

    def kubelet_works(self) -> None:
        """One round of all that kubelets do by themselves."""
        for pod in self.pods():
            if pod.deleting or pod.overdue:
                self.end(pod)
            elif not pod.sandbox and not pod.done:
                self.place(pod, reuse=False)
            elif pod.startable():
                self.start(pod)
            elif pod.process is None or pod.ready:
                continue
            else:
                pod.ready = True
            self.cluster.touch(pod.body)


def told(pod: SimPod) -> tuple[int, str]:
    """The number and the list in the pod's annotations."""
    annotations = pod.body["metadata"]["annotations"]
    return int(annotations.get(names.ANNOTATION_EPOCH, 0)), annotations.get(names.ANNOTATION_IPS, "")


def pick(found: Sequence[SimPod], index: int) -> SimPod:
    return found[index % len(found)]
