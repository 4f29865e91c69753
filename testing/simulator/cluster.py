"""A simulated cluster in virtual time: the apiserver, the pods behind it, the garbage collector."""

from collections.abc import Callable
from typing import Any

from dijob import names
from dijob.api.model import DIJob, Metadata
from dijob.api.parse import parse_job, parse_status
from dijob.controller.channel.launchers import Launchers

from simulator.apiserver import ApiServer, Change
from simulator.containers import Process
from simulator.gangs import needed_pods, row_of
from simulator.kubelet import SimPod
from simulator.objects import Body, No, Selector, Target
from simulator.virtual import VirtualClock, VirtualLoop
from simulator.watches import Watches

NAMESPACE = "ns"


class Cluster:
    """The objects of a cluster, and what its users do. With `quota`, the quota is exhausted, and
    new pods are rejected with 403.
    """

    def __init__(self, loop: VirtualLoop, server: ApiServer | None = None) -> None:
        self.loop = loop
        self.clock = VirtualClock(loop)
        self.server = server.copy(self.clock.now) if server else ApiServer(self.clock.now)
        self.watches = Watches(self.server)
        self.pods: dict[str, SimPod] = {}  # by uid
        self.buried: list[SimPod] = []
        self.quota = False
        self.channel: Launchers | None = None  # of the operator's process, if there is one
        self.channel_blocked = False  # no launcher can connect
        self.no_mount = ("", "")  # the error of nodes that cannot mount images (SimPod)
        self.server.told.append(self._changed)
        self.server.admission.append(self._admit)
        self._parsed: dict[Target, tuple[Body, DIJob]] = {}

    def copy(self) -> "Cluster":
        """Copy the cluster and its clock, but not its watches, into a separate event loop."""
        twin = Cluster(VirtualLoop(self.loop.time()), self.server)
        twin.pods = {uid: pod.copy(twin.clock.now) for uid, pod in self.pods.items()}
        twin.buried = [pod.copy(twin.clock.now) for pod in self.buried]
        twin.quota, twin.channel_blocked = self.quota, self.channel_blocked
        twin.no_mount = self.no_mount
        twin.watches.held, twin.watches.lists = self.watches.held, self.watches.lists
        twin._parsed = dict(self._parsed)
        return twin

    # --- stored objects
    # ---------------------------------------------------------------------------------------------

    def read(self, plural: str, name: str, namespace: str = NAMESPACE) -> Body:
        """Return a stored object."""
        return self.server.get(Target(plural, namespace, name))

    def names_of(self, plural: str) -> set[str]:
        """Return the names of all objects of a kind."""
        return {target.name for target in self.server.objects if target.plural == plural}

    def job(self, name: str = "job", namespace: str = NAMESPACE) -> DIJob:
        """Return a DIJob as it is stored, or its last version if it is gone."""
        target = Target(names.PLURAL, namespace, name)
        body, (before, known) = (
            self.server.objects.get(target),
            self._parsed.get(target, (None, None)),
        )
        if body is not None and body is not before:
            if before and known and body["spec"] is before["spec"]:
                meta = Metadata.model_validate(body["metadata"])
                known = DIJob(metadata=meta, spec=known.spec, status=parse_status(body))
            else:
                known = parse_job(body)
            self._parsed[target] = body, known
        assert known is not None, f"there was never a {namespace}/{name}"
        return known

    def gone(self, name: str = "job", namespace: str = NAMESPACE) -> bool:
        return Target(names.PLURAL, namespace, name) not in self.server.objects

    def pod(self, name: str, namespace: str = NAMESPACE) -> SimPod:
        return self.pods[self.read("pods", name, namespace)["metadata"]["uid"]]

    @property
    def processes(self) -> list[Process]:
        return [pod.process for pod in self.pods.values() if pod.process]

    # --- what users do
    # ----------------------------------------------------------------------------------------------

    def apply(self, body: Body) -> None:
        """Create a DIJob, or replace the spec of an existing one."""
        meta = body["metadata"]
        target = Target(names.PLURAL, meta["namespace"], meta["name"])
        if target in self.server.objects:
            self.server.replace(target, {**self.server.get(target), "spec": body["spec"]})
        else:
            self.server.create(target, body)

    def edit(self, name: str = "job", namespace: str = NAMESPACE, **spec: Any) -> None:
        """Merge fields into a DIJob's spec, as `kubectl patch` does."""
        self.server.patch(Target(names.PLURAL, namespace, name), {"spec": spec})

    def scale(self, replicas: int) -> None:
        """Scale the job or, if it has tasks, its last task.

        To shrink the last task, set the task's `replicas`, as a user does in a manifest. In all
        other cases, set the job's `replicas`, as an autoscaler does. One of these cases is a shrink
        to the value that the task's `replicas` already has.
        """
        spec, tasks = self.job().spec, self.read(names.PLURAL, "job")["spec"].get("tasks")
        size = max(1, replicas - spec.fixed)
        if tasks and size < spec.scale and size != tasks[-1]["replicas"]:
            self.edit(tasks=[*tasks[:-1], tasks[-1] | {"replicas": size}])
        else:
            self.edit(replicas=size)

    def patch(self, plural: str, name: str, patch: Body, namespace: str = NAMESPACE) -> None:
        """Edit an object by hand."""
        self.server.patch(Target(plural, namespace, name), patch)

    def remove(self, plural: str, name: str, namespace: str = NAMESPACE) -> None:
        """Delete an object; `collect` deletes the children of a deleted job."""
        self.server.delete(Target(plural, namespace, name))

    def create(self, plural: str, body: Body) -> Body:
        """Create an object of another owner."""
        return self.server.create(
            Target(plural, body["metadata"].get("namespace", NAMESPACE)), body
        )

    # --- what the cluster does
    # --------------------------------------------------------------------------------------

    def report(self, pod: SimPod) -> None:
        """Let the kubelet update the pod's status."""
        if pod.uid in self.pods:
            self.server.replace(pod.target, pod.shown())

    def delete(self, pod: SimPod) -> None:
        """Delete a pod with its grace period, as a user or the cluster does."""
        if pod.uid in self.pods:
            self.server.delete(pod.target)

    def talk(self, pod: SimPod) -> None:
        """Let the launcher of a pod connect to the operator, and report to it."""
        if self.channel is not None and not self.channel_blocked:
            pod.talk(self.channel, self.loop)

    def bury(self, pod: SimPod) -> None:
        """Remove the object of a pod that has ended, as its kubelet does."""
        self.server.delete(pod.target, {"gracePeriodSeconds": 0})

    def collect(self) -> None:
        """Run the garbage collector: delete the children of DIJobs that are gone."""
        there = {
            body["metadata"]["uid"] for body in self.server.find(Selector(Target(names.PLURAL)))
        }
        for target, body in list(self.server.objects.items()):
            owners = [
                one
                for one in body["metadata"].get("ownerReferences") or ()
                if one.get("kind") == names.KIND
            ]
            left = owners and not any(one.get("uid") in there for one in owners)
            if left and "deletionTimestamp" not in body["metadata"]:
                self.server.delete(target)
            elif target.plural == "podgroups" and "deletionTimestamp" in body["metadata"]:
                self._release(target)

    def _release(self, target: Target) -> None:
        """Remove the finalizer of a deleted PodGroup if no active pod uses the group."""
        if all(pod.done for pod in self.pods.values() if pod.group == target.name):
            self.server.patch(target, {"metadata": {"finalizers": None}})

    def _changed(self, change: Change) -> None:
        if change.target.plural != "pods":
            return
        uid = change.body["metadata"]["uid"]
        if change.type == "ADDED":
            self.pods[uid] = SimPod.of(change.body, self.clock.now)
            self.pods[uid].no_mount = self.no_mount
        elif change.type == "MODIFIED":
            self.pods[uid].body = change.body
        else:
            pod = self.pods.pop(uid)
            pod.kill()
            self.buried.append(pod)

    def _admit(self, target: Target, body: Body) -> None:
        if self.quota and target.plural == "pods" and body["metadata"].get("ownerReferences"):
            raise No(403, f'pods "{target.name}" is forbidden: exceeded quota')


class Nodes:
    """The scheduler and all kubelets. `room` is the number of ranked pods that can have a node.
    `started` is called for each process that starts, and `queue` before each round.
    """

    def __init__(
        self,
        cluster: Cluster,
        started: Callable[[SimPod, Process], None] = lambda pod, process: None,
    ) -> None:
        self.room = 1_000_000
        self.ips = 0  # number of addresses assigned so far
        self._cluster = cluster
        self._started = started
        self.queue: Callable[[], None] = lambda: None

    def work(self) -> None:
        """Run one round of the scheduler, the kubelets and the garbage collector."""
        self.queue()
        self._cluster.collect()
        for pod in list(self._cluster.pods.values()):
            if not pod.silent and pod.uid in self._cluster.pods:
                self._work(pod)
                self._cluster.report(pod)
                self._cluster.talk(pod)

    def _work(self, pod: SimPod) -> None:
        if pod.deleting or pod.overdue:
            self.end(pod)
        elif not pod.sandbox and not pod.done:
            if self._has_room(pod):
                self.place(pod, reuse=False)
                pod.imaged = True
                if not pod.ranked:
                    self.start(pod)
        elif pod.ranked and not pod.imaged and not pod.done:
            pod.imaged = True
        elif pod.due:
            pod.renew()
        elif pod.startable():
            self.start(pod)
        elif pod.confirmed and pod.reports:
            pod.waits_since = None
        elif pod.confirmed or pod.launchable:
            self.launch(pod)
        elif pod.main.state == "running" and (pod.process or not pod.ranked):
            pod.ready = True

    def place(self, pod: SimPod, reuse: bool) -> None:
        taken = {other.ip for other in self._cluster.pods.values()}
        free = [f"10.0.0.{n}" for n in range(1, self.ips + 1) if f"10.0.0.{n}" not in taken]
        if not reuse or not free:
            self.ips += 1
            free = [f"10.0.0.{self.ips}"]
        pod.placed = pod.placed or self._cluster.clock.now().isoformat()
        pod.place(free[0])

    def start(self, pod: SimPod) -> None:
        process = pod.start()
        if process is not None:
            self._started(pod, process)

    def launch(self, pod: SimPod) -> None:
        self._started(pod, pod.start_program())

    def end(self, pod: SimPod) -> None:
        self._cluster.bury(pod) if pod.deleting else pod.kill("DeadlineExceeded")

    def _has_room(self, pod: SimPod) -> bool:
        """Return whether a pod has a node or finds one. If not, the scheduler sets the pod's
        condition.
        """
        if not pod.ranked:
            return True
        placed = sum(
            "nodeName" in other.body["spec"]
            for other in self._cluster.pods.values()
            if other.ranked
        )
        if "nodeName" in pod.body["spec"]:
            return True
        needed = self._needed_room(pod)
        pod.homeless = needed is not None and placed + needed > self.room
        return needed is not None and not pod.homeless

    def _needed_room(self, pod: SimPod) -> int | None:
        """Return how many pods must fit for this pod to get a node. More than one must fit if its
        PodGroup has too few pods with a node. Return None if the scheduler does not consider the
        pod.
        """
        if not pod.group:
            return 1
        target = Target("podgroups", pod.target.namespace, pod.group)
        group = self._cluster.server.objects.get(target)
        if group is None:
            return None
        least, done_count = needed_pods(group), row_of(group).counts_succeeded
        alive = [
            one
            for one in self._cluster.pods.values()
            if one.group == pod.group
            and (not one.done or (done_count and one.body["status"].get("phase") == "Succeeded"))
        ]
        placed = sum("nodeName" in one.body["spec"] for one in alive)
        return None if len(alive) < least else max(1, least - placed)
