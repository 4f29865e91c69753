"""Collects the input of a plan: objects from the stores, the memory, settings, measurements.

The plan is a pure function, so everything that it depends on must be in `Observed`.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import datetime

from dijob.api.model import DIJob, Metadata
from dijob.controller.cache.children import Children
from dijob.controller.channel.launchers import Launchers
from dijob.controller.observe.delivery import LauncherDelivery
from dijob.controller.observe.foreign_pods import ForeignPods
from dijob.controller.observe.memory import JobMemory
from dijob.core.members import gang_of
from dijob.core.observed import complaints, pod_events
from dijob.core.observed.mounting import mount_warning
from dijob.core.observed.progress import JobProgress
from dijob.core.observed.ranked import by_rank
from dijob.core.observed.views import Isolation, Observed, Pod, Room, Throttling
from dijob.core.options import is_isolated, option_warnings
from dijob.core.render.scheduling import engine_of
from dijob.kube.throttle import Throttle


class Observer:
    """Builds the `Observed` of a job."""

    def __init__(
        self,
        children: Children,
        launchers: Launchers,
        foreign_pods: ForeignPods,
        throttle: Throttle,
        delivery: LauncherDelivery,
    ) -> None:
        # Returns the newest progress of a job, without the progress of its ranks.
        self.newest_progress: Callable[[Metadata], JobProgress] = lambda _: JobProgress()
        self._delivery = delivery
        self._launchers = launchers
        self._children = children
        self._foreign_pods = foreign_pods
        self._throttle = throttle
        self._options = delivery.options

    def observe(self, job: DIJob, memory: JobMemory, now: datetime) -> Observed:
        """Return everything that is known about a job, and add new facts to the job's memory."""
        owner, options = job.metadata.owner_key, self._options
        seen = self._launchers.views(self._children.pods.of(owner))
        seen = [self._mounted(pod, memory) for pod in seen]
        pods, unranked = by_rank(seen, gang_of(job))
        # Update the memory from the pods before it is copied into the result below.
        memory.first_seen = memory.first_seen or now
        memory.wants(job, now)
        memory.saw_lists(pods.values(), now)
        memory.saw_pods((*pods.values(), *unranked), now)
        pods = {rank: self._explained(pod, memory, now) for rank, pod in pods.items()}
        unranked = tuple(self._explained(pod, memory, now) for pod in unranked)
        # A warning from a pod's start is out of date once the pod has an address.
        silent = {pod.uid for pod in (*pods.values(), *unranked) if not pod.has_arrived}
        watched = _with_progress(job, pods)
        self._launchers.await_progress(watched.values())
        return Observed(
            progress=self._progress_of(job, watched, now),
            pods=pods,
            unranked=unranked,
            existing=self._children.existing(owner),
            routes=self._children.routes(owner),
            rejections=memory.reverted.rejections | memory.rejections,
            # These dicts and sets are copied, because the plan must not see changes that are made
            # after the observation.
            creations=dict(memory.creations),
            room=Room(
                released=frozenset(memory.released),
                contended=self._children.contended(owner),
                foreign_pods=self._foreign_pods.waiting,
            ),
            first_seen=memory.first_seen,
            published=dict(memory.reverted.published),
            list_seen=dict(memory.list_seen),
            reminded=dict(memory.reminded),
            scheduling=memory.engine.view(
                job, engine_of(job, options.engine, seen, options.queues)
            ),
            queue=memory.queue.view,
            budgets=dict(memory.budgets.found),
            throttling=Throttling(self._throttle.latency, self._throttle.reminders),
            notes=option_warnings(job, options),
            keeps_history=options.keeps_history,
            isolation=Isolation(is_isolated(job, options), self._children.policies(job)),
            warnings={uid: text for uid, text in memory.pods.warnings.items() if uid in silent},
        )

    def _progress_of(self, job: DIJob, pods: Mapping[int, Pod], now: datetime) -> JobProgress:
        if job.spec.stall_seconds is None:
            return JobProgress()
        ranks = {rank: self._launchers.progress_of(pod, now) for rank, pod in pods.items()}
        return replace(self.newest_progress(job.metadata), ranks=ranks)

    def _mounted(self, pod: Pod, memory: JobMemory) -> Pod:
        """Return the view of a pod. If the pod's node cannot mount the launcher's image, the view
        says that the pod must be re-created. If the kubelet does not support image volumes, only an
        event shows this.
        """
        failure = pod.unmountable or mount_warning(memory.pods.warnings.get(pod.uid, ""))
        why = self._delivery.judge(pod, failure) if failure else ""
        return pod if why == pod.unmountable else replace(pod, unmountable=why)

    def _explained(self, pod: Pod, memory: JobMemory, now: datetime) -> Pod:
        """Return the view of a pod. The view names the failing probe and says why the kubelet
        killed a container, but omits problems that are too recent to report.
        """
        known = pod_events.with_causes(pod, memory.pods.causes)
        known = pod_events.with_probe(known, memory.pods.probes)
        return complaints.with_due_complaint(known, memory.pods.noticed, now)


def _with_progress(job: DIJob, pods: Mapping[int, Pod]) -> dict[int, Pod]:
    """If stallSeconds is set, return the pods that have a channel: their progress is needed."""
    if job.spec.stall_seconds is None:
        return {}
    return {rank: pod for rank, pod in pods.items() if pod.made.channel_key}
