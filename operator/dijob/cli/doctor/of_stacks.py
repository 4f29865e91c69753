"""Reports the stacks of the ranks' Python processes, grouped by position. No I/O."""

from collections.abc import Iterator
from typing import Any

from dijob.cli.doctor.evidence import Evidence
from dijob.cli.doctor.verdict import Finding, ok, unknown
from dijob.cli.stacks import places
from dijob.core.members import say


def stands(evidence: Evidence) -> Iterator[Finding]:
    """Yield a summary and a line for each group of processes at the same position.

    None of them is a problem: no position in a program is wrong by itself.
    """
    # None means that no stacks were requested, an empty mapping that there were no pods.
    if evidence.stacks is None:
        return
    if not evidence.stacks:
        yield unknown("no stacks: the job has no pods")
    found = places.groups(evidence.stacks)
    if found:
        yield ok(places.verdict(found))
    for group in found:
        yield ok(f"{group.who}: {group.where}")
    for why, ranks in places.problems(evidence.stacks):
        yield unknown(f"{say(ranks)}: {why}")


def data(evidence: Evidence) -> dict[str, Any]:
    """Return the groups and py-spy's complete stacks; {} without --stacks."""
    if evidence.stacks is None:
        return {}
    found = [
        {
            "where": group.where,
            "processes": [{"rank": m.rank, "pid": m.process.pid} for m in group.members],
        }
        for group in places.groups(evidence.stacks)
    ]
    ranks = [
        {"rank": rank, "processes": list(look.data), **_problem(look.problem)}
        for rank, look in sorted(evidence.stacks.items())
    ]
    return {"stacks": {"groups": found, "ranks": ranks}}


def _problem(why: str) -> dict[str, str]:
    return {"problem": why} if why else {}
