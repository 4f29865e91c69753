"""Decides when the PodDisruptionBudgets of a job (render/budget.py) are created, updated and
deleted.

Without a disruptionBudget in the spec, nothing here has an effect.
"""

from collections.abc import Iterator

from dijob.core.actions import Action, ChangeBudget, CreateBudget, DeleteBudget
from dijob.core.decide.context import Context
from dijob.core.observed.views import BudgetView
from dijob.core.render.budget import KIND, RankBudget, budget_spec, wanted_budgets


def budget_key(name: str) -> str:
    """Return the key of a budget ("poddisruptionbudget/x"), as used for rejections."""
    return f"{KIND.lower()}/{name}"


def missing_budgets(ctx: Context) -> tuple[CreateBudget, ...]:
    """Return the actions that create the missing budgets.

    Budgets are created when the ranks get their first peer list, so they do not delay the start of
    the job. Until then no rank is Ready, and a budget protects only pods that are Ready. The name
    of a budget is stored in status.budgets before the budget is created, so that no budget is left
    behind.
    """
    if not ctx.world.list_is_active:
        return ()
    seen, stored = ctx.observed.budgets, ctx.job.status.budgets.split()
    return tuple(
        CreateBudget(one.name, one.task, _least_ready(ctx, one))
        for one in wanted_budgets(ctx.job)
        if one.name in stored and one.name in seen and seen[one.name] is None
    )


def change_budgets(ctx: Context) -> tuple[Action, ...]:
    """Update the budgets that exist, and delete those that the spec no longer asks for."""
    wanted = wanted_budgets(ctx.job)
    removed = delete_budgets(ctx, keep=frozenset(one.name for one in wanted))
    if not ctx.world.list_is_active:
        return removed
    changed = (
        ChangeBudget(one.name, one.task, _least_ready(ctx, one), found.uid)
        for one in wanted
        if (found := ctx.observed.budgets.get(one.name)) and _change_is_due(ctx, one, found)
    )
    return (*changed, *removed)


def delete_budgets(ctx: Context, keep: frozenset[str] = frozenset()) -> tuple[Action, ...]:
    """Delete the job's budgets, except those with these names."""
    return tuple(
        DeleteBudget(name, found.uid)
        for name in ctx.job.status.budgets.split()
        if name not in keep and (found := ctx.observed.budgets.get(name))
    )


def waits_to_read(ctx: Context) -> Iterator[float]:
    """Yield the seconds until the operator tries again to read a budget that it was not allowed to
    read.

    Budgets are read only while a peer list is active (controller/observe/budget_reader.py).
    """
    if not ctx.world.list_is_active:
        return
    for one in wanted_budgets(ctx.job):
        if rejection := ctx.observed.rejections.get(f"get {budget_key(one.name)}"):
            yield max(0.0, (rejection.retry_at - ctx.now).total_seconds())


def _least_ready(ctx: Context, budget: RankBudget) -> int:
    """Return how many ranks a drain must keep Ready.

    This is the number of ranks in the peer list that must still run, minus the number that may be
    unavailable.
    """
    return max(0, len(_running_ranks(ctx, budget)) - budget.most)


def _running_ranks(ctx: Context, budget: RankBudget) -> tuple[int, ...]:
    gang, unfinished = ctx.world.gang, ctx.world.unfinished
    ranks = gang.ranks_of(budget.task) if budget.task else range(gang.size)
    return tuple(rank for rank in unfinished if rank in ranks)


def _change_is_due(ctx: Context, budget: RankBudget, found: BudgetView) -> bool:
    """Whether a budget must be updated.

    After a rank has succeeded, its budget must require fewer Ready ranks. But with maxUnavailable
    0, the budget allows no eviction, whether it is updated or not. In that case, minAvailable is
    not lowered, which avoids a write. If all ranks of a budget have succeeded, no write is needed
    either, because the eviction API ignores the budgets of pods that have ended.
    """
    least, there = _least_ready(ctx, budget), found.spec.get("minAvailable")
    wanted = budget_spec(ctx.job, budget.task, least)
    if wanted == found.spec:
        return False
    if not isinstance(there, int) or {**wanted, "minAvailable": there} != found.spec:
        return True  # somebody has edited it
    return least > there or bool(budget.most and _running_ranks(ctx, budget))
