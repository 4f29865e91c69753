"""Bugs that tests insert into the core. Each must be found by the story that
test_machine.py names.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from dijob.api.model import DIJob
from dijob.controller import reconcile
from dijob.controller.observe import queue_reader
from dijob.core.actions import CreateBudget
from dijob.core.addresses import AddressList
from dijob.core.decide import (
    address_writes,
    budgets,
    completion,
    context,
    queueing,
    re_rendezvous,
    scheduling,
    stalls,
    suspension,
)
from dijob.core.decide.context import Context, build_context
from dijob.core.decide.deletion import delete_pods
from dijob.core.members import Gang
from dijob.core.membership import address_list, failures, gang_restart, losses, restart
from dijob.core.membership.rendezvous import Rendezvous
from dijob.core.membership.world import World
from dijob.core.observed import containers, parse, sandbox
from dijob.core.observed.queue_views import Workload
from dijob.core.observed.views import Observed
from dijob.core.render.budget import wanted_budgets

Patch = Callable[[pytest.MonkeyPatch], None]


def address_changes_are_ignored(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(losses, "has_moved", lambda world, pod: False)


def a_revision_is_reused(patch: pytest.MonkeyPatch) -> None:
    numbered = address_writes.with_new_revision

    def first(ctx: Any, due: AddressList) -> Any:
        made, again = numbered(ctx, due), address_list.proof_of(AddressList(1, due.text))
        update = {"list_number": 1, "address_list": again}
        return replace(made, next_status=made.next_status.model_copy(update=update))

    patch.setattr(address_writes, "with_new_revision", first)


def a_stall_restarts_repeatedly(patch: pytest.MonkeyPatch) -> None:
    counted = stalls.record_restart

    def forget(ctx: Context, loss: losses.Loss) -> Context:
        made = counted(ctx, loss)
        return replace(made, next_status=made.next_status.model_copy(update={"stall": None}))

    patch.setattr(stalls, "record_restart", forget)


def the_list_on_a_pod_is_trusted(patch: pytest.MonkeyPatch) -> None:
    """Trust the pod with the highest revision, as if only the operator could write annotations."""

    def claimed(gang: Any, pods: Any, status: Any) -> AddressList:
        held = (pod.copy.address_list for pod in pods.values() if pod.has_list)
        highest = max(((one.number, one.text) for one in held), default=(0, ""))
        return AddressList(status.list_number, highest[1])

    patch.setattr(address_list, "newest_list", claimed)


def a_forged_list_stays_on_its_pod(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(
        Context,
        "unpublished",
        property(lambda ctx: tuple(p for p in ctx.world.pods.values() if not p.has_list)),
    )


def pods_are_deleted_before_their_failure_is_stored(patch: pytest.MonkeyPatch) -> None:
    look = build_context
    patch.setattr(
        reconcile, "build_context", lambda *given: replace(look(*given), has_unstored_counts=False)
    )


def a_partly_published_list_is_not_completed(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Context, "unpublished", ())


def counted_failures_are_forgotten(patch: pytest.MonkeyPatch) -> None:
    read = failures.read_ledger
    patch.setattr(
        failures, "read_ledger", lambda status, gang: replace(read(status, gang), charges={})
    )


def evictions_count_as_failures(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(parse, "_is_disrupted", lambda status: False)


def dead_sandboxes_count_as_failures(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(sandbox, "has_died", lambda status, main, launched: False)


def the_address_of_a_lost_rank_is_published(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(World, "_must_be_deleted", lambda self, rank, pod: False)


def ranks_that_connect_to_the_lost_rank_do_not_restart(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Gang, "dialers", lambda self, rank: frozenset())


def surviving_ranks_do_not_get_the_next_list(patch: pytest.MonkeyPatch) -> None:
    publish = address_writes._publish_list
    patch.setattr(
        address_writes,
        "_publish_list",
        lambda world, pods: publish(world, [p for p in pods if not p.has_list]),
    )


def ranks_beyond_the_desired_size_stay(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(
        World, "_must_be_deleted", lambda self, rank, pod: rank < self.gang.size and pod.failed
    )


def the_list_keeps_ranks_that_left(patch: pytest.MonkeyPatch) -> None:
    reach = property(lambda self: self.world.possible_size if not self.world.list_is_active else 0)
    patch.setattr(Rendezvous, "next_size", reach)


def requested_restarts_count_as_failures(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(restart, "uncharged_ends", lambda pod, known, new: 0)


def an_end_without_a_record_counts_as_a_crash(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(containers, "has_unrecorded_end", lambda main: False)


def unrequested_restarts_are_forgotten(patch: pytest.MonkeyPatch) -> None:
    told = restart.unrequested_restarts

    def blind(pods: Any, ranks: Any, last: Any) -> frozenset[int]:
        """Forget unrequested restarts once a pod has the next list."""
        begun = any(pod.copy.address_list.number > last.list_number for pod in pods.values())
        return frozenset() if begun else told(pods, ranks, last)

    patch.setattr(restart, "unrequested_restarts", blind)


def overdue_restarts_are_waited_for(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(restart, "seconds_left", lambda pod, observed, now: 1.0)


def overdue_restarts_are_requested_again(patch: pytest.MonkeyPatch) -> None:
    of = World.of

    def hopeful(*given: Any) -> World:
        world = of(*given)
        possible = world.restarts.possible | world.restarts.pending
        return replace(world, restarts=replace(world.restarts, possible=possible))

    patch.setattr(World, "of", hopeful)


def pods_are_deleted_before_the_suspension_is_stored(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(
        suspension,
        "delete_all_pods",
        lambda ctx: delete_pods(pod for _, pod in sorted(ctx.world.pods.items())),
    )


def time_suspended_counts(patch: pytest.MonkeyPatch) -> None:
    left = completion._active_left
    patch.setattr(
        completion,
        "_active_left",
        lambda ctx: left(
            replace(ctx, next_status=ctx.next_status.model_copy(update={"suspended_seconds": 0}))
        ),
    )


def ranks_do_not_wait_for_the_redis_server(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Context, "redis_is_ready", property(lambda ctx: True))


def a_new_redis_server_is_mistaken_for_the_old_one(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Observed, "run_of", lambda self, name: "always the same")


def a_disruption_is_counted_repeatedly(patch: pytest.MonkeyPatch) -> None:
    new = failures._count_new_failures
    patch.setattr(
        failures,
        "_count_new_failures",
        lambda pod, before, policy: new(
            pod, before.model_copy(update={"disrupted": False}), policy
        ),
    )


def succeeded_ranks_are_left_out_of_a_gang_restart(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(gang_restart, "all_ranks", lambda world: frozenset(world.unfinished))
    patch.setattr(gang_restart, "lasting_successes", lambda world, ranks: world.succeeded)


def a_success_is_discarded_after_the_loss_is_stored(patch: pytest.MonkeyPatch) -> None:
    """Discard the success only in the write after the one that stores the loss. An operator that is
    killed before that write leaves the other ranks waiting.
    """
    recorded = re_rendezvous.record_loss

    def late(ctx: Any, loss: Any) -> Any:
        made = recorded(ctx, loss)
        update = {"succeeded_ranks": ctx.next_status.succeeded_ranks}
        return replace(made, next_status=made.next_status.model_copy(update=update))

    def taken_back(status: Any, gang: Any) -> failures.FailureAccount:
        dead = status.last_renewal and status.last_renewal.list_number == status.list_number
        known = read(status, gang)
        return replace(known, succeeded=frozenset()) if dead else known

    read = failures.read_ledger
    patch.setattr(re_rendezvous, "record_loss", late)
    patch.setattr(failures, "read_ledger", taken_back)


def a_success_under_a_stale_list_counts(patch: pytest.MonkeyPatch) -> None:
    of = World.of
    patch.setattr(World, "of", lambda *given: replace(of(*given), stale_revision=-1))


def a_blocked_rank_restarts_alone(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(gang_restart, "blocked_on_completed", lambda world: {})


def a_group_does_not_restart_with_its_lost_rank(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(gang_restart, "_with_groups", lambda world, ranks: ranks)


def a_restarted_program_is_assumed_to_have_had_no_list(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(address_list, "_inferred_copy", lambda pod, status: pod.copy)


def a_gang_counts_succeeded_ranks(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(scheduling, "needed_count", lambda ctx: ctx.world.gang.minimum)


def quota_is_given_back_before_the_pods_are_gone(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(queueing, "_has_pods", lambda ctx: False)


def ranks_are_created_before_there_is_quota(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(queue_reader, "admitted_size", lambda job, seen: job.spec.desired)


def evictions_by_the_queue_are_ignored(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Workload, "evicted", False)


def the_quota_of_a_running_sidecar_is_given_back(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(queueing, "_is_gone", lambda ctx, rank: True)


def a_budget_counts_succeeded_ranks(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(budgets, "_running_ranks", lambda ctx, budget: range(ctx.world.gang.size))


def a_budget_is_not_recorded(patch: pytest.MonkeyPatch) -> None:
    """Record a budget only when it exists. If the operator is killed before it records the budget,
    the next operator does not know of this budget.
    """
    record = context._budgets_to_record

    def existing(job: DIJob, observed: Observed) -> str:
        there = (name for name, found in observed.budgets.items() if found)
        return " ".join(name for name in record(job, observed).split() if name in set(there))

    def missing(ctx: Context) -> Any:
        wanted = wanted_budgets(ctx.job)
        new = (one for one in wanted if not ctx.observed.budgets.get(one.name))
        return tuple(CreateBudget(one.name, one.task, 1) for one in new)

    patch.setattr(context, "_budgets_to_record", existing)
    patch.setattr(budgets, "missing_budgets", missing)


def a_budget_stays_after_the_end(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(completion, "clean_up", completion.clean_pods)
