"""What must hold of a job whatever happens: after each step, at each write, at each start, and in the end."""

from dijob import names
from dijob.core.actions import (
    Action,
    CreateBroker,
    CreateInOrder,
    CreatePod,
    DeleteJob,
    DeletePod,
    EndPod,
    ForceDeletePod,
    GiveBackPod,
    PublishAddresses,
)
from dijob.core.manifests import gang_of
from dijob.core.members import Gang, expand
from dijob.core.observe import Pod
from dijob.core.phases import ended, is_true
from dijob.core.world import NOBODY, SUSPENDED
from dijob.names import Addressing, CleanPodPolicy, FailureAction, Queue, Topology
from dijob.names import Condition as Type
from dijob.spec.status import Status
from hypothesis import currently_in_test_context, note
from hypothesis.stateful import RuleBasedStateMachine, invariant
from unit.deeds import FORGED
from unit.kubelet import Process, SimPod
from unit.simulator import Cluster, Operator, wait


class Watched(RuleBasedStateMachine):
    """The cluster and the operator, and all that is asserted about them."""

    cluster: Cluster
    operator: Operator
    policy: CleanPodPolicy
    most: int  # ranks ever wished for at a time
    exact: bool  # no failure so far that is free
    room: int = 4  # pods for which there are nodes

    def watch(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.operator = Operator(cluster, self.check_action, self.check_status)
        self.policy = cluster.job.spec.clean_pod_policy
        self.most = cluster.job.spec.desired
        self.exact = True
        self.active = 0.0  # seconds in which the job was not suspended
        self.before = Status()
        self.lists: dict[int, str] = {}
        self.charged: dict[str, int] = {}
        self.met: dict[str, str] = {}  # the server that a pod's process has begun with, by the pod's uid

    @property
    def gang(self) -> Gang:
        return gang_of(self.cluster.job)

    def time_passes(self, seconds: float) -> None:
        wait(self.cluster, seconds)
        self.active += 0 if self.cluster.job.status.suspend_time else seconds

    def pods(self) -> list[SimPod]:
        """The pods of the job's ranks, in rank order."""
        others = [*self.strangers(), *self.servers()]
        return [pod for _, pod in sorted(self.cluster.pods.items()) if pod not in others]

    def servers(self) -> list[SimPod]:
        """The pod of the job's own Redis server, where there is one."""
        return [
            pod for pod in self.cluster.pods.values() if names.LABEL_SERVER in pod.body["metadata"].get("labels", {})
        ]

    def life(self) -> str:
        """What is another one once the server was made anew, or its container has started again."""
        return "".join(f"{pod.uid} {pod.main.restarts}" for pod in self.servers())

    def strangers(self) -> list[SimPod]:
        return [pod for pod in self.cluster.pods.values() if "ownerReferences" not in pod.body["metadata"]]

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
        if any(rule.on_pod_conditions for rule in self.cluster.job.spec.failure_policy.rules):
            crashes += sum(pod.disrupted for pod in every)
        assert status.restarts <= crashes, (status, crashes)
        for charge in status.charged:
            assert charge.restarts + charge.disrupted >= charge.failures >= self.charged.get(charge.uid, 0), charge
            self.charged[charge.uid] = charge.failures
        failures = sum(self.charged.values())
        # Those that renew all ranks are charged together.
        together = any(rule.action is FailureAction.RESTART_JOB for rule in self.cluster.job.spec.failure_policy.rules)
        right = bool(failures) <= status.restarts <= failures if together else status.restarts == failures
        assert right or not self.exact, status

    @invariant()
    def one_number_means_one_list(self) -> None:
        """Among all that can meet: what lives now, and what the annotations would start now."""
        shown = [(p.epoch, p.env["DI_NODES"]) for p in self.cluster.processes]
        shown += [told(pod) for pod in self.pods() if told(pod)[0]]
        assert len({epoch for epoch, _ in shown}) == len(set(shown)), shown

    @property
    def named(self) -> bool:
        """Whether the ranks are told names."""
        return self.cluster.job.spec.addressing is Addressing.HOSTNAME

    def check_action(self, operator: Operator, action: Action) -> None:
        """What is true of each single write, judged just before it is made."""
        if currently_in_test_context():
            note(str(action))
        status = self.cluster.job.status
        if isinstance(action, DeleteJob):
            assert ended(status), action
            assert self.cluster.job.spec.ttl_seconds_after_finished is not None, action
        elif ended(status):
            view = operator.store.get(action.uid) if isinstance(action, DeletePod) else None
            never_began = view is not None and (view.gated or view.phase == "Pending" or view.name == self.gang.server)
            allowed = (EndPod,) if self.policy is CleanPodPolicy.NONE else (EndPod, DeletePod)
            assert isinstance(action, allowed) or never_began, action
        elif isinstance(action, DeletePod):
            self.check_deletion(operator, action, status)
        elif isinstance(action, ForceDeletePod):
            pod = self.cluster.find(action.name, action.uid)
            assert pod is None or pod.silent, action
        elif isinstance(action, CreateBroker):
            assert self.gang.server, action
            assert not status.suspend_time, action
        elif isinstance(action, CreatePod | CreateInOrder):
            assert not operator.job.spec.suspend, action
            assert not status.suspend_time, action
            members = action.members if isinstance(action, CreateInOrder) else (action.member,)
            assert not {member.rank for member in members} & expand(status.succeeded_ranks), action
            assert all(member.rank < operator.job.spec.desired for member in members), action
        elif isinstance(action, GiveBackPod):
            view = operator.store[action.uid]
            assert not view.ips, view
            assert self.gang.rank_of(view.name) >= operator.job.spec.minimum or status.epoch > 0, view
        elif isinstance(action, PublishAddresses):
            assert action.epoch >= status.epoch, action
            assert action.epoch == status.epoch or status.phase == "Running" or self.served(), action
            known = self.lists.get(action.epoch, action.ips) if action.epoch == status.epoch else action.ips
            assert known == action.ips, f"epoch {action.epoch} was {known}, becomes {action.ips}"
            self.lists[action.epoch] = action.ips

    def served(self) -> bool:
        """Whether the job's Redis server can be used, as far as the operator could know; nobody begins without."""
        views = [view for view in self.operator.store.values() if view.name == self.gang.server]
        return not self.gang.server or any(view.ready for view in views)

    def check_deletion(self, operator: Operator, action: DeletePod, status: Status) -> None:
        """What only the pod knows is written down before the pod goes."""
        view = operator.store[action.uid]
        if view.name == self.gang.server:
            return  # it knows nothing
        died = status.last_renewal.epoch if status.last_renewal else 0
        # Those of a dead list were counted when it died; what happens in them until they go is nobody's fault, nor is
        # what happens in those who are in no list any more.
        rank = self.gang.rank_of(view.name)
        doomed = died >= view.epoch > 0 and self.is_renewed(rank, status)
        doomed = doomed or (view.epoch > 0 and self.is_beyond(rank))
        assert doomed or self.is_counted(view, status), view
        assert not view.succeeded or rank in expand(status.succeeded_ranks), view

    def check_status(self, operator: Operator, status: Status) -> None:
        """Whatever else is put off: when a list dies, all that its pods have shown is counted."""
        if status.renewals > operator.job.status.renewals:
            ranks = (view for view in operator.store.values() if view.name != self.gang.server)
            known = [view for view in ranks if not (view.epoch and self.is_beyond(self.gang.rank_of(view.name)))]
            assert all(self.is_counted(view, status) for view in known), status

    def is_renewed(self, rank: int, status: Status) -> bool:
        assert status.last_renewal is not None
        if status.last_renewal.reason == SUSPENDED:
            return True
        return rank in expand(status.last_renewal.ranks) or rank >= self.operator.job.spec.desired

    def is_beyond(self, rank: int) -> bool:
        """Whether no list, and no wish, has this rank any more."""
        newest = max((pod.epoch, pod.ips) for pod in self.operator.store.values())
        return rank >= min(len(newest[1].split(",")), self.operator.job.spec.desired)

    def is_counted(self, view: Pod, status: Status) -> bool:
        charged = max((c.restarts for c in status.charged if c.uid == view.uid), default=0)
        return view.failures <= charged or view.disrupted or view.deleting or not view.sandbox

    def check_start(self, process: Process) -> None:
        """A process that starts is told the truth: about itself always, about those that it dials as far as anyone
        could know. (Of the others it may have an old list: it waits for them, and needs no address.)"""
        nodes, env = process.nodes, process.env
        own = self.named_address(process.rank)
        assert nodes[process.rank] == (own if self.named else env["DI_POD_IP"]), env
        assert env["DI_NUM_NODES"] in (str(len(nodes)), FORGED), env  # somebody's edit, until it is repaired
        assert env.get("DI_NODE_IPS", "") == ("" if self.named else env["DI_NODES"])
        every = [*self.cluster.pods.values(), *self.cluster.buried]
        for rank in self.dialled(process.rank):
            ip = nodes[rank]
            if ip == self.named_address(rank) and self.named:
                continue  # whoever has the name is found
            peers = [pod for pod in every if pod.rank == rank and ip in pod.addresses]
            finished = any(pod.main.last == 0 for pod in every if pod.rank == rank)
            assert peers or (finished and ip == NOBODY), f"rank {rank} in {env}"

    def named_address(self, rank: int) -> str:
        return f"{self.gang.member(rank).name}.job"

    def dialled(self, rank: int) -> list[int]:
        """Whom a rank connects to, written down once more (DI-engine 0.5.3, k8s_parser.py)."""
        topology = self.cluster.job.topology if self.cluster.job.queue == Queue.NNG else Topology.ALONE
        return {"mesh": list(range(rank)), "star": [0] if rank else [], "alone": []}[topology.value]

    def check_everything(self) -> None:
        """The invariants, for who drives the machine by hand."""
        self.a_deadline_comes_in_time()
        self.no_more_pods_than_wished()
        self.status_only_grows()
        self.nothing_is_charged_that_was_no_failure()
        self.one_number_means_one_list()

    @invariant()
    def a_deadline_comes_in_time(self) -> None:
        """Neither early, nor while the job is suspended."""
        failed = next((c for c in self.cluster.job.status.conditions if c.type == Type.FAILED), None)
        limit = self.cluster.job.spec.active_deadline_seconds
        if failed and failed.reason == "DeadlineExceeded":
            assert limit is not None
            assert self.active > limit - 5, (self.active, failed)  # stamps have whole seconds

    def check_suspended(self) -> None:
        status = self.cluster.job.status
        assert not self.cluster.pods, self.cluster.pods
        assert status.phase == "Suspended", status
        assert status.suspend_time

    def check_cleaned(self) -> None:
        assert self.cluster.gone or self.cluster.job.spec.ttl_seconds_after_finished is None
        if self.cluster.gone:
            return  # the garbage collector takes the rest
        assert not self.servers()
        left = [pod for pod in self.pods() if not pod.silent]  # what a lost node holds goes with it
        if self.policy is CleanPodPolicy.ALL:
            assert not left, left
        elif self.policy is CleanPodPolicy.RUNNING:
            assert all(pod.done for pod in left), left
        else:
            assert all(pod.done or told(pod)[0] for pod in left), left

    def check_running(self) -> None:
        status, size = self.cluster.job.status, self.operator.job.spec.desired
        waiting = [rank for rank in range(size) if rank not in expand(status.succeeded_ranks)]
        processes = {process.rank: process for process in self.cluster.processes}
        assert is_true(status, Type.RUNNING), status
        assert status.phase == "Running"
        assert sorted(processes) == waiting
        assert self.cluster.services == {"job", *filter(None, [self.gang.server])}
        assert self.served()
        assert is_true(status, Type.PEERS_READY), status
        ips = {pod.rank: f"{pod.name}.job" if self.named else pod.ip for pod in self.pods()}
        for pod in self.pods():
            if pod.rank in waiting:
                epoch, addresses = told(pod)
                assert epoch == status.epoch, pod
                assert pod.body["metadata"]["labels"][names.LABEL_JOB] == "job", pod
                assert [addresses.split(",")[rank] for rank in waiting] == [ips[rank] for rank in waiting], pod
        for process in processes.values():
            assert self.met[process.uid] == self.life(), f"{process} does not hear the server there is"
            dialled = [rank for rank in self.dialled(process.rank) if rank in waiting]
            assert [process.nodes[rank] for rank in dialled] == [ips[rank] for rank in dialled], process


def told(pod: SimPod) -> tuple[int, str]:
    """The number and the list in the pod's annotations."""
    annotations = pod.body["metadata"]["annotations"]
    return int(annotations.get(names.ANNOTATION_EPOCH, 0)), annotations.get(names.ANNOTATION_IPS, "")
