"""Publishes a new peer list in two steps: first its revision and digest are written to the status,
then the list is written to each pod.

The order makes it safe to kill the operator at any time: the next one finds the revision in the
status and gives all pods the same list.
"""

from collections.abc import Iterable
from dataclasses import replace
from itertools import islice

from dijob.core.actions import Action, PublishAddresses
from dijob.core.addresses import AddressList, ListCopy
from dijob.core.decide import redis_server, requeue
from dijob.core.decide.context import Context
from dijob.core.membership.address_list import proof_of
from dijob.core.membership.world import World
from dijob.core.observed.views import Pod
from dijob.names import Addressing


def next_list(ctx: Context) -> AddressList | None:
    """Return the peer list to publish now, with its revision, or None."""
    world = ctx.world
    if not ctx.rendezvous.next_size:
        return None
    if not world.list_is_active and not redis_server.is_ready(world.gang, ctx.observed):
        # A program that starts without its Redis server fails after a while, and the failure would
        # be counted.
        return None
    # The stale revision counts as well: a revision is never used twice, even if the status lost
    # the number.
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
    it. A pod whose program has not started waits while the job's Redis server is not ready.
    """
    world = ctx.world
    if not world.list_is_active:
        return ()
    ready = redis_server.is_ready(world.gang, ctx.observed)
    return (
        *_publish_list(world, (pod for pod in ctx.unpublished if pod.has_started or ready)),
        *_due_reminders(ctx),
    )


def _due_reminders(ctx: Context) -> tuple[Action, ...]:
    # Bounded, because reminders are extra writes that come just when the API server is slow.
    due = (reminder for reminder, left in requeue.pending_reminders(ctx) if left <= 0)
    return tuple(islice(due, ctx.observed.throttling.reminders))


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
