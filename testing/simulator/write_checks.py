"""Checks each write of the operator against the cluster's state, and against the observations of
the reconciliation that sends it.
"""

from collections.abc import Mapping
from typing import Any

from dijob import names
from dijob.api.model import DIJob
from dijob.api.parse import parse_status
from dijob.api.status import Status
from dijob.core.addresses import AddressList
from dijob.core.members import Gang, format_count, gang_of, parse_ranks
from dijob.core.membership.list_state import SUSPENDED
from dijob.core.observed.parse import END_SECONDS
from dijob.core.observed.views import Pod
from dijob.core.options import Options
from dijob.core.render.scheduling import ENGINES
from dijob.names import Addressing, CleanPodPolicy, Engine
from hypothesis import currently_in_test_context, note
from hypothesis.stateful import RuleBasedStateMachine

from simulator.cluster import Cluster, Nodes
from simulator.connection import Line, Request
from simulator.containers import Process
from simulator.gangs import group_of, needed_pods
from simulator.kubelet import SimPod
from simulator.kueue import Kueue, check_status, is_true, quota_of
from simulator.objects import merged
from simulator.operator_process import Operator


class Judged(RuleBasedStateMachine):
    """The cluster and the operator, with assertions about each write before it is executed."""

    cluster: Cluster
    nodes: Nodes
    line: Line
    operator: Operator
    policy: CleanPodPolicy
    most: int  # the largest size that the job ever had
    exact: bool  # false after a failure that the operator need not count
    options: Options = Options()

    def process_starts(self, pod: SimPod, process: Process) -> None:
        """Called by the nodes when a process starts."""

    def watch(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.nodes = Nodes(cluster, self.process_starts)
        self.line = Line(self.check_write)
        self.operator = Operator(cluster, self.line, options=self.options)
        self.kueue = Kueue(cluster) if self.options.queues else None
        if self.kueue is not None:
            self.nodes.queue = self.kueue.work
        self.policy = self.job.spec.clean_pod_policy
        self.most = self.job.spec.desired
        self.exact = True
        self.active = 0.0  # seconds in which the job was not suspended
        self.before = Status()
        self.lists: dict[int, str] = {}
        self.charged: dict[str, int] = {}
        # For each pod, by uid: which run of the Redis server (run_of) was current when the pod's
        # process started.
        self.met: dict[str, str] = {}

    @property
    def job(self) -> DIJob:
        """The job as it is stored, or its last version if it is gone."""
        return self.cluster.job()

    @property
    def gang(self) -> Gang:
        return gang_of(self.job)

    def pods(self) -> list[SimPod]:
        """Return the pods of the job's ranks in rank order."""
        others = [*self.unranked(), *self.servers()]
        return sorted(
            (pod for pod in self.cluster.pods.values() if pod not in others),
            key=lambda pod: pod.rank,
        )

    def servers(self) -> list[SimPod]:
        """Return the pod of the job's Redis server, if there is one."""
        return [
            pod
            for pod in self.cluster.pods.values()
            if names.LABEL_SERVER in pod.body["metadata"].get("labels", {})
        ]

    def run_of(self) -> str:
        """Return the identity of the Redis server's current run. The identity changes if the pod is
        replaced, or if its container restarts.
        """
        return "".join(f"{pod.uid} {pod.main.restarts}" for pod in self.servers())

    def unranked(self) -> list[SimPod]:
        return [
            pod
            for pod in self.cluster.pods.values()
            if "ownerReferences" not in pod.body["metadata"]
        ]

    @property
    def named(self) -> bool:
        """Whether the peer list has DNS names."""
        return self.job.spec.addressing is Addressing.HOSTNAME

    @property
    def together(self) -> bool:
        """Whether a loss restarts all ranks, computed independently of the product's code."""
        spec = self.job.spec
        return spec.runtime in ("torch", "oneflow") and self.job.restart_scope == "Job"

    @property
    def group(self) -> frozenset[int]:
        """The ranks that restart together, computed independently of the product's code: all ranks,
        or those of the task that has its own runtime.
        """
        if self.together:
            return frozenset(range(self.job.spec.desired))
        first, found = 0, set[int]()
        tasks = self.job.spec.tasks or ()
        for task in tasks:
            size = self.job.spec.scale if task is tasks[-1] else task.replicas
            found |= set(range(first, first + size)) if task.runtime == "torch" else set()
            first += size
        return frozenset(found)

    def check_write(self, request: Request) -> None:
        """Check one write just before it is executed."""
        if currently_in_test_context():
            note(
                f"{request.method} {request.target.plural} {request.target.name}"
                f" {request.target.sub}"
            )
        method, target, status = request.method, request.target, self.job.status
        if target.plural == "events":
            if method == "POST":
                self.check_event(request)
            return
        assert method == "POST" or self.named_uid(request), request
        if target.plural == names.PLURAL:
            if method == "DELETE":
                assert status.ended, status
                assert self.job.spec.ttl_seconds_after_finished is not None, status
            elif target.sub:
                self.check_status(request)
            return
        assert method == "POST" or self.is_ours(request), request
        of_kind = {
            "podgroups": self.check_group,
            "poddisruptionbudgets": self.check_budget,
            "workloads": self.check_workload,
        }
        if target.plural in of_kind:
            of_kind[target.plural](request)
        elif status.ended:
            self.check_clean_up(request)
        elif method == "POST" and target.plural == "pods":
            self.check_creation(request.body["metadata"]["name"], status)
            self.check_member(request.body)
            self.check_admitted(request.body["metadata"]["name"])
        elif method == "DELETE":
            self.check_deletion(request, status)
        else:
            annotations = (request.body.get("metadata") or {}).get("annotations") or {}
            if ips := annotations.get(names.ANNOTATION_IPS):
                view = self.operator.views().get(self.named_uid(request))
                runs = status.phase == "Running" or (view is not None and view.has_started)
                self.check_list(int(annotations[names.ANNOTATION_LIST_NUMBER]), ips, status, runs)

    @staticmethod
    def named_uid(request: Request) -> str:
        """Return the uid in the precondition of a write."""
        part = "preconditions" if request.method == "DELETE" else "metadata"
        return str((request.body.get(part) or {}).get("uid", ""))

    def is_ours(self, request: Request) -> bool:
        """Whether the target of a write belongs to the job, or is gone."""
        body = self.cluster.server.objects.get(request.target.whole)
        owners = body["metadata"].get("ownerReferences") or () if body else ()
        return body is None or any(owner["uid"] == self.job.metadata.uid for owner in owners)

    def check_clean_up(self, request: Request) -> None:
        """Check a write after the job has finished: only the clean-up is allowed."""
        deadline = (request.body.get("spec") or {}).get("activeDeadlineSeconds") == END_SECONDS
        assert deadline or request.method == "DELETE", request
        if request.method == "DELETE" and self.policy is CleanPodPolicy.NONE:
            view = self.operator.views()[request.body["preconditions"]["uid"]]
            assert (
                view.containers.gated or view.phase == "Pending" or view.name == self.gang.server
            ), view

    def check_creation(self, name: str, status: Status) -> None:
        spec, rank = self.operator.job().spec, self.gang.rank_of(name)
        assert not status.suspend_time, name
        if name == self.gang.server:
            return
        assert not spec.suspend, name
        assert rank not in parse_ranks(status.succeeded_ranks), name
        assert 0 <= rank < spec.desired, name

    def check_group(self, request: Request) -> None:
        """Check that the PodGroup of a job that can have pods is not deleted."""
        assert not self.job.status.ended, request
        suspended = self.operator.job().spec.suspend or self.job.status.suspend_time
        assert request.method != "DELETE" or (suspended and not self.pods()), request

    def check_workload(self, request: Request) -> None:
        """Check a write to a Workload of the job: quota is given back only when no pod uses it."""
        target, status = request.target, self.job.status
        found = self.cluster.server.objects.get(target.whole)
        if request.method == "POST":
            self.check_new_workload(request)
        elif request.method == "DELETE":
            only = request.body["preconditions"].get("resourceVersion")
            if found is None or only not in (None, found["metadata"]["resourceVersion"]):
                return  # a conflict
            assert self.kueue is not None
            left = self.kueue.used() - quota_of(found)
            live = [pod for pod in self.pods() if not pod.done]
            assert len(live) <= left or self.job.status.ended, request
        elif found is not None:
            version = request.body["metadata"]["resourceVersion"]
            if version != found["metadata"]["resourceVersion"]:
                return  # a conflict
            after = merged(found, {"status": request.body["status"]})
            check_status(found, after)
            if is_true(found, "QuotaReserved") and not is_true(after, "QuotaReserved"):
                assert not self.pods(), request
                assert is_true(found, "Evicted"), found
            if is_true(after, "Finished") and not is_true(found, "Finished"):
                assert status.ended, request

    def check_new_workload(self, request: Request) -> None:
        """Check the job for which the operator creates a Workload: it must be suspended, and have
        no pods and no other Workload.

        The exception is a larger Workload that replaces the one with which the job runs.
        """
        assert self.kueue is not None
        others, status = self.kueue.workloads(), self.job.status
        notes = request.body["metadata"]["annotations"]
        if names.KUEUE_REPLACES not in notes:
            assert status.suspend_time, request
            assert not self.pods(), request
            assert not others, others
            return
        assert len(others) <= 1, others
        if not others:
            return  # somebody has deleted the running job's Workload
        assert is_true(others[0], "QuotaReserved"), others
        old, new = (one["spec"]["podSets"] for one in (others[0], request.body))
        assert [one["name"] for one in old] == [one["name"] for one in new], request
        key = f"{others[0]['metadata']['namespace']}/{others[0]['metadata']['name']}"
        assert notes[names.KUEUE_REPLACES] == key, request

    def check_admitted(self, name: str) -> None:
        """Check that a rank of a job with a queue gets a pod only if its Workload has quota."""
        if self.kueue is None or self.gang.rank_of(name) < 0:
            return
        live = [
            pod.name for pod in self.pods() if not pod.done and self.gang.rank_of(pod.name) >= 0
        ]
        assert len(live) < self.kueue.used(), (name, live)

    def check_budget(self, request: Request) -> None:
        """Check that a job keeps its budget while it can have pods, and that a new operator would
        find each budget.
        """
        job, stored = self.operator.job(), self.job.status
        stopped = stored.ended or stored.suspend_time
        name = request.target.name or request.body["metadata"]["name"]
        if request.method == "DELETE":
            assert stopped or job.spec.disruption_budget is None, request
        else:
            assert not stopped, request
            assert name in stored.budgets.split(), request

    def check_member(self, pod: Mapping[str, Any]) -> None:
        """Check that a new pod of a gang can be placed: its PodGroup does not wait for more pods
        than the job can still have.
        """
        engine = self.job.spec.scheduling.engine or Engine.NONE
        if not ENGINES[engine].kind or self.gang.rank_of(pod["metadata"]["name"]) < 0:
            return
        name = group_of(pod)
        assert name in self.cluster.names_of("podgroups"), name
        group = self.cluster.read("podgroups", name)
        job, done = self.operator.job(), parse_ranks(self.job.status.succeeded_ranks)
        left = [rank for rank in range(job.spec.desired) if rank not in done]
        counted = self.succeeded_pods() if ENGINES[engine].counts_succeeded else 0
        assert needed_pods(group) <= len(left) + counted, (group, left, counted)

    def succeeded_pods(self) -> int:
        """Return the number of pods that have succeeded."""
        pods = self.cluster.pods.values()
        return sum(pod.body["status"].get("phase") == "Succeeded" for pod in pods)

    def check_list(self, number: int, ips: str, status: Status, runs: bool) -> None:
        """Check that a published list is the stored one. `runs` says whether the program has
        already started. A started program no longer needs the Redis server to be ready.
        """
        assert status.address_list is not None, number
        shown, kept = (
            (number, AddressList(number, ips).digest),
            (status.list_number, status.address_list.digest),
        )
        assert shown == kept, (number, ips, status)
        assert number in self.lists or runs or self.served(), number
        self.lists[number] = ips

    def served(self) -> bool:
        """Whether the operator has observed that the job's Redis server is ready. No rank may
        start without it.
        """
        views = [view for view in self.operator.views().values() if view.name == self.gang.server]
        return not self.gang.server or any(view.ready for view in views)

    def check_deletion(self, request: Request, status: Status) -> None:
        """Check that facts known only from a pod's status are stored before its deletion."""
        view = self.operator.views()[request.body["preconditions"]["uid"]]
        if request.body.get("gracePeriodSeconds") == 0:
            pod = self.cluster.pods.get(view.uid)
            assert pod is None or pod.silent, view
        if view.name == self.gang.server or view.deleting:
            return  # nothing needs to be stored about such a pod
        died = status.last_renewal.list_number if status.last_renewal else 0
        # The failures of a pod were counted until its list became stale. Its later failures are not
        # counted, and neither are failures of pods that are no longer in any list.
        rank = self.gang.rank_of(view.name)
        number = view.copy.address_list.number
        # A launcher that has not reported its list to this operator is treated as if its list were
        # stale.
        unknown = bool(view.made.channel_key and view.containers.ends) and not number
        doomed = (died >= number > 0 or unknown) and died > 0 and self.is_renewed(rank, status)
        doomed = doomed or (view.copy.address_list.number > 0 and self.is_beyond(rank))
        assert doomed or self.is_counted(view, status), view
        void = doomed and (self.together or rank in self.group)  # it restarts with the others
        known = void or rank in parse_ranks(status.succeeded_ranks)
        assert known or not view.containers.succeeded, view

    def check_status(self, request: Request) -> None:
        """Check that all failures of the job's pods are counted when a list becomes stale."""
        meta, old = request.body["metadata"], self.job
        assert meta.get("resourceVersion"), "a status write without resourceVersion"
        if meta["resourceVersion"] != old.metadata.resource_version:
            return  # a conflict
        status = parse_status(
            merged(self.cluster.read(names.PLURAL, "job"), {"status": request.body["status"]})
        )
        if status.renewals > old.status.renewals:
            succeeded, last = parse_ranks(status.succeeded_ranks), status.last_renewal
            assert not (self.together and succeeded), status
            restarting = parse_ranks(last.ranks) if last else frozenset[int]()
            assert not restarting & succeeded & self.group, status
            listed = range(old.status.address_list.size if old.status.address_list else 0)
            group = self.group & frozenset(listed)  # more ranks may join if it is the last task
            assert not restarting & group or group <= restarting, status
            views = self.operator.views().values()
            ranks = (view for view in views if view.name != self.gang.server)
            known = [
                view
                for view in ranks
                if not (
                    view.copy.address_list.number and self.is_beyond(self.gang.rank_of(view.name))
                )
            ]
            assert all(self.is_counted(view, status) for view in known), status

    def check_event(self, request: Request) -> None:
        """Check that the condition or the size that an event reports is already stored."""
        reason, conditions = request.body["reason"], self.job.status.conditions
        if reason == "SizeIgnored":
            assert self.job.status.ended
            assert request.body["message"].endswith(f" to {self.job.status.desired})")
            return
        size = self.job.status.address_list.size if self.job.status.address_list else 0
        written = reason == "Scaled" and request.body["message"].endswith(
            f" to {format_count(size, 'rank')}"
        )
        written = written or any(
            reason == c.reason or (reason == c.type and c.status == "True") for c in conditions
        )
        assert written, (reason, conditions)

    def is_renewed(self, rank: int, status: Status) -> bool:
        assert status.last_renewal is not None
        if status.last_renewal.reason == SUSPENDED:
            return True
        return (
            rank in parse_ranks(status.last_renewal.ranks)
            or rank >= self.operator.job().spec.desired
        )

    def is_beyond(self, rank: int) -> bool:
        """Whether the peer list or the spec no longer has this rank."""
        held = (pod.copy.address_list for pod in self.operator.views().values())
        newest = max(held, key=lambda one: (one.number, one.text))
        return rank >= min(len(newest.addresses) or 1, self.operator.job().spec.desired)

    def is_counted(self, view: Pod, status: Status) -> bool:
        charged = max((c.restarts for c in status.restarts_seen if c.uid == view.uid), default=0)
        gone = view.placement.disrupted or view.deleting or not view.containers.sandbox
        gone = gone or bool(view.unmountable)  # its program has never started
        return gone or view.containers.failures <= charged
