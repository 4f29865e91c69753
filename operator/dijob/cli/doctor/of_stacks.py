"""Reports the stacks of the ranks' Python processes, grouped by position. No I/O."""

from collections.abc import Iterator
from typing import Any

from dijob_extras.stacks import places

from dijob.cli.doctor.evidence import Evidence
from dijob.cli.doctor.verdict import Finding, ok, problem, unknown
from dijob.core.members import format_ranks


def report_stacks(evidence: Evidence) -> Iterator[Finding]:
    """Yield a summary and a line for each group of processes at the same position.

    None of them is a problem: no position in a program is wrong by itself. A process that is
    stopped is one, and the ranks that are elsewhere are then not suspected.
    """
    # None means that no stacks were requested, an empty mapping that there were no pods.
    if evidence.stacks is None:
        return
    if not evidence.stacks:
        yield unknown("no stacks: the job has no pods")
    halted = list(places.describe_halted(evidence.stacks))
    for rank, text, remedy in halted:
        yield problem(text, _of_pod(remedy, evidence, rank))
    for text in places.describe_suspicious(evidence.stacks):
        yield ok(text)
    found = places.group_processes(evidence.stacks)
    if found and not halted:
        yield ok(places.summarize_groups(found))
    for group in found:
        yield ok(f"{group.who}: {group.where}")
    for why, ranks in places.find_dump_problems(evidence.stacks):
        yield unknown(f"{format_ranks(ranks)}: {why}")


def _of_pod(remedy: str, evidence: Evidence, rank: int) -> str:
    """Return a remedy with the names of a rank's pod in its command."""
    for pod in evidence.pods:
        if pod.rank == rank:
            remedy = remedy.replace("POD", pod.name).replace("CONTAINER", pod.container)
    return remedy.replace("NAMESPACE", evidence.job.metadata.namespace)


def stacks_data(evidence: Evidence) -> dict[str, Any]:
    """Return the groups and py-spy's complete stacks; {} without --stacks."""
    if evidence.stacks is None:
        return {}
    found = [
        {
            "where": group.where,
            "processes": [{"rank": m.rank, "pid": m.process.pid} for m in group.members],
        }
        for group in places.group_processes(evidence.stacks)
    ]
    ranks = [
        {"rank": rank, "processes": list(look.data), **_problem_data(look.problem)}
        for rank, look in sorted(evidence.stacks.items())
    ]
    return {"stacks": {"groups": found, "ranks": ranks}}


def _problem_data(why: str) -> dict[str, str]:
    return {"problem": why} if why else {}
