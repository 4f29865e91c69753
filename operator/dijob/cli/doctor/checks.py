"""The table of checks, and the output of their findings. No I/O.

Checks that explain other failures come first: a pod without a node explains its missing
connections.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from dijob.api.printed import one_line
from dijob.cli.doctor import of_drains, of_network, of_programs, of_status
from dijob.cli.doctor.evidence import Evidence
from dijob.cli.doctor.verdict import CheckStatus, Finding
from dijob.cli.printing import format_table

Check = Callable[[Evidence], Iterable[Finding]]


@dataclass(frozen=True)
class CheckRow:
    """A check and its name in the output. `live` checks need running processes."""

    name: str
    look: Check
    live: bool = True


OUTPUT: Final = "output"
CHECKS: Final = (
    # These checks read only API objects, so they also apply to a job that has not started or has
    # ended.
    CheckRow("status", of_status.check_conditions, live=False),
    CheckRow("terminating pods", of_status.old_pods, live=False),
    CheckRow("scheduling", of_status.check_scheduling, live=False),
    CheckRow("images", of_status.check_images, live=False),
    CheckRow("quota", of_status.check_quota, live=False),
    CheckRow("failures", of_status.check_failures, live=False),
    CheckRow("readiness", of_status.check_readiness, live=False),
    CheckRow("same image", of_status.same_image, live=False),
    CheckRow("drains", of_drains.check_drains, live=False),
    CheckRow("host network", of_status.host_network, live=False),
    # These checks compare the pods with each other. A difference, such as a pod that runs a
    # different program, can explain missing connections.
    CheckRow("same source", of_programs.check_source),
    CheckRow("versions", of_programs.check_versions),
    CheckRow("peer list", of_programs.list_number),
    CheckRow("channel", of_programs.check_channel),
    # These checks follow the path of a connection, from the peer's name to the established socket.
    CheckRow("dns", of_network.check_names),
    CheckRow("reachability", of_network.check_reachability),
    CheckRow("ports", of_network.check_ports),
    CheckRow("connections", of_network.check_connections),
    CheckRow("isolation", of_network.check_isolation),
    # These checks detect settings that can make a program fail or hang although it is connected.
    CheckRow("proxies", of_programs.check_proxies),
    CheckRow("interfaces", of_programs.check_interfaces),
    CheckRow("shared memory", of_programs.shared_memory),
    CheckRow("clocks", of_programs.check_clocks),
    CheckRow("barrier", of_programs.check_barrier),
)

# These checks print nothing if all is well. They come last because they report what the checks
# above could not detect. The findings of extensions are listed after _SILENT and before _QUIET.
_SILENT = CheckRow("exec", of_programs.report_silent_ranks)
_QUIET = CheckRow(OUTPUT, of_programs.check_output)

Findings = Sequence[tuple[str, Finding]]


def run_checks(evidence: Evidence) -> Findings:
    """Run all checks, but skip the `live` checks if the job has no running processes."""
    added = ((one.check, found) for one in evidence.added for found in one.findings)
    return [*_run((*CHECKS, _SILENT), evidence), *added, *_run((_QUIET,), evidence)]


def _run(rows: Iterable[CheckRow], evidence: Evidence) -> Iterator[tuple[str, Finding]]:
    live = evidence.report is not None
    return (
        (row.name, found) for row in rows if live or not row.live for found in row.look(evidence)
    )


def count_problems(found: Findings) -> int:
    """Count the problems."""
    return sum(one.status is CheckStatus.PROBLEM for _, one in found)


def if_it_hangs(evidence: Evidence) -> str:
    """Return advice for a hanging job; "" if no rank is running, or if the advice was followed."""
    asks = evidence.report is not None and not evidence.added
    return of_programs.hang_commands(evidence) if asks else ""


def format_checklist(job: str, found: Findings, if_hangs: str = "") -> str:
    """Format the checklist and a summary line, with each remedy below its finding. If no problem
    was found, the summary line also gives advice for a job that hangs.
    """
    # Every status except "ok" is in capitals, so that problems stand out without colors.
    rows = [
        (finding.status.upper() if finding.status is not CheckStatus.OK else "ok", name)
        for name, finding in found
    ]
    heads = format_table(rows).splitlines()
    width = max(map(len, heads), default=0)
    lines = list[str]()
    for head, (_, finding) in zip(heads, found, strict=True):
        lines.append(f"{head.ljust(width)}   {one_line(finding.text)}")
        if finding.remedy:
            lines.append(f"{' ' * width}   -> {one_line(finding.remedy)}")
    count = count_problems(found)
    unknowns = sum(finding.status is CheckStatus.UNKNOWN for _, finding in found)
    unknown_text = f", {unknowns} unknown" if unknowns else ""
    summary = f"{count} problem{'s' if count != 1 else ''}" if count else "no problems found"
    # A silent program does not count as a problem, so the summary line might report no problems.
    # Therefore the summary line repeats the hint about the silent program.
    hint = next(
        (
            f"; {finding.text}: {finding.remedy}"
            for name, finding in found
            if name == OUTPUT and finding.remedy
        ),
        f"; if it hangs: {if_hangs}" if if_hangs and not count else "",
    )
    return "\n".join([*lines, f"{job}: {summary}{unknown_text}{one_line(hint)}"])


def checklist_data(job: str, found: Findings) -> dict[str, Any]:
    """Return the checklist as data, for -o json and -o yaml."""
    return {
        "job": job,
        # True if and only if the exit code is 0.
        "healthy": not count_problems(found),
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
