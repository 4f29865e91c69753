"""The table of checks, in the order in which they are read. Pure."""

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
    """A check: its name, and whether it is about processes that run."""

    name: str
    look: Check
    live: bool = True


OUTPUT: Final = "output"
CHECKS: Final = (
    Row("status", of_status.conditions, live=False),
    Row("old pods", of_status.old_pods, live=False),
    Row("nodes", of_status.schedule, live=False),
    Row("images", of_status.images, live=False),
    Row("quota", of_status.quota, live=False),
    Row("failures", of_status.ends, live=False),
    Row("same image", of_status.same_image, live=False),
    Row("host network", of_status.host_network, live=False),
    Row("same source", of_programs.program),
    Row("versions", of_programs.versions),
    Row("address list", of_programs.list_number),
    Row("names", of_network.names),
    Row("reach", of_network.reach),
    Row("ports", of_network.ports),
    Row("edges", of_network.edges),
    Row("alone", of_network.alone),
    Row("proxies", of_programs.proxies),
    Row("interfaces", of_programs.interfaces),
    Row("shared memory", of_programs.shared_memory),
    Row("clocks", of_programs.clocks),
    Row("barrier", of_programs.barrier),
)

# These find no problem: they say what is not known.
_ABOUT_ANSWERS: Final = (
    Row("answers", of_programs.answers),
    Row("stacks", of_stacks.stands, live=False),
    Row(OUTPUT, of_programs.output),
)

Findings = Sequence[tuple[str, Finding]]


def findings(evidence: Evidence) -> Findings:
    """What all checks say; of a job without processes, those that need none. Then which ranks could
    not be asked, where the processes stand if stacks are wanted, and whether the ranks print.
    """
    live = evidence.report is not None
    rows = [row for row in (*CHECKS, *_ABOUT_ANSWERS) if live or not row.live]
    return [(row.name, found) for row in rows for found in row.look(evidence)]


def problems(found: Findings) -> int:
    """How many problems these are."""
    return sum(one.status is Status.PROBLEM for _, one in found)


def text(job: str, found: Findings) -> str:
    """The checklist, each remedy below its line, and the sum."""
    rows = [
        (one.status.upper() if one.status is not Status.OK else "ok", name) for name, one in found
    ]
    heads = table(rows).splitlines()
    width = max(map(len, heads), default=0)
    lines = list[str]()
    for head, (_, one) in zip(heads, found, strict=True):
        lines.append(f"{head.ljust(width)}   {one_line(one.text)}")
        if one.remedy:
            lines.append(f"{' ' * width}   -> {one_line(one.remedy)}")
    count = problems(found)
    unknowns = sum(one.status is Status.UNKNOWN for _, one in found)
    more = f", {unknowns} that cannot be told" if unknowns else ""
    said = f"{count} problem{'s' if count != 1 else ''}" if count else "no problem was found"
    hint = next(
        (f"; {one.text}: {one.remedy}" for name, one in found if name == OUTPUT and one.remedy), ""
    )
    return "\n".join([*lines, f"{job}: {said}{more}{one_line(hint)}"])


def data(job: str, found: Findings) -> dict[str, Any]:
    """The checklist for programs."""
    return {
        "job": job,
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
