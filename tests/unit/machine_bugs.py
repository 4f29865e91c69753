"""Bugs of the core, to be put in by hand: each must be found by the story that it stands with."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from dijob.core.addresses import AddressList
from dijob.core.decide import address_writes, completion, plan, renewal, suspension
from dijob.core.decide.deletion import deletions
from dijob.core.members import Gang
from dijob.core.membership import address_list, failures, losses, restart, together
from dijob.core.membership.gathering import Gathering
from dijob.core.membership.world import World
from dijob.core.observed import containers, parse, sandbox
from dijob.core.observed.views import Observed
from dijob.core.report import redis

Patch = Callable[[pytest.MonkeyPatch], None]


def address_changes_are_not_seen(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(losses, "has_moved", lambda world, pod: False)


def a_list_number_is_used_again(patch: pytest.MonkeyPatch) -> None:
    numbered = address_writes.numbered

    def first(ctx: Any, due: AddressList) -> Any:
        made, again = numbered(ctx, due), address_list.proof_of(AddressList(1, due.text))
        update = {"list_number": 1, "address_list": again}
        return replace(made, status=made.status.model_copy(update=update))

    patch.setattr(address_writes, "numbered", first)


def a_list_is_what_a_pod_says(patch: pytest.MonkeyPatch) -> None:
    """Whichever pod has the highest number, as if annotations could be written by nobody else."""

    def claimed(gang: Any, pods: Any, status: Any) -> AddressList:
        held = (pod.copy.address_list for pod in pods.values() if pod.has_list)
        highest = max(((one.number, one.text) for one in held), default=(0, ""))
        return AddressList(status.list_number, highest[1])

    patch.setattr(address_list, "newest", claimed)


def a_forged_list_is_left_on_its_pod(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(
        World,
        "unpublished",
        property(lambda world: tuple(p for p in world.pods.values() if not p.has_list)),
    )


def pods_go_before_their_failure_is_written(patch: pytest.MonkeyPatch) -> None:
    look = plan._build_context
    patch.setattr(
        plan, "_build_context", lambda *given: replace(look(*given), has_unstored_counts=False)
    )


def a_list_half_handed_out_stays_so(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(World, "unpublished", ())


def what_was_charged_is_forgotten(patch: pytest.MonkeyPatch) -> None:
    read = failures.read
    patch.setattr(failures, "read", lambda status, gang: replace(read(status, gang), charges={}))


def an_eviction_is_a_failure(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(parse, "_disrupted", lambda status: False)


def a_dead_sandbox_is_a_failure(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(sandbox, "died", lambda status, main, launched: False)


def the_address_of_a_gone_peer_is_published(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(World, "_must_be_deleted", lambda self, rank, pod: False)


def who_dials_the_lost_rank_is_forgotten(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Gang, "dialers", lambda self, rank: frozenset())


def the_survivors_are_not_told_of_the_next_list(patch: pytest.MonkeyPatch) -> None:
    publish = address_writes._publish
    patch.setattr(
        address_writes,
        "_publish",
        lambda world, pods: publish(world, [p for p in pods if not p.has_list]),
    )


def who_is_too_many_stays(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(
        World, "_must_be_deleted", lambda self, rank, pod: rank < self.gang.size and pod.failed
    )


def the_list_keeps_those_who_left(patch: pytest.MonkeyPatch) -> None:
    reach = property(lambda self: self.world.possible_size if not self.world.in_force else 0)
    patch.setattr(Gathering, "next_size", reach)


def a_renewal_is_a_failure(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(restart, "uncharged_ends", lambda pod, known, new: 0)


def who_leaves_no_record_has_crashed(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(containers, "unrecorded", lambda main: False)


def who_was_not_told_of_a_renewal_is_forgotten(patch: pytest.MonkeyPatch) -> None:
    told = restart.unrequested

    def blind(pods: Any, ranks: Any, last: Any) -> frozenset[int]:
        """Only while no pod has the next list."""
        begun = any(pod.copy.address_list.number > last.list_number for pod in pods.values())
        return frozenset() if begun else told(pods, ranks, last)

    patch.setattr(restart, "unrequested", blind)


def who_does_not_hear_is_waited_for(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(restart, "seconds_left", lambda pod, observed, now: 1.0)


def who_does_not_hear_is_asked_again(patch: pytest.MonkeyPatch) -> None:
    of = World.of

    def hopeful(*given: Any) -> World:
        world = of(*given)
        possible = world.restarts.possible | world.restarts.pending
        return replace(world, restarts=replace(world.restarts, possible=possible))

    patch.setattr(World, "of", hopeful)


def pods_go_before_the_suspension_is_written(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(
        suspension,
        "actions",
        lambda ctx: deletions(pod for _, pod in sorted(ctx.world.pods.items())),
    )


def time_suspended_counts(patch: pytest.MonkeyPatch) -> None:
    left = completion._active_left
    patch.setattr(
        completion,
        "_active_left",
        lambda ctx: left(
            replace(ctx, status=ctx.status.model_copy(update={"suspended_seconds": 0}))
        ),
    )


def nobody_waits_for_the_server(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(redis, "absence", lambda gang, observed: "")


def another_server_is_taken_for_the_old_one(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Observed, "run_of", lambda self, name: "always the same")


def a_disruption_is_counted_again_and_again(patch: pytest.MonkeyPatch) -> None:
    new = failures._new
    patch.setattr(
        failures,
        "_new",
        lambda pod, before, policy: new(
            pod, before.model_copy(update={"disrupted": False}), policy
        ),
    )


def who_has_succeeded_is_left_out(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(together, "everybody", lambda world: frozenset(world.unfinished))
    patch.setattr(together, "lasting_successes", lambda world: world.succeeded)


def a_success_is_taken_back_after_the_renewal(patch: pytest.MonkeyPatch) -> None:
    """By the next write: an operator that is killed before it leaves the others to wait."""
    recorded = renewal.recorded

    def late(ctx: Any, loss: Any) -> Any:
        made = recorded(ctx, loss)
        update = {"succeeded_ranks": ctx.status.succeeded_ranks}
        return replace(made, status=made.status.model_copy(update=update))

    def taken_back(status: Any, gang: Any) -> failures.Ledger:
        dead = status.last_renewal and status.last_renewal.list_number == status.list_number
        known = read(status, gang)
        return replace(known, succeeded=frozenset()) if dead else known

    read = failures.read
    patch.setattr(renewal, "recorded", late)
    patch.setattr(failures, "read", taken_back)


def a_success_under_a_dead_list_counts(patch: pytest.MonkeyPatch) -> None:
    of = World.of
    patch.setattr(World, "of", lambda *given: replace(of(*given), died=-1))


def who_crashes_for_free_begins_alone(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(together, "stranded", lambda world: frozenset())
