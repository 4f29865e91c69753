"""The heart: plan(job, observed, now) decides what to do next and what to say. It acts on nothing.

The rules, in the order in which a job meets them:
1. Missing pods are created; the gate in each of them waits for the address list.
2. When every rank has an address, the list is published under the next epoch, and the programs start.
   Those below minReplicas must be there; the others are waited for a little, and may join later (gather.py).
3. A rank that is lost kills the list for itself and for those that dial it (world.py): that is written down first, then
   their old pods go, and rule 1 begins again for them; all others run on, and are given the next list too. Failures and
   successes are written down before the pods that show them are deleted.
4. All ranks have succeeded, or more failures than backoffLimit: the job has ended, and its pods are cleaned up.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from itertools import takewhile

from dijob import names
from dijob.core import ledger, lost_nodes, report, room
from dijob.core.actions import (
    Action,
    CreateInOrder,
    CreatePod,
    CreateService,
    DeletePod,
    EndPod,
    Event,
    ForceDeletePod,
    GiveBackPod,
    NudgePod,
    PublishAddresses,
    SetReplicas,
)
from dijob.core.gather import Gathering
from dijob.core.manifests import gang_of, template_hash
from dijob.core.members import compact
from dijob.core.observe import Observed, Pod
from dijob.core.phases import Fact, conclude, ended, events, is_true
from dijob.core.report import Pass
from dijob.core.world import Loss, World
from dijob.names import Addressing, CleanPodPolicy, RestartScope
from dijob.names import Condition as Type
from dijob.spec.model import DIJob
from dijob.spec.status import Renewal, Status, stamp

# A full pass that writes nothing when nothing differs (the shell adds jitter).
RESYNC_SECONDS = 300.0
# While the job is not running yet: reasons such as FailedMount come only as events, which nobody watches. The longer
# the job waits, the more rarely it is looked at: after a quarter of its age, within these bounds.
LOOK_AGAIN_SECONDS = (4.0, 60.0)
# A kubelet can miss that a list should show in the pod's files: once in some 500 pods, on a busy machine, a gate waited
# for over a minute although its pod had the list. Any change of the pod makes it look again.
NUDGE_SECONDS = 8.0
# Of the pods that are created one after the other, so many in one pass.
IN_ORDER_AT_ONCE = 32
# Between two creations of one pod: 1, 2, 4 ... seconds; one that has lived long starts anew.
CREATION_BACKOFF_SECONDS = 60.0
FORGIVE_SECONDS = 600.0


@dataclass(frozen=True)
class Plan:
    """One pass: the status to write (if it differs), what to do, what to tell, when to look again (seconds)."""

    status: Status
    actions: tuple[Action, ...] = ()
    events: tuple[Event, ...] = ()
    requeue_after: float = RESYNC_SECONDS


def plan(job: DIJob, observed: Observed, now: datetime) -> Plan:
    """Decide one pass.

    Pure: the same arguments give the same plan, and when a plan has been carried out the next one is empty.
    """
    if job.metadata.deletion_timestamp:
        return Plan(job.status)  # the garbage collector takes the pods; nothing is created behind its back
    this = _look(job, observed, now)
    if ended(job.status):
        return _conclude(this, this.status, report.bystanders(this), () if job.paused else _clean(this))
    if not this.world.waiting:
        return _conclude(this, _completed(this), report.succeeded(this))
    if this.status.restarts > job.spec.backoff_limit:
        return _conclude(this, _completed(this), report.failed(this))
    if job.paused or this.template_changed:
        return _conclude(this, this.status, report.progress(this))
    if loss := this.world.loss or _scaled(this):
        return _renew(this, loss)
    timeout = job.spec.schedule_timeout_seconds
    if given := room.gives_back(this.world, observed, this.status, timeout, now):
        # Written down first, as a renewal is: an operator that is killed here must not create them again at once.
        this = replace(this, status=this.status.model_copy(update={"given_back": given}))
        return replace(_conclude(this, this.status, report.progress(this)), requeue_after=0.0)
    return _conclude(this, this.status, report.progress(this), _advance(this))


def _look(job: DIJob, observed: Observed, now: datetime) -> Pass:
    """Gather what the pass decides on: the world as it stands, and the status with everything counted so far."""
    gang, known = gang_of(job), ledger.read(job.status)
    together = job.spec.restart.scope is RestartScope.JOB
    world = World.of(gang, observed, job.status, now, together)
    # After the end nothing is charged any more: what ends then is ended by the clean-up.
    settled = known if ended(job.status) else ledger.settle(known, world, now)
    present = [pod for pod in observed.pods.values() if not pod.deleting]
    status = settled.into(job.status).model_copy(
        update={
            "epoch": world.epoch,
            "topology": job.topology.value,
            "parallel_workers": job.workers,
            "replicas": len(present),
            "ready_replicas": sum(pod.ready for pod in present),
            "selector": f"{names.LABEL_JOB}={gang.job}",
            "start_time": job.status.start_time or stamp(now),
            # Once it has begun, the next time is the first time again.
            "given_back": None if world.alive else job.status.given_back,
        }
    )
    fingerprint = template_hash(job)
    changed = any(pod.template_hash not in ("", fingerprint) for pod in present)
    world = replace(world, succeeded=settled.succeeded)
    gathering = Gathering(world, observed, job.spec.gather_seconds, now)
    return Pass(job, gathering, status, changed, settled != known)


def _conclude(this: Pass, status: Status, facts: Iterable[Fact], actions: tuple[Action, ...] = ()) -> Plan:
    status = conclude(status, facts, this.job.metadata.generation, this.now)
    return Plan(status, actions, events(this.job.status, status), _requeue(this, status))


def _renew(this: Pass, loss: Loss) -> Plan:
    """Write down for whom the list is dead, and whose fault it is. The next pass acts on it."""
    # Also for those who are not wished for any more and still have it: they may be wished for again before they go.
    ranks = loss.ranks | this.world.doomed
    renewal = Renewal(
        epoch=this.world.epoch,
        reason=loss.reason,
        message=loss.message,
        ranks=compact(ranks),
        time=stamp(this.now),
    )
    # A rank that is lost before the next list is there belongs to the same renewal.
    update = {"last_renewal": renewal, "renewals": this.status.renewals + (1 if this.world.alive else 0)}
    status = this.status.model_copy(update=update)
    dead = replace(this.world, dead=True, renewing=ranks)
    this = replace(this, gathering=replace(this.gathering, world=dead), status=status)
    return replace(_conclude(this, status, report.progress(this)), requeue_after=0.0)


def _scaled(this: Pass) -> Loss | None:
    """Programs that cannot take or lose a member while they run are all made anew in the new size."""
    world, size = this.world, this.gathering.size
    if not (world.together and world.alive and size) or size == world.size:
        return None
    return Loss("Scaled", f"replicas changed from {world.size} to {size}", frozenset(world.waiting))


def _advance(this: Pass) -> tuple[Action, ...]:
    """The next step towards running, or towards another size."""
    spec, world = this.job.spec, this.world
    wish = (SetReplicas(spec.desired),) if spec.replicas is None else ()
    if world.idle and room.waits(this.status, this.now) > 0:
        pods = (pod for _, pod in sorted(world.pods.items()) if not pod.finished)
        return () if this.unwritten else _delete(pods)
    return (*wish, *_tell(this), *_hire(this), *_serve(this))


def _tell(this: Pass) -> tuple[Action, ...]:
    """Give out a new list where one is due, else go on with the one in force."""
    world, size = this.world, this.gathering.size
    if not size:
        return (*_publish(world, world.unpublished, world.epoch, world.listed), *_nudge(this)) if world.alive else ()
    pods = (world.pods[rank] for rank in world.wanted if rank < size)
    return _publish(world, pods, world.epoch + 1, world.next_list(size))


def _nudge(this: Pass) -> tuple[Action, ...]:
    return tuple(nudge for nudge, left in _deaf(this) if left <= 0)


def _deaf(this: Pass) -> list[tuple[NudgePod, float]]:
    """The pods in which a list has had no effect yet: they are still at the gate, or their process has not started
    again. How to remind their kubelets, and in how many seconds."""
    world, now = this.world, this.now
    pods = (pod for rank in world.waiting if (pod := world.pods.get(rank)) and not pod.deleting)
    found = []
    for pod in pods if world.alive else ():
        at_gate = pod.gated and pod.epoch == world.epoch
        if at_gate or pod.rank in world.pending:
            epoch = pod.epoch if at_gate else pod.renew_from
            told = this.observed.told.get((pod.uid, epoch), now)
            last = this.observed.nudged.get((pod.uid, epoch), told)
            found.append((NudgePod(pod.name, pod.uid, epoch, stamp(now)), NUDGE_SECONDS - (now - last).total_seconds()))
    return found


def _hire(this: Pass) -> tuple[Action, ...]:
    """Pods that are missing come, pods that belong to no list go."""
    world, gathering, member = this.world, this.gathering, this.world.gang.member
    create: tuple[Action, ...] = tuple(
        CreatePod(member(rank)) for rank in gathering.needed if _wait_to_create(this, rank) <= 0
    )
    due = takewhile(lambda rank: _wait_to_create(this, rank) <= 0, gathering.recruits)
    if ranks := tuple(due)[:IN_ORDER_AT_ONCE]:
        create = (CreateInOrder(tuple(map(member, ranks))),)
    if this.unwritten:
        # A failure that is not in the stored status yet would be lost with its pod: that write comes first.
        return create
    back = (GiveBackPod(pod.name, pod.uid),) if (pod := gathering.given_back) else ()
    force = tuple(ForceDeletePod(p.name, p.uid) for p in lost_nodes.overdue(world.pods.values(), this.now))
    return (*_delete(world.stale), *back, *force, *create)


def _serve(this: Pass) -> tuple[Action, ...]:
    return (CreateService(),) if _unserved(this) and _may_ask(this, f"service/{this.world.gang.job}") else ()


def _unserved(this: Pass) -> bool:
    """Whether the service is wanted and missing.

    Who is told IPs waits for it no longer than until all run: its endpoints take a fifth of the control plane's work.
    """
    by_name = this.world.gang.addressing is Addressing.HOSTNAME
    wanted = by_name or (this.world.alive and is_true(this.job.status, Type.RUNNING))
    return wanted and not this.observed.service


def _publish(world: World, pods: Iterable[Pod], epoch: int, ips: str) -> tuple[Action, ...]:
    by_name = world.gang.addressing is Addressing.HOSTNAME
    lists = ((pod, pod.ip if by_name else "", pod.rank in world.owed) for pod in pods)
    return tuple(PublishAddresses(pod.name, pod.uid, epoch, ips, ip, renew) for pod, ip, renew in lists)


def _delete(pods: Iterable[Pod]) -> tuple[Action, ...]:
    return tuple(DeletePod(pod.name, pod.uid) for pod in pods if not pod.deleting)


def _clean(this: Pass) -> tuple[Action, ...]:
    """After the end: pods go as cleanPodPolicy says. One that failed again and again is ended so that its logs stay."""
    pods = [pod for _, pod in sorted(this.world.pods.items())]
    policy = this.job.spec.clean_pod_policy
    if policy is CleanPodPolicy.ALL:
        return _delete(pods)
    going = [pod for pod in pods if not pod.finished and not pod.deleting]
    failed = {charge.uid for charge in this.job.status.charged if charge.failures}
    guilty = [pod for pod in going if pod.uid in failed and is_true(this.job.status, Type.FAILED)]
    end = tuple(EndPod(pod.name, pod.uid) for pod in guilty if not pod.ending_soon)
    # Who was never given a list waits at the gate, and would for ever: there is nothing of his to keep.
    rest = [pod for pod in going if pod not in guilty and (policy is CleanPodPolicy.RUNNING or not pod.ips)]
    return (*end, *_delete(rest))


def _completed(this: Pass) -> Status:
    return this.status.model_copy(update={"completion_time": stamp(this.now)})


def _may_ask(this: Pass, key: str) -> bool:
    refusal = this.observed.refusals.get(key)
    return refusal is None or refusal.retry_at <= this.now


def _wait_to_create(this: Pass, rank: int) -> float:
    """Seconds until the rank's pod may be created (again); 0 or less: now."""
    name = this.world.gang.member(rank).name
    refusal = this.observed.refusals.get(f"pod/{name}")
    wait = (refusal.retry_at - this.now).total_seconds() if refusal else 0.0
    creation = this.observed.creations.get(name)
    if creation is None or this.now - creation.at > timedelta(seconds=FORGIVE_SECONDS):
        return wait
    backoff = min(CREATION_BACKOFF_SECONDS, 2.0 ** min(creation.count - 1, 10))
    return max(wait, backoff - (this.now - creation.at).total_seconds())


def _requeue(this: Pass, status: Status) -> float:
    """When to look again although nothing happens, in seconds."""
    if this.job.paused:
        return RESYNC_SECONDS
    if ended(status):
        return 0.0 if not ended(this.job.status) else RESYNC_SECONDS
    if (pause := room.waits(this.status, this.now)) > 0 and this.world.idle:
        return min(RESYNC_SECONDS, pause + 0.5)  # the stamp has whole seconds
    waits = [RESYNC_SECONDS]
    if not this.template_changed:
        waits += [_wait_to_create(this, rank) for rank in this.gathering.needed]
        waits += [_wait_to_create(this, rank) for rank in this.gathering.recruits[:1]]
        left = (
            lost_nodes.wait(this.world.pods.values(), this.now),
            this.gathering.wait,
            room.patience(this.world, this.job.spec.schedule_timeout_seconds, this.now),
        )
        waits += [seconds + 0.5 for seconds in left if seconds and seconds > 0]  # the stamps have whole seconds
    waits += [left for _, left in _deaf(this)]
    refusal = this.observed.refusals.get(f"service/{this.world.gang.job}")
    if refusal and _unserved(this):
        waits.append((refusal.retry_at - this.now).total_seconds())
    if not is_true(status, Type.RUNNING) or not this.world.alive or this.world.addressless:
        least, most = LOOK_AGAIN_SECONDS
        waits.append(min(most, max(least, report.age(status, this.now) / 4)))
    # Never at once: a refusal that is already over is asked again by this very plan.
    return max(min(waits), 0.1)
