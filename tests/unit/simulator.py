"""A pretended apiserver, and the operator's pass over one job: real plan(), writes that can be cut off anywhere."""

import copy
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

from dijob.core import broker, manifests, phases, published, raw, refusals
from dijob.core.actions import (
    Action,
    CreateBroker,
    CreateInOrder,
    CreatePod,
    CreateService,
    DeleteJob,
    DeletePod,
    EndPod,
    ForceDeletePod,
    GiveBackPod,
    NudgePod,
    PublishAddresses,
    SetReplicas,
)
from dijob.core.members import Member
from dijob.core.observe import Observed, Pod, by_rank
from dijob.core.options import Options
from dijob.core.plan import Plan, plan
from dijob.core.raw import END_SECONDS
from dijob.shell.memory import Memory
from dijob.spec.model import DIJob
from dijob.spec.status import Status
from unit.builders import NOW
from unit.kubelet import Process, SimPod

Body = dict[str, Any]


@dataclass
class Cluster:
    """The objects of one job, with the apiserver's rules: versions, uids, preconditions, names taken."""

    job: DIJob
    pods: dict[str, SimPod] = field(default_factory=dict)
    buried: list[SimPod] = field(default_factory=list)
    services: set[str] = field(default_factory=set)
    quota: bool = False  # exhausted: pods are refused with 403
    gone: bool = False  # the job itself has been deleted
    now: datetime = NOW
    count: int = 10
    ips: int = 0

    @property
    def processes(self) -> list[Process]:
        return [pod.process for pod in self.pods.values() if pod.process]

    def tick(self) -> int:
        self.count += 1
        return self.count

    def touch(self, body: Body) -> None:
        body["metadata"]["resourceVersion"] = str(self.tick())

    def create(self, manifest: Body) -> bool:
        """False: the name is taken."""
        name = manifest["metadata"]["name"]
        if name in self.pods:
            return False
        body = copy.deepcopy(manifest)
        body["metadata"] |= {"uid": f"uid-{self.tick()}", "creationTimestamp": self.now.isoformat()}
        self.touch(body)
        self.pods[name] = SimPod.of(body, lambda: self.now)
        return True

    def find(self, name: str, uid: str) -> SimPod | None:
        """The very pod that is meant; a namesake is none (the precondition of uid)."""
        pod = self.pods.get(name)
        return pod if pod and pod.uid == uid else None

    def annotate(self, name: str, patch: Body) -> bool:
        pod = self.find(name, patch["metadata"]["uid"])
        if pod is not None:
            for key in ("annotations", "labels"):
                merged = pod.body["metadata"][key] | patch["metadata"][key]
                pod.body["metadata"][key] = {name: value for name, value in merged.items() if value is not None}
            self.touch(pod.body)
        return pod is not None

    def delete(self, name: str, uid: str) -> None:
        """As the apiserver: at once where nothing runs yet, else the kubelet has to end it first."""
        pod = self.find(name, uid)
        if pod is None or pod.deleting:
            return
        if "nodeName" not in pod.body["spec"]:
            self.bury(pod)
            return
        pod.body["metadata"]["deletionTimestamp"] = self.now.isoformat()
        self.touch(pod.body)

    def bury(self, pod: SimPod) -> None:
        pod.kill()
        self.tick()
        self.buried.append(self.pods.pop(pod.name))

    def write_status(self, version: str, status: Status) -> bool:
        """The status subresource under the precondition of the resourceVersion. False: conflict."""
        if self.job.metadata.resource_version != version or self.gone:
            return False
        # Through JSON, as it is stored: what does not survive that differs in the next pass.
        text = status.model_dump_json(by_alias=True, exclude_none=True)
        self._new_job(status=Status.model_validate_json(text))
        return True

    def scale(self, replicas: int) -> None:
        """In the tasks shape it is the last task that changes."""
        spec = self.job.spec
        if spec.tasks is None:
            self.edit(replicas=replicas)
            return
        last = spec.tasks[-1]
        others = spec.desired - last.replicas
        self.edit(tasks=(*spec.tasks[:-1], last.model_copy(update={"replicas": max(1, replicas - others)})))

    def edit(self, **fields: Any) -> None:
        """A user's edit of the spec."""
        self._new_job(spec=self.job.spec.model_copy(update=fields))

    def _new_job(self, **parts: Any) -> None:
        grown = self.job.metadata.generation + (1 if "spec" in parts else 0)
        meta = self.job.metadata.model_copy(update={"resource_version": str(self.tick()), "generation": grown})
        # Not model_copy, which would copy what was worked out from the old spec.
        self.job = DIJob(**{"metadata": meta, "spec": self.job.spec, "status": self.job.status, **parts})


class Killed(Exception):
    """The operator was killed before its next write."""


@dataclass
class Faults:
    """What goes wrong in one pass: after how many writes it is killed, in what order it acts, what is put off."""

    writes: int = 1_000_000
    turn: int = 0
    put_off: bool = False


@dataclass
class Operator:
    """The shell in small: a store that may lag, a memory that dies with the process, one pass as in reconcile.py."""

    cluster: Cluster
    check: Callable[["Operator", Action], None]
    check_status: Callable[["Operator", Status], None]
    store: dict[str, Pod] = field(default_factory=dict)
    job: DIJob = field(init=False)
    services: frozenset[str] = frozenset()
    memory: Memory = field(default_factory=Memory)
    faults: Faults = field(default_factory=Faults)
    decided: Plan = field(default_factory=lambda: Plan(Status()))
    fuse: int = 1_000_000  # killed before the write after so many, over all passes

    def __post_init__(self) -> None:
        self.restart()

    def restart(self) -> None:
        self.memory = Memory()
        self.relist()

    def relist(self) -> None:
        """Everything as it is now: the list of a start, or a watch that has caught up."""
        self.store = {}
        for pod in self.cluster.pods.values():
            self.see(pod)
        self.hear()

    def see(self, pod: SimPod) -> None:
        view = raw.pod(pod.shown())
        if self.cluster.find(pod.name, pod.uid) is None:
            self.store.pop(view.uid, None)
        elif view.owner == self.cluster.job.metadata.owner_key:
            self.store[view.uid] = view

    def hear(self) -> None:
        self.job, self.services = self.cluster.job, frozenset(self.cluster.services)

    def observe(self) -> Observed:
        pods, strangers = by_rank(self.store.values(), manifests.gang_of(self.job))
        self.memory.saw_lists(pods.values(), self.cluster.now)
        return Observed(
            pods,
            strangers,
            self.services,
            dict(self.memory.refusals),
            dict(self.memory.creations),
            frozenset(self.memory.given_back),
            dict(self.memory.told),
            dict(self.memory.nudged),
            dict(self.memory.given),
        )

    def plan(self) -> Plan:
        self.decided = plan(self.job, self.observe(), self.cluster.now)
        return self.decided

    def run_pass(self, faults: Faults) -> None:
        """One pass. Where it is killed on the way, a new operator has started in its place."""
        self.faults = faults
        if self.cluster.gone:
            return
        try:
            actions = self.plan().actions
            turn = faults.turn % len(actions) if actions else 0
            for action in actions[turn:] + actions[:turn]:
                self.check(self, action)
                self._write(action)
            self._store_status(self.plan() if actions else self.decided)
        except Killed:
            self.restart()

    def _budget(self) -> None:
        self.fuse -= 1
        self.faults.writes -= 1
        if self.faults.writes < 0 or self.fuse == -1:
            raise Killed

    def _store_status(self, decided: Plan) -> None:
        old = self.job.status
        if decided.status == old or (self.faults.put_off and not phases.urgent(old, decided.status)):
            return
        self.check_status(self, decided.status)
        self._budget()
        self.cluster.write_status(self.job.metadata.resource_version, decided.status)
        self.hear()

    def _write(self, action: Action) -> None:
        self._budget()
        match action:
            case SetReplicas():
                if self.job.metadata.resource_version == self.cluster.job.metadata.resource_version:
                    self.cluster.scale(action.replicas)
                    self.hear()
            case DeleteJob():
                self.cluster.gone = True
            case CreatePod():
                self._create_pod(action.member)
            case CreateInOrder():
                self._create_in_order(action)
            case NudgePod():
                self.memory.nudged[action.uid, action.epoch] = self.cluster.now
            case CreateService():
                self._create_service(self.job.metadata.name)
            case CreateBroker():
                self._create_service(self.job.server)
                self._budget()
                self._create(broker.manifests(self.job, Options())[-1])
            case PublishAddresses():
                gang = manifests.gang_of(self.job)
                if self.cluster.annotate(action.name, published.addresses_patch(gang, action)):
                    self.memory.given[action.uid] = action.epoch
                    self._know(action.uid, **published.known(gang, action))
            case _:
                self._end(action)

    def _end(self, action: Action) -> None:
        """The writes that end a pod."""
        match action:
            case DeletePod() | GiveBackPod():
                if isinstance(action, GiveBackPod):
                    self.memory.given_back.add(action.name)
                self.cluster.delete(action.name, action.uid)
                self._know(action.uid, deleting=True)
            case ForceDeletePod():
                if pod := self.cluster.find(action.name, action.uid):
                    self.cluster.bury(pod)
                self.store.pop(action.uid, None)
            case EndPod():
                if pod := self.cluster.find(action.name, action.uid):
                    pod.body["spec"]["activeDeadlineSeconds"] = END_SECONDS
                    self.cluster.touch(pod.body)
                self._know(action.uid, ending_soon=True)

    def _know(self, uid: str, **fields: Any) -> None:
        """What actor.py enters into the store after a write of its own: the change, not what else is new."""
        if uid in self.store:
            self.store[uid] = replace(self.store[uid], **fields)

    def _create_in_order(self, action: CreateInOrder) -> None:
        for number, member in enumerate(action.members):
            if number:
                self._budget()  # each creation is a write before which the operator may die
            self._create_pod(member)
            if f"pod/{member.name}" in self.memory.refusals:
                return

    def _create_service(self, name: str) -> None:
        self.cluster.services.add(name)
        self.services |= {name}

    def _create_pod(self, member: Member) -> None:
        self._create(manifests.pod_manifest(self.job, member, Options()))

    def _create(self, manifest: Body) -> None:
        job, now, name = self.job, self.cluster.now, manifest["metadata"]["name"]
        key = f"pod/{name}"
        if self.cluster.quota:
            before = self.memory.refusals.get(key)
            self.memory.refusals[key] = refusals.rejected(403, "exceeded quota", before, now)
        elif self.cluster.create(manifest):
            self.memory.refusals.pop(key, None)
            self.memory.created(name, now)
            self.see(self.cluster.pods[name])
        else:
            body = self.cluster.pods[name].shown()
            why = raw.namesake(body, job.metadata.name, job.metadata.uid)
            if why is None:
                self.see(self.cluster.pods[name])
            else:
                self.memory.refusals[key] = refusals.name_in_use(why, f"pod {name}", now)


def wait(cluster: Cluster, seconds: float) -> None:
    cluster.now += timedelta(seconds=seconds)
