"""What a job waits for, and so when to look again although nothing happens."""

from datetime import timedelta

from dijob.core import broker, finish, lost_nodes, renewal, report, room, suspension
from dijob.core.actions import NudgePod
from dijob.core.phases import ended, is_true
from dijob.core.report import Pass
from dijob.names import Addressing
from dijob.names import Condition as Type
from dijob.spec.status import Status, stamp

# A full pass that writes nothing when nothing differs (the shell adds jitter).
RESYNC_SECONDS = 300.0
# While the job is not running yet: reasons such as FailedMount come only as events, which nobody watches. The longer
# the job waits, the more rarely it is looked at: after a quarter of its age, within these bounds.
LOOK_AGAIN_SECONDS = (4.0, 60.0)
# A kubelet can miss that a list should show in the pod's files: once in some 500 pods, on a busy machine, a gate waited
# for over a minute although its pod had the list. Any change of the pod makes it look again.
NUDGE_SECONDS = 8.0
# Between two creations of one pod: 1, 2, 4 ... seconds; one that has lived long starts anew.
CREATION_BACKOFF_SECONDS = 60.0
FORGIVE_SECONDS = 600.0


def requeue(this: Pass, status: Status, refused: float | None) -> float:
    """When to look again although nothing happens, in seconds; `refused`: a refused change is asked for again then."""
    latest = _requeue(this, status)
    return latest if refused is None else max(min(latest, refused), 0.1)


def _requeue(this: Pass, status: Status) -> float:
    if this.job.paused:
        return RESYNC_SECONDS
    if ended(status):
        return _at_latest(finish.time_to_live(this)) if ended(this.job.status) else 0.0
    if suspension.concerns(this):
        return _at_latest(lost_nodes.wait(this.observed.everything, this.now))
    latest = _at_latest(finish.deadline(this))
    if (pause := room.waits(this.status, this.now)) > 0 and this.world.idle:
        return min(latest, pause + 0.5)  # the stamp has whole seconds
    waits = [latest]
    if not this.template_changed:
        waits += [wait_to_create(this, rank) for rank in this.gathering.needed]
        waits += [wait_to_create(this, rank) for rank in this.gathering.recruits[:1]]
        known = (
            lost_nodes.wait(this.world.pods.values(), this.now),
            this.gathering.wait,
            room.patience(this.world, this.observed, this.status, this.job.spec.schedule_timeout_seconds, this.now),
        )
        waits += [seconds + 0.5 for seconds in known if seconds and seconds > 0]  # the stamps have whole seconds
    waits += [left for _, left in deaf(this) if left > 0]
    waits += [
        max(0.0, renewal.left(this.world.pods[rank], this.observed, this.now)) + 0.5 for rank in this.world.pending
    ]
    refusal = this.observed.refusals.get(f"service/{this.world.gang.job}")
    if refusal and unserved(this):
        waits.append((refusal.retry_at - this.now).total_seconds())
    if broker.absence(this.world.gang, this.observed):
        waits.append(max(LOOK_AGAIN_SECONDS[0], wait_for_pod(this, this.world.gang.server)))
    if not is_true(status, Type.RUNNING) or not this.world.alive or this.world.addressless:
        least, most = LOOK_AGAIN_SECONDS
        waits.append(min(most, max(least, report.age(status, this.now) / 4)))
    # Never at once: a refusal that is already over is asked again by this very plan.
    return max(min(waits), 0.1)


def _at_latest(left: float | None) -> float:
    """When something comes in so many seconds (None: nothing does; 0 or less: it is there). The stamps have whole
    seconds."""
    return RESYNC_SECONDS if left is None or left <= 0 else min(RESYNC_SECONDS, left + 0.5)


def deaf(this: Pass) -> list[tuple[NudgePod, float]]:
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


def unserved(this: Pass) -> bool:
    """Whether the service is wanted and missing.

    Who is told IPs waits for it no longer than until all run: its endpoints take a fifth of the control plane's work.
    """
    by_name = this.world.gang.addressing is Addressing.HOSTNAME
    wanted = by_name or (this.world.alive and is_true(this.job.status, Type.RUNNING))
    return wanted and this.world.gang.job not in this.observed.services


def may_ask(this: Pass, key: str) -> bool:
    refusal = this.observed.refusals.get(key)
    return refusal is None or refusal.retry_at <= this.now


def wait_to_create(this: Pass, rank: int) -> float:
    """Seconds until the rank's pod may be created (again); 0 or less: now."""
    return wait_for_pod(this, this.world.gang.member(rank).name)


def wait_for_pod(this: Pass, name: str) -> float:
    """Seconds until the pod of this name may be created (again); 0 or less: now."""
    refusal = this.observed.refusals.get(f"pod/{name}")
    wait = (refusal.retry_at - this.now).total_seconds() if refusal else 0.0
    creation = this.observed.creations.get(name)
    if creation is None or this.now - creation.at > timedelta(seconds=FORGIVE_SECONDS):
        return wait
    backoff = min(CREATION_BACKOFF_SECONDS, 2.0 ** min(creation.count - 1, 10))
    return max(wait, backoff - (this.now - creation.at).total_seconds())
