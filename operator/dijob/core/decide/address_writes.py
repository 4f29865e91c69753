"""Publishes a new peer list in two steps: first its revision and digest are written to the status,
then the list is written to each pod.

This order makes it safe to kill the operator at any time. The next operator finds the revision in
the status, and gives all pods the same list.
"""

import math
from collections.abc import Iterable
from dataclasses import replace
from itertools import islice

from dijob.api.status import format_time
from dijob.core import pace
from dijob.core.actions import Action, PublishAddresses, RemindPod
from dijob.core.addresses import AddressList, ListCopy
from dijob.core.decide.context import Context
from dijob.core.membership.address_list import proof_of
from dijob.core.membership.world import World
from dijob.core.observed.views import Pod
from dijob.names import Addressing

# A kubelet can fail to write a changed annotation into the pod's files. On a busy machine, about
# one in 500 pods stayed at its gate for over a minute although it had the list. Any change to the
# pod makes the kubelet check again. If API writes are quick, a kubelet normally writes a list into
# these files within 1.2 s, even on a busy machine. If API writes are slow, the reminder comes later
# (pace.py).
REMIND_SECONDS = 4.0


def next_list(ctx: Context) -> AddressList | None:
    """Return the peer list to publish now, with its revision, or None."""
    world = ctx.world
    if not ctx.rendezvous.next_size:
        return None
    if not world.list_is_active and not ctx.redis_is_ready:
        # A program that starts without its Redis server fails after a while, and the failure would
        # be counted.
        return None
    # The revision of the stale list is also taken into account. So no revision is used twice, even
    # if `listNumber` was removed from the status.
    last = ctx.next_status.last_renewal
    stale = last.list_number if last else 0
    return ctx.rendezvous.next_list(max(world.address_list.number, stale) + 1)


def with_new_revision(ctx: Context, due: AddressList) -> Context:
    """Return the context with the revision and the digest of the new list in its status. The list
    is active once this status is written.
    """
    kept = {"list_number": due.number, "address_list": proof_of(due), "given_back": None}
    status = ctx.next_status.model_copy(update=kept)
    world = World.of(ctx.world.gang, ctx.observed, status, ctx.now)
    return replace(ctx, world=world, next_status=status)


def publish_peer_list(ctx: Context) -> tuple[Action, ...]:
    """Write the active list to the pods that do not have it, and remind kubelets that have missed
    it. While the job's Redis server is not ready, the list is not written to pods whose programs
    have not started.
    """
    world = ctx.world
    if not world.list_is_active:
        return ()
    ready = ctx.redis_is_ready
    return (
        *_publish_list(world, (pod for pod in ctx.unpublished if pod.has_started or ready)),
        *_due_reminders(ctx),
    )


def _due_reminders(ctx: Context) -> tuple[Action, ...]:
    # Bounded, because reminders are extra writes that come just when the API server is slow.
    due = (reminder for reminder, left in pending_reminders(ctx) if left <= 0)
    return tuple(islice(due, ctx.observed.throttling.reminders))


def pending_reminders(ctx: Context) -> list[tuple[RemindPod, float]]:
    """Return a reminder for each pod that has not acted on the peer list yet, with the seconds
    until the reminder is due. Such a pod is still at its gate, or its process has not restarted.
    The pause doubles with each reminder.
    """
    world, now, newest = ctx.world, ctx.now, ctx.world.address_list.number
    stamped = format_time(now)  # Formatted once, because a job can have 1,500 pods.
    pause = pace.write_interval(REMIND_SECONDS, ctx.observed.throttling.latency)
    soonest = -math.inf if ctx.observed.throttling.reminders else pause
    pods = (pod for rank in world.unfinished if (pod := world.pods.get(rank)) and not pod.deleting)
    found = []
    for pod in pods if world.list_is_active else ():
        at_gate = pod.containers.gated and pod.copy.address_list.number == newest
        if at_gate or pod.rank in world.restarts.pending:
            number = newest if at_gate else pod.copy.renew_from
            seen = ctx.observed.list_seen.get((pod.uid, number), now)
            last = ctx.observed.reminded.get((pod.uid, number), seen)
            # A pause lasts for the minimum pause plus the time from the first observation of the
            # list to the last reminder. So each pause is about twice as long as the previous one.
            left = pause + (last - seen).total_seconds() - (now - last).total_seconds()
            found.append((RemindPod(pod.name, pod.uid, number, stamped), max(left, soonest)))
    return found


def _publish_list(world: World, pods: Iterable[Pod]) -> tuple[Action, ...]:
    newest, by_name = world.address_list, world.gang.addressing is Addressing.HOSTNAME
    return tuple(
        PublishAddresses(
            pod.name,
            pod.uid,
            ListCopy(
                address_list=newest,
                pod_ip=pod.ip if by_name else "",
                redis_run=world.redis_run or pod.copy.redis_run,
                renew_from=newest.number
                if pod.rank in world.restarts.unrequested
                else pod.copy.renew_from,
                first_shape=pod.copy.first_shape or pod.made.shape,
            ),
            pod.made.reads,
        )
        for pod in pods
    )
