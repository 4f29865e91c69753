"""Shows snapshots: as a live table in a terminal, else as one line per change."""

import asyncio
import sys
from contextlib import aclosing
from datetime import UTC, datetime

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from dijob.cli.printing import echo
from dijob.cli.watching import view
from dijob.cli.watching.feed import Feed
from dijob.client import AsyncClient, Outcome, TimedOut
from dijob.client.jobs import DELETED

_STYLES = {
    "Ready": "green",
    "Running": "green",
    "Succeeded": "green",
    "Failed": "red",
    "Completed (0)": "green",
    "Gate": "yellow",
    "Pending": "yellow",
    "Starting": "yellow",
    "Renewing": "yellow",
    "Terminating": "yellow",
    "Suspended": "yellow",
}
# Number of lines in the terminal that do not show ranks: the header, the events and empty lines.
_FIXED_LINES = 16


async def watch_job(client: AsyncClient, name: str, timeout: float | None = None) -> Outcome:
    """Show a job until it ends, and return its outcome. Raises TimedOut after `timeout` seconds."""
    # A log file or a CI job cannot show a table that is redrawn.
    show = _show_live if sys.stdout.isatty() else _print_lines
    try:
        async with asyncio.timeout(timeout):
            last = await show(client, name)
    except TimeoutError:
        raise TimedOut(f"job {name} has not ended after {timeout:g} s") from None
    outcome = last.job.outcome if last else None
    return outcome or Outcome(name, DELETED, "it was deleted before it ended")


async def _print_lines(client: AsyncClient, name: str) -> view.Snapshot | None:
    printed, begun = dict[str, str](), datetime.now(UTC).replace(microsecond=0)
    last: view.Snapshot | None = None
    async with aclosing(Feed(client, name).snapshots()) as snapshots:
        async for last in snapshots:
            found = view.change_lines(last, begun)
            # Each snapshot has the complete state, so only lines that changed are printed.
            for about, line in found.items():
                if printed.get(about) != line:
                    # The line of an event already contains a time.
                    time = "" if about.startswith("event ") else f"{datetime.now(UTC):%H:%M:%SZ} "
                    echo(f"{time}{line}")
            printed = found
    return last


async def _show_live(client: AsyncClient, name: str) -> view.Snapshot | None:
    console = Console()
    last: view.Snapshot | None = None
    with Live(console=console, auto_refresh=False) as live:
        # The beat keeps the elapsed time and the ages of events up to date.
        async with aclosing(Feed(client, name).snapshots(beat=1.0)) as snapshots:
            async for last in snapshots:
                room = max(console.height - _FIXED_LINES, 3)
                live.update(render_snapshot(last, datetime.now(UTC), room), refresh=True)
    return last


def render_snapshot(shown: view.Snapshot, now: datetime, room: int) -> RenderableType:
    """Render a snapshot for a terminal, with at most `room` ranks."""
    first, *others = view.header_lines(shown, now)
    style = _STYLES.get(shown.job.phase, "")
    parts: list[RenderableType] = [Text(first, style=f"bold {style}"), *map(Text, others)]
    table = Table(box=None, pad_edge=False, header_style="bold")
    for title in view.HEAD:
        table.add_column(title, no_wrap=True)
    rows = view.rank_rows(shown.pods, room)
    state = view.HEAD.index("STATE")
    for row in rows:
        # All states that are not listed, such as ImagePullBackOff, are failures.
        colour = _STYLES.get(row[state], "red")
        table.add_row(*(Text(c, style=colour if i == state else "") for i, c in enumerate(row)))
    parts += [Text(""), table]
    if len(rows) < len(shown.pods):
        parts.append(Text(f"and {len(shown.pods) - len(rows)} more", style="dim"))
    if events := view.event_lines(shown, now):
        parts += [Text(""), *(Text(line, style="dim", overflow="ellipsis") for line in events)]
    return Group(*parts)
