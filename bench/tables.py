"""The figures as Markdown tables, for the output of the commands and for docs/performance.md."""

from collections.abc import Iterator

import goals
from measured import CROWD, Result, Shape
from report import Report, Tables, named

STARTS = (
    "jobs x ranks",
    "entrant",
    "all running after",
    "per job, p50, p99",
    "control plane's CPU",
    "pod size",
    "writes/job",
    "entrant's CPU/pod",
    "peak RSS",
)
GROWTH = (
    "jobs x ranks",
    "what",
    "time",
    "pods/s",
    "control plane's CPU",
    "operator's CPU/pod",
    "peak RSS",
    "writes/job",
)
# The number of jobs for which an estimate is printed. Nothing of this size has been run.
MANY = 10_000


def table(head: tuple[str, ...], rows: Iterator[tuple[object, ...]]) -> str:
    """Return a Markdown table; "" if there are no rows."""
    lines = [head, ("---",) * len(head), *rows]
    if len(lines) == 2:
        return ""
    return "\n".join(f"| {' | '.join(map(str, line))} |" for line in lines)


def start_row(shape: Shape, name: str, result: Result) -> tuple[object, ...]:
    """Return a start as a row with the columns STARTS."""
    return (
        shape,
        name,
        f"{result.seconds:.2f} s",
        f"{result.p50:.2f}, {result.p99:.2f} s",
        f"{result.plane:.1f} s",
        f"{result.size / 1000:.1f} KB",
        f"{result.written / shape.jobs:.1f}" if result.writes else "-",
        f"{1000 * result.own / shape.pods:.1f} ms" if result.own else "-",
        f"{result.peak:.0f} MB" if result.peak else "-",
    )


def growth_row(
    shape: Shape, what: str, counts: tuple[int, int], result: Result
) -> tuple[object, ...]:
    """Return a start or a change as a row with the columns GROWTH. `counts` are the affected jobs
    and pods.
    """
    jobs, pods = counts
    return (
        shape,
        what,
        f"{result.seconds:.2f} s",
        f"{pods / result.seconds:.0f}",
        f"{result.plane:.1f} s",
        f"{1000 * result.own / pods:.1f} ms" if result.own else "-",
        f"{result.peak:.0f} MB" if result.peak else "-",
        f"{result.written / jobs:.1f}" if result.writes else "-",
    )


def start_blocks(report: Report) -> dict[str, str]:
    """Return the tables of `make bench` by their names on the page."""
    tables = report.tables
    found = (goals.rows(shape, results) for shape, results in tables.items())
    return {
        "starts": f"{report.machine}\n\n"
        + table(STARTS, (start_row(*each) for each in named(tables))),
        "parts": cpu_table(tables),
        "writes": writes_table(tables),
        "goals": table(goals.HEAD, (row for rows in found for row in rows)),
    }


def full_blocks(report: Report) -> dict[str, str]:
    """Return the tables of `make bench-full` by their names on the page."""
    starts = (
        growth_row(shape, name, (shape.jobs, shape.pods), result)
        for shape, name, result in named(report.tables)
    )
    changes = (
        growth_row(each.shape, each.words, (each.jobs, each.pods), each.result)
        for each in report.changes
    )
    return {
        "growth": f"{report.machine}\n\n{table(GROWTH, starts)}",
        "memory": memory_table(report.tables),
        "changes": table(GROWTH, changes),
        "crowd": crowd_table(report),
        "full-goals": table(goals.HEAD, goals.full_rows(report)),
        "needs": needs_table(report),
    }


def cpu_table(tables: Tables) -> str:
    """Return the CPU seconds of each part of the control plane."""
    # The columns are all parts that occur in any result.
    names = sorted({name for _, _, result in named(tables) for name in result.parts})
    return table(
        ("jobs x ranks", "entrant", *names),
        (
            (shape, entrant, *(f"{result.parts.get(name, 0):.1f} s" for name in names))
            for shape, entrant, result in named(tables)
        ),
    )


def writes_table(tables: Tables) -> str:
    """Return each entrant's own writes per job, by verb and resource."""

    def each(shape: Shape, result: Result) -> str:
        # The most frequent first; by name among equals, so that the table is stable.
        most = sorted(result.writes.items(), key=lambda item: (-item[1], item[0]))
        return ", ".join(f"{what} {count / shape.jobs:.1f}" for what, count in most)

    return table(
        ("jobs x ranks", "entrant", "writes per job"),
        (
            (shape, entrant, each(shape, result))
            for shape, entrant, result in named(tables)
            if result.writes
        ),
    )


def memory_table(tables: Tables) -> str:
    """Return the memory of the control plane's parts when all jobs run."""
    # Floors do not record the memory.
    found = [each for each in named(tables) if each[1] == "IP" and each[2].memory]
    names = sorted({name for _, _, result in found for name in result.memory})
    return table(
        ("jobs x ranks", *names),
        (
            (shape, *(f"{result.memory.get(name, 0):.0f} MB" for name in names))
            for shape, _, result in found
        ),
    )


def crowd_table(report: Report) -> str:
    """Return what the operator does while many jobs run, and how a restarted one performs."""

    def rows() -> Iterator[tuple[object, ...]]:
        if rest := report.rest:
            said = f"{rest.writes} writes, {rest.requests} requests"
            yield f"{rest.seconds:.0f} s at rest", said
        restarts = [
            *((f"new operator {number}", each) for number, each in enumerate(report.restarts, 1)),
            *(
                (f"new operator {number}, to which {CROWD.pods:,} launchers reconnect", each)
                for number, each in enumerate(report.reconnects, 1)
            ),
        ]
        for what, each in restarts:
            yield (
                what,
                f"first pod of a new job after {each.seconds:.2f} s, {len(each.writes)} writes"
                f" for the other jobs, {each.cpu:.1f} s of CPU until all were reconciled,"
                f" peak RSS {each.peak:.0f} MB",
            )

    return table((f"while {CROWD} run", "observed"), rows())


def needs_table(report: Report) -> str:
    """Return an estimate for MANY jobs, extrapolated linearly from the two largest starts."""
    starts = [
        (shape, results["IP"])
        for shape, results in report.tables.items()
        if shape.jobs > 1 and "IP" in results
    ]
    # A line needs two points.
    if len(starts) < 2:
        return ""
    (less, few), (more, many) = starts[-2:]

    def line(before: float, after: float) -> float:
        return after + (after - before) / (more.jobs - less.jobs) * (MANY - more.jobs)

    def rows() -> Iterator[tuple[object, ...]]:
        def grown(words: str, before: float, after: float, unit: str) -> tuple[object, ...]:
            grows = line(before, after)
            return words, f"{before:.0f} {unit}", f"{after:.0f} {unit}", f"{grows:.0f} {unit}"

        yield grown("time until all run", few.seconds, many.seconds, "s")
        yield grown("operator's CPU until then", few.own, many.own, "s")
        yield grown("control plane's CPU until then", few.plane, many.plane, "s")
        yield grown("operator's peak RSS", few.peak, many.peak, "MB")
        for name in ("kube-apiserver", "etcd", "etcd's file"):
            words = name if name == "etcd's file" else f"{name}'s RSS"
            yield grown(words, few.memory[name], many.memory[name], "MB")
        lists = (less.pods * few.size / 1e6, more.pods * many.size / 1e6)
        yield grown("the list of all pods, which a new operator reads", *lists, "MB")
        # The requests at rest were measured with CROWD, so they belong into its column.
        if (rest := report.rest) and more == CROWD:
            hourly = rest.requests * 3600 / rest.seconds
            # An upper bound: the remaining requests do not all grow with the number of jobs.
            most = f"at most {hourly * MANY / more.jobs:.0f}"
            yield "operator's requests per hour at rest", "-", f"{hourly:.0f}", most

    return table(("", f"{less}", f"{more}", f"{MANY}x4, computed"), rows())
