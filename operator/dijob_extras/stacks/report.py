"""Reports the stacks of the ranks' Python processes, grouped by position. No I/O."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from dijob.cli.doctor.verdict import Finding, ok, problem, unknown
from dijob.client import Job, RankPod
from dijob.core.members import format_ranks

from dijob_extras.stacks import places
from dijob_extras.stacks.read import Look


def report_stacks(
    looks: Mapping[int, Look], job: Job, pods: Sequence[RankPod]
) -> Iterator[Finding]:
    """Yield a summary and a line for each group of processes at the same position.

    A group is not reported as a problem, because a position in the program does not prove that
    anything is wrong. A stopped process is reported as a problem. If a process is stopped, the
    summary of the groups is omitted. The summary would blame ranks at other positions for a hang
    that the stopped process explains.
    """
    if not looks:
        yield unknown("no stacks: the job has no pods")
    halted = list(places.describe_halted(looks))
    for rank, text, remedy in halted:
        yield problem(text, _of_pod(remedy, job, pods, rank))
    for text in places.describe_suspicious(looks):
        yield ok(text)
    found = places.group_processes(looks)
    if found and not halted:
        yield ok(places.summarize_groups(found))
    for group in found:
        yield ok(f"{group.who}: {group.where}")
    for why, ranks in places.find_dump_problems(looks):
        yield unknown(f"{format_ranks(ranks)}: {why}")


def _of_pod(remedy: str, job: Job, pods: Sequence[RankPod], rank: int) -> str:
    """Return a remedy. The placeholders in its command are replaced with the names of the rank's
    pod, container and namespace.
    """
    for pod in pods:
        if pod.rank == rank:
            remedy = remedy.replace("POD", pod.name).replace("CONTAINER", pod.container)
    return remedy.replace("NAMESPACE", job.metadata.namespace)


def stacks_data(looks: Mapping[int, Look]) -> dict[str, Any]:
    """Return the groups and py-spy's complete stacks."""
    found = [
        {
            "where": group.where,
            "processes": [{"rank": m.rank, "pid": m.process.pid} for m in group.members],
        }
        for group in places.group_processes(looks)
    ]
    ranks = [
        {"rank": rank, "processes": list(look.data), **_problem_data(look.problem)}
        for rank, look in sorted(looks.items())
    ]
    return {"stacks": {"groups": found, "ranks": ranks}}


def _problem_data(why: str) -> dict[str, str]:
    return {"problem": why} if why else {}
