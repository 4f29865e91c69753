"""The context of a reconciliation: the job, its world and everything counted so far. All functions
that decide or report take it as `ctx`, so they all see the same state.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cached_property

from dijob import names
from dijob.api.model import DIJob
from dijob.api.status import Status, format_time
from dijob.core.members import Gang, gang_of
from dijob.core.membership import capacity, failures
from dijob.core.membership.address_list import recover_revision
from dijob.core.membership.losses import Loss, loss_of
from dijob.core.membership.policy import Policy
from dijob.core.membership.rendezvous import Rendezvous
from dijob.core.membership.stalls import Standstill, find_standstill
from dijob.core.membership.world import World
from dijob.core.observed.services import changed_fields
from dijob.core.observed.silence import with_silence
from dijob.core.observed.views import Observed, Pod
from dijob.core.render.annotations import derived_fingerprints
from dijob.core.render.budget import wanted_budgets
from dijob.core.render.pod import template_hash
from dijob.core.render.redis import service_spec
from dijob.names import FailureAction

# The kinds of a Redis server's objects, as used in the keys of rejections.
REDIS_KINDS = ("networkpolicy", "service", "pod")


@dataclass(frozen=True)
class Context:
    """Everything that one reconciliation knows.

    `job.status` is the stored status. `next_status` is the new status, which includes the counts of
    this reconciliation. `has_unstored_counts` is true if a failure or success among these counts is
    not stored yet. `new_failures` maps each rank that has failed since the last reconciliation to
    its action in the failure policy, oldest failure first.
    """

    job: DIJob
    world: World
    observed: Observed
    now: datetime
    # The ranks whose pods have been rejected for at least as long as the admission timeout.
    rejected_ranks: frozenset[int]
    next_status: Status
    policy: Policy
    template_changed: bool
    has_unstored_counts: bool
    new_failures: Mapping[int, FailureAction]

    @cached_property
    def rendezvous(self) -> Rendezvous:
        """The rendezvous: the ranks of the next peer list, and the ranks that are still awaited."""
        return Rendezvous(
            world=self.world,
            observed=self.observed,
            window=self.job.spec.gather_seconds,
            now=self.now,
            refused=self.rejected_ranks,
        )

    @cached_property
    def loss(self) -> Loss | None:
        """The loss that makes the newest peer list stale for some ranks; None if there is no new
        loss.
        """
        return loss_of(self.world)

    @cached_property
    def stall(self) -> Standstill | None:
        """The time without progress; None if it is not counted now, or if the job has never made
        progress.
        """
        return find_standstill(self.job, self.world, self.observed.progress, self.now)

    @cached_property
    def unpublished(self) -> tuple[Pod, ...]:
        """The pods to which the active list must be written."""
        return pods_without_list(self.world)

    @cached_property
    def redis_edits(self) -> tuple[str, ...]:
        """The fields that somebody has changed in the Service of the job's own Redis server."""
        gang = self.world.gang
        port = gang.redis[1] if gang.redis else 0
        return changed_fields(self.observed, gang.server, service_spec(gang.job, port))

    @cached_property
    def redis_is_ready(self) -> bool:
        """Whether the job's own Redis server can be reached; true if the job has none.

        No rank starts before the server can be reached. A program that cannot connect to the server
        fails after a while, and the job would count that failure. The server is treated as missing
        while the creation of one of its objects is rejected, or while its Service has been changed
        (redis_edits).
        """
        name, seen = self.world.gang.server, self.observed
        if not name:
            return True
        rejected = any(f"{kind}/{name}" in seen.rejections for kind in REDIS_KINDS)
        pod, service = seen.unranked_pod(name), f"service/{name}" in seen.existing
        runs = pod is not None and pod.ready and not pod.deleting
        return not rejected and service and runs and not self.redis_edits


def pods_without_list(world: World) -> tuple[Pod, ...]:
    """Return the pods to which the active list must be written.

    A pod is included if it lacks the list, for example because an operator was killed while it was
    writing the list to the pods. A pod is also included if somebody has edited its labels or its
    copy of the list. The same applies if it got the list while the job's Redis server was not
    running.
    """
    pods = (world.pods.get(rank) for rank in world.unfinished)
    return tuple(pod for pod in pods if pod and not _has_newest(world, pod))


def _has_newest(world: World, pod: Pod) -> bool:
    """Whether the pod has the newest list and everything that is derived from this list. The pod's
    labels must also be as the operator wrote them.
    """
    copy, newest = pod.copy, world.address_list
    if not newest.text or copy.address_list != newest:
        return False  # Without verified addresses no copy can be correct.
    sound = pod.recognized and not copy.tampered and bool(copy.redis_run or not world.redis_run)
    needed = derived_fingerprints(world.gang, newest, pod.made.reads, pod.rank)
    return sound and needed <= copy.derived


def build_context(job: DIJob, observed: Observed, now: datetime) -> Context:
    """Return the context of the decisions: the comparison of the pods with the peer list, and the
    status with everything counted so far.
    """
    gang, observed = gang_of(job), with_silence(observed, now)
    stored = recover_revision(gang, observed, job.status)
    policy, known = Policy.of(job, gang), failures.read_ledger(stored, gang)
    # Nothing is counted after the job has ended, because the clean-up terminates the programs that
    # are still running.
    over = job.status.ended
    counted, world = known, World.of(gang, observed, known.into(stored), now)
    if not over:
        counted = failures.with_successes(known, world, policy)
        world = replace(world, succeeded=counted.succeeded)
        without_redis = failures.failed_without_redis(gang, observed)
        counted = failures.with_failures(counted, world, policy, now, without_redis)
    present = [pod for pod in observed.pods.values() if not pod.deleting]
    first_seen = observed.first_seen or now
    status = _observed_status(job, world, present, counted.into(stored), first_seen)
    status = status.model_copy(update={"budgets": _budgets_to_record(job, observed)})
    waited = capacity.seconds_rejected(world, observed, status, now)
    timeout = job.spec.schedule_timeout_seconds
    return Context(
        job=job,
        world=world,
        observed=observed,
        now=now,
        rejected_ranks=frozenset(rank for rank, seconds in waited.items() if seconds >= timeout),
        next_status=status,
        policy=policy,
        template_changed=status.template_hash != template_hash(job),
        has_unstored_counts=counted != known,
        new_failures=counted.new,
    )


def _observed_status(
    job: DIJob, world: World, present: list[Pod], counted: Status, first_seen: datetime
) -> Status:
    """Return the status, updated from the spec and the observed pods. `present` are the pods that
    are not being deleted.
    """
    return counted.model_copy(
        update={
            "template_hash": _made_from(job, present),
            "topology": job.topology.value,
            "parallel_workers": None if job.workers_assumed else job.workers,
            "desired": world.gang.size,
            "tasks": world.gang.task_sizes,
            "replicas": sum(pod.rank >= job.spec.fixed for pod in present),
            "task_status": _phases_by_task(world.gang, present),
            "ready_replicas": sum(pod.ready for pod in present),
            "selector": _selector(world.gang),
            "start_time": job.status.start_time or format_time(first_seen),
            # Once a job has started, its attempts to get capacity are counted from 1 again.
            "given_back": None if world.list_is_active else job.status.given_back,
        }
    )


def _selector(gang: Gang) -> str:
    """Return the selector of the pods that the scale subresource counts: those of the last task, or
    all pods of a job without tasks.
    """
    whole = f"{names.LABEL_JOB}={gang.job}"
    return f"{whole},{names.LEGACY_TASK_NAME}={gang.tasks[-1].name}" if gang.tasks else whole


def _budgets_to_record(job: DIJob, observed: Observed) -> str:
    """Return the names of the job's PodDisruptionBudgets.

    These are the budgets that still exist, and those that the job's spec asks for. The latter are
    left out if the job has ended or is suspended.
    """
    none = job.status.ended or job.spec.suspend or job.status.suspend_time
    wanted = () if none else (one.name for one in wanted_budgets(job))
    stored, seen = job.status.budgets.split(), observed.budgets
    there = (name for name in stored if name not in seen or seen[name])
    return " ".join(dict.fromkeys((*there, *wanted)))


def _made_from(job: DIJob, present: Iterable[Pod]) -> str:
    """Return the fingerprint of the template that the pods were made from. The pods' annotations
    are used only if the status has no fingerprint. This happens if the operator is killed before it
    writes one.
    """
    fingerprint = template_hash(job)
    annotated = [pod.made.template_hash for pod in present]
    # Without pods nothing can contradict the spec, so a changed template is accepted now.
    if not annotated:
        return fingerprint
    return job.status.template_hash or next(
        (one for one in annotated if one not in ("", fingerprint)), fingerprint
    )


def _phases_by_task(gang: Gang, pods: Iterable[Pod]) -> dict[str, dict[str, int]]:
    """Return how many pods of each task are in each phase (status.taskStatus of DI-orchestrator
    1.1).
    """
    if not gang.tasks:
        return {}
    phases = (
        (task.name, pod.phase)
        for pod in pods
        if pod.rank >= 0 and (task := gang.member(pod.rank).task)
    )
    counted: dict[str, dict[str, int]] = {}
    for (name, phase), number in sorted(Counter(phases).items()):
        counted.setdefault(name, {})[phase] = number
    return counted
