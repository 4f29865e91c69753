"""The table of checks, and the output of their findings. No I/O.

Checks that explain other failures come first: a pod without a node explains its missing
connections.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from dijob.api.printed import one_line
from dijob.cli.doctor import of_network, of_programs, of_stacks, of_status
from dijob.cli.doctor.evidence import Evidence
from dijob.cli.doctor.verdict import Finding, Status
from dijob.cli.printing import table

Check = Callable[[Evidence], Iterable[Finding]]


@dataclass(frozen=True)
class Row:
    """A check and its name in the output. `live` checks need running processes."""

    name: str
    look: Check
    live: bool = True


OUTPUT: Final = "output"
CHECKS: Final = (
    # These read API objects only, so they also apply to a job that has not started or has ended.
    Row("status", of_status.conditions, live=False),
    Row("terminating pods", of_status.old_pods, live=False),
    Row("scheduling", of_status.schedule, live=False),
    Row("images", of_status.images, live=False),
    Row("quota", of_status.quota, live=False),
    Row("failures", of_status.ends, live=False),
    Row("readiness", of_status.readiness, live=False),
    Row("same image", of_status.same_image, live=False),
    Row("host network", of_status.host_network, live=False),
    # These compare the pods with each other: a different program explains missing connections.
    Row("same source", of_programs.program),
    Row("versions", of_programs.versions),
    Row("peer list", of_programs.list_number),
    # The path of a connection, from its name to the established socket.
    Row("dns", of_network.names),
    Row("reachability", of_network.reach),
    Row("ports", of_network.ports),
    Row("connections", of_network.edges),
    Row("isolation", of_network.alone),
    # Settings that let a program fail or hang although it is connected.
    Row("proxies", of_programs.proxies),
    Row("interfaces", of_programs.interfaces),
    Row("shared memory", of_programs.shared_memory),
    Row("clocks", of_programs.clocks),
    Row("barrier", of_programs.barrier),
)

# These print nothing if all is well. They are listed last because they mostly say what the checks
# above could not see. Only `stacks` can find a problem: a process that is stopped.
_UNCHECKED: Final = (
    Row("exec", of_programs.answers),
    Row("stacks", of_stacks.stands, live=False),
    Row(OUTPUT, of_programs.output),
)

Findings = Sequence[tuple[str, Finding]]


def findings(evidence: Evidence) -> Findings:
    """Run all checks; for a job without running processes, only those that need none."""
    live = evidence.report is not None
    rows = [row for row in (*CHECKS, *_UNCHECKED) if live or not row.live]
    return [(row.name, found) for row in rows for found in row.look(evidence)]


def problems(found: Findings) -> int:
    """Count the problems."""
    return sum(one.status is Status.PROBLEM for _, one in found)


def text(job: str, found: Findings) -> str:
    """Format the checklist, with each remedy below its finding and a summary line."""
    # Problems are in capitals and "ok" is not, so that they stand out without colours.
    rows = [
        (finding.status.upper() if finding.status is not Status.OK else "ok", name)
        for name, finding in found
    ]
    heads = table(rows).splitlines()
    width = max(map(len, heads), default=0)
    lines = list[str]()
    for head, (_, finding) in zip(heads, found, strict=True):
        lines.append(f"{head.ljust(width)}   {one_line(finding.text)}")
        if finding.remedy:
            lines.append(f"{' ' * width}   -> {one_line(finding.remedy)}")
    count = problems(found)
    unknowns = sum(finding.status is Status.UNKNOWN for _, finding in found)
    unknown_text = f", {unknowns} unknown" if unknowns else ""
    summary = f"{count} problem{'s' if count != 1 else ''}" if count else "no problems found"
    # A silent program is not a problem by itself, so its hint is repeated where it is read last.
    hint = next(
        (
            f"; {finding.text}: {finding.remedy}"
            for name, finding in found
            if name == OUTPUT and finding.remedy
        ),
        "",
    )
    return "\n".join([*lines, f"{job}: {summary}{unknown_text}{one_line(hint)}"])


def data(job: str, found: Findings) -> dict[str, Any]:
    """Return the checklist as data, for -o json and -o yaml."""
    return {
        "job": job,
        # The same as exit code 0.
        "healthy": not problems(found),
        "checks": [
            {
                "check": name,
                "verdict": one.status.value,
                "finding": one.text,
                **({"remedy": one.remedy} if one.remedy else {}),
            }
            for name, one in found
        ],
    }
