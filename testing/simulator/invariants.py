"""Invariants of a job. They are checked after each step, when a process starts in a pod, and when
the system has come to rest.
"""

from dijob import names
from dijob.api.status import parse_time
from dijob.core.facts import is_true
from dijob.core.members import parse_ranks
from dijob.core.membership.address_list import PLACEHOLDER
from dijob.core.report.time_spent import COUNTED
from dijob.names import Activity, CleanPodPolicy, FailureAction, Queue, Topology
from dijob.reasons import PeersReady, Running
from hypothesis.stateful import invariant

from simulator.containers import Process
from simulator.kubelet import SimPod
from simulator.pod_actions import FORGED
from simulator.write_checks import Judged

BUDGETS = "poddisruptionbudgets"


class Watched(Judged):
    """All assertions, during faults and after the system has come to rest."""

    @invariant()
    def no_more_pods_than_wished(self) -> None:
        live = [pod.name for pod in self.pods() if not pod.deleting and not pod.done]
        assert len(live) <= self.most, live
        assert len({pod.rank for pod in self.pods()}) == len(self.pods())

    @invariant()
    def pods_have_quota(self) -> None:
        """The pods of a job with a queue never use more quota than Kueue has granted."""
        if self.kueue is None or self.kueue.is_lost():
            return
        live = [pod.name for pod in self.pods() if not pod.done]
        assert len(live) <= self.kueue.used() or self.job.status.ended, live

    @invariant()
    def status_only_grows(self) -> None:
        old, new = self.before, self.job.status
        for field in ("list_number", "restarts", "renewals"):
            assert getattr(new, field) >= getattr(old, field), (field, old, new)
        # If a job or a task can restart only as a whole, a loss also restarts its ranks that have
        # succeeded. No other rank loses its success.
        again = old.last_renewal != new.last_renewal
        lost = parse_ranks(old.succeeded_ranks) - parse_ranks(new.succeeded_ranks)
        assert not lost or (again and (self.together or lost <= self.group))
        for field in ("first_failure", "start_time", "completion_time"):
            assert getattr(old, field) in (None, getattr(new, field)), (field, old, new)
        assert not old.ended or new.ended
        self.before = new

    @invariant()
    def the_time_adds_up(self) -> None:
        """The seconds of past activities add up to the time until the current activity began."""
        figures = self.job.status.goodput
        if figures is None:
            assert not self.job.status.phase, "the first status has no figures"
            return
        begin, until = parse_time(figures.since), parse_time(figures.activity_since)
        assert begin
        assert until
        past = (getattr(figures, f"{each.lower()}_seconds") for each in COUNTED)
        assert sum(past) == int((until - begin).total_seconds()), figures
        known = sum(one.seconds for one in figures.last_interruptions)
        assert known <= figures.recovering_seconds, figures
        assert self.job.status.ended <= (figures.activity is Activity.ENDED), figures

    @invariant()
    def nothing_is_charged_that_was_no_failure(self) -> None:
        status, every = self.job.status, [*self.cluster.pods.values(), *self.cluster.buried]
        crashes = sum(pod.crashes for pod in every)
        if any(rule.on_pod_conditions for rule in self.job.spec.failure_policy.rules):
            crashes += sum(pod.disrupted for pod in every)
        stalls = int(bool(status.stall and status.stall.restarted))
        assert status.restarts <= crashes + stalls, (status, crashes)
        for charge in status.restarts_seen:
            assert (
                charge.restarts + charge.disrupted
                >= charge.failures
                >= self.charged.get(charge.uid, 0)
            ), charge
            self.charged[charge.uid] = charge.failures
        failures = sum(self.charged.values())
        # If several failures lead to the same restart of all ranks, or of all ranks of a group,
        # they count as one failure.
        together = bool(self.group) or any(
            rule.action is FailureAction.RESTART_JOB for rule in self.job.spec.failure_policy.rules
        )
        right = (
            bool(failures) <= status.restarts - stalls <= failures
            if together
            else status.restarts - stalls == failures
        )
        assert right or not self.exact, status

    @invariant()
    def one_number_means_one_list(self) -> None:
        """A revision means the same list to all processes that are running or could start now."""
        shown = [(p.list_number, p.env["DI_NODES"]) for p in self.cluster.processes]
        shown += [pod.told for pod in self.pods() if pod.told[0]]
        assert len({number for number, _ in shown}) == len(set(shown)), shown

    def process_starts(self, pod: SimPod, process: Process) -> None:
        self.check_start(process)
        self.met[pod.uid] = self.run_of()

    def check_start(self, process: Process) -> None:
        """Check the peer list with which a process starts.

        Its own address must be correct, and the addresses of the peers that it dials must be
        correct as far as the operator could know. Other addresses may be old, because
        the process does not dial them.
        """
        nodes, env = process.nodes, process.env
        own = self.named_address(process.rank)
        assert nodes[process.rank] == (own if self.named else env["DI_POD_IP"]), env
        # FORGED: a manual edit that has not been undone yet.
        assert env["DI_NUM_NODES"] in (str(len(nodes)), FORGED), env
        members = self.group if process.rank in self.group else ()
        assert PLACEHOLDER not in {nodes[rank] for rank in members if rank < len(nodes)}, (
            f"a placeholder address in a gang restart: {env}"
        )
        assert env.get("DI_NODE_IPS", "") == ("" if self.named else env["DI_NODES"])
        every = [*self.cluster.pods.values(), *self.cluster.buried]
        for rank in self.dialled(process.rank):
            ip = nodes[rank]
            if ip == self.named_address(rank) and self.named:
                continue  # the name resolves to the current pod
            peers = [pod for pod in every if pod.rank == rank and ip in pod.addresses]
            finished = any(pod.main.last == 0 for pod in every if pod.rank == rank)
            assert peers or (finished and ip == PLACEHOLDER), f"rank {rank} in {env}"

    def named_address(self, rank: int) -> str:
        return f"{self.gang.member(rank).name}.job"

    def dialled(self, rank: int) -> list[int]:
        """Return the ranks that a rank dials, as in DI-engine 0.5.3 (k8s_parser.py)."""
        topology = self.job.topology if self.job.queue == Queue.NNG else Topology.ALONE
        return {"mesh": list(range(rank)), "star": [0] if rank else [], "alone": []}[topology.value]

    def check_everything(self) -> None:
        """Check the invariants, for tests that do not use Hypothesis."""
        self.a_deadline_comes_in_time()
        self.no_more_pods_than_wished()
        self.pods_have_quota()
        self.status_only_grows()
        self.the_time_adds_up()
        self.nothing_is_charged_that_was_no_failure()
        self.one_number_means_one_list()

    @invariant()
    def a_deadline_comes_in_time(self) -> None:
        """A deadline is never early, and time spent suspended does not count."""
        failed = next((c for c in self.job.status.conditions if c.type == "Failed"), None)
        limit = self.job.spec.active_deadline_seconds
        if failed and failed.reason == "DeadlineExceeded":
            assert limit is not None
            assert self.active > limit - 5, (self.active, failed)  # times have whole seconds

    def check_rare(self, before: int) -> None:
        """Check that an idle job is reconciled rarely: at most 12 times until the resync."""
        passes = self.operator.passes - before
        assert passes <= 12, f"{passes} reconciliations of an idle job"

    def check_suspended(self) -> None:
        status = self.job.status
        self.check_no_budgets()
        assert not self.pods(), self.pods()
        assert not self.servers()
        assert status.phase == "Suspended", status
        assert status.suspend_time

    def check_cleaned(self) -> None:
        assert self.cluster.gone() or self.job.spec.ttl_seconds_after_finished is None
        if self.cluster.gone():
            return  # the garbage collector takes the rest
        self.check_no_budgets()
        assert not self.servers()
        left = [
            pod for pod in self.pods() if not pod.silent
        ]  # pods on a lost node are removed with the node
        if self.policy is CleanPodPolicy.ALL:
            assert not left, left
        elif self.policy is CleanPodPolicy.RUNNING:
            assert all(pod.done for pod in left), left
        else:
            assert all(pod.done or pod.told[0] for pod in left), left

    def check_running(self) -> None:
        status, size = self.job.status, self.job.spec.desired
        done = parse_ranks(status.succeeded_ranks) & self.group
        if done and status.address_list and size - 1 in self.group:
            size = min(
                size, status.address_list.size
            )  # no rank joins a group that is nearly finished
        if self.kueue is not None:
            size = min(size, self.kueue.bound(parse_ranks(status.succeeded_ranks)))
        waiting = [rank for rank in range(size) if rank not in parse_ranks(status.succeeded_ranks)]
        processes = {process.rank: process for process in self.cluster.processes}
        assert is_true(status, Running), status
        assert status.phase == "Running"
        assert sorted(processes) == waiting
        wanted = {*(["job"] if self.job.wants_service else []), *filter(None, [self.gang.server])}
        assert self.cluster.names_of("services") == wanted
        assert self.served()
        self.check_budget_of(len(waiting))
        if self.kueue is None:
            spec = self.job.spec
            assert (spec.replicas, status.desired) == (spec.scale, spec.fixed + spec.scale), spec
        assert is_true(status, PeersReady), status
        ips = {pod.rank: f"{pod.name}.job" if self.named else pod.ip for pod in self.pods()}
        for pod in self.pods():
            if pod.rank in waiting:
                number, addresses = pod.told
                assert number == status.list_number, pod
                assert len(addresses.split(",")) == size, (addresses, size)
                assert pod.body["metadata"]["labels"][names.LABEL_JOB] == "job", pod
                assert [addresses.split(",")[rank] for rank in waiting] == [
                    ips[rank] for rank in waiting
                ], pod
        if self.group:
            self.check_together()
        for process in processes.values():
            assert self.met[process.uid] == self.run_of(), (
                f"{process} does not hear the server there is"
            )
            dialled = [rank for rank in self.dialled(process.rank) if rank in waiting]
            assert [process.nodes[rank] for rank in dialled] == [ips[rank] for rank in dialled], (
                process
            )

    def check_budget_of(self, running: int) -> None:
        """Check that a drain can stop as many running ranks as the job allows."""
        if (budget := self.job.spec.disruption_budget) is None:
            self.check_no_budgets()
            return
        least = self.cluster.read(BUDGETS, "job")["spec"]["minAvailable"]
        assert max(0, running - least) == min(running, budget.max_unavailable), (running, least)

    def check_no_budgets(self) -> None:
        """Check that no PodDisruptionBudget exists, and that the job's status names none."""
        assert not self.cluster.names_of(BUDGETS)
        assert not self.job.status.budgets

    def check_together(self) -> None:
        """Check that no rank of the group started after another rank had exited 0. A rank that
        starts so late would wait forever.
        """
        processes = [one for one in self.cluster.processes if one.rank in self.group]
        assert len({process.list_number for process in processes}) <= 1
        pods = [pod for pod in self.pods() if pod.rank in self.group]
        left = [pod.main.until for pod in pods if pod.main.last == 0]
        began = [pod.main.since for pod in pods if pod.process]
        assert max(began, default="") <= min(left, default="~"), (began, left)
