"""Tells the Workloads of one job apart. A growing job has two: the Workload with which it runs, and
the larger one that waits to replace it.

Kueue calls them slices. When Kueue reserves quota for the larger Workload, it moves the smaller
Workload's quota to the larger one. It also sets the condition Finished on the smaller one. So the
Workloads alone always show with which of the two the job runs. An operator that has just started
needs no other information for this.
"""

from collections.abc import Iterable

from dijob.core.observed.queue_views import Workload

Arranged = tuple[Workload | None, Workload | None, tuple[Workload, ...]]


def arrange_workloads(found: Iterable[Workload], first_name: str) -> Arranged:
    """Return the Workload that the job runs with or waits for, the larger one that will replace it,
    and those that are no longer needed. `first_name` is the name of a Workload that replaces no
    other.
    """
    known = {one.name: one for one in found}
    next_of = {one.replaces: one for one in known.values() if one.replaces in known}
    firsts = [one for one in known.values() if one.replaces not in known]
    if not firsts:
        return None, None, tuple(known.values())
    current = max(firsts, key=lambda one: (not one.deleting, one.name == first_name))
    growth = next_of.get(current.name)
    while growth and (growth.runs or (current.replaced and not growth.keeps_quota)):
        current, growth = growth, next_of.get(growth.name)
    if current.replaced and growth is None:
        # Its quota has moved to a Workload that has been deleted.
        return None, None, tuple(known.values())
    rest = (one for one in known.values() if one not in (current, growth))
    return current, growth, tuple(rest)
