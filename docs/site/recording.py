"""`make recording` writes docs/pictures/watch.svg. The recording shows what `kubectl dijob watch`
displays of a real job while one of its pods is deleted and re-created. The kubeconfig's cluster
must have the operator and the image of the examples.

The frames are drawn by the code of `watch` itself, one for each change. The frames are combined
into one SVG that plays them with CSS. It needs no script and loads nothing from another host, so it
also works on GitHub and in an offline copy of the site.
"""

import asyncio
import io
import re
from collections.abc import Sequence
from contextlib import aclosing
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

from dijob.cli.watching.feed import Feed
from dijob.cli.watching.live import render_snapshot
from dijob.cli.watching.view import Snapshot, header_lines, rank_rows
from dijob.client import AsyncClient, Client, build
from dijob.client.connection import ClientRequest
from dijob.client.resources import PODS
from rich.console import Console

ROOT: Final = Path(__file__).parents[2]
OUT: Final = ROOT / "docs/pictures/watch.svg"
NAME: Final = "search"
RANKS: Final = 4
VICTIM: Final = 1
WIDTH: Final = 120
LINES: Final = 19
# Display time of a frame. Real phases are too short to read or too long to wait for.
LEAST_SECONDS, MOST_SECONDS, LAST_SECONDS = 1.0, 2.2, 4.0
PATIENCE_SECONDS: Final = 180.0

# rich's own SVG format, but without its web font, which would be loaded from another host.
FORMAT: Final = """\
<svg class="rich-terminal" viewBox="0 0 {width} {height}" xmlns="http://www.w3.org/2000/svg">
<style>
.{unique_id}-matrix {{ font-family: ui-monospace, Menlo, Consolas, monospace;
 font-size: {char_height}px; line-height: {line_height}px }}
.{unique_id}-title {{ font-size: 18px; font-weight: bold; font-family: arial }}
{styles}
</style>
<defs><clipPath id="{unique_id}-clip-terminal">
<rect x="0" y="0" width="{terminal_width}" height="{terminal_height}" /></clipPath></defs>
{chrome}
<g transform="translate({terminal_x}, {terminal_y})" clip-path="url(#{unique_id}-clip-terminal)">
{backgrounds}
<g class="{unique_id}-matrix">{matrix}</g>
</g>
</svg>
"""


@dataclass(frozen=True)
class Frame:
    """A snapshot of the job, with the loop's time (in seconds) at which it was taken."""

    shown: Snapshot
    at: float
    now: datetime


def looks(frame: Frame) -> object:
    """Return everything that a frame shows except the elapsed time, for comparison with others."""
    first, *others = header_lines(frame.shown, frame.now)
    figures = first.rsplit(",", 1)[0]
    events = [event.get("message") for event in frame.shown.events]
    return figures, others, rank_rows(frame.shown.pods, RANKS), events


def chosen(frames: Sequence[Frame]) -> list[Frame]:
    """Return the frames to show: every change to the job's status, at most one frame per second of
    those that only look different, and always the last one.
    """
    kept: list[Frame] = []
    for frame in frames:
        last = kept[-1] if kept else None
        if (
            last is None
            or said(frame) != said(last)
            or (looks(frame) != looks(last) and frame.at - last.at >= LEAST_SECONDS)
        ):
            kept.append(frame)
    return kept if kept[-1] is frames[-1] else [*kept, frames[-1]]


def said(frame: Frame) -> object:
    """Return the part of the status whose changes are shown in a new frame without delay."""
    status = frame.shown.job.status
    return status.phase, status.message, status.list_number


def lasting(frames: Sequence[Frame]) -> list[float]:
    """Return the display time of each frame in seconds."""
    gaps = [after.at - frame.at for frame, after in pairwise(frames)]
    return [*(min(max(gap, LEAST_SECONDS), MOST_SECONDS) for gap in gaps), LAST_SECONDS]


def drawn(frame: Frame, number: int) -> str:
    """Render one frame as a separate SVG."""
    console = Console(
        file=io.StringIO(), record=True, width=WIDTH, height=LINES, color_system="truecolor"
    )
    console.print(f"[bold green]$[/] kubectl dijob watch {NAME}", highlight=False)
    console.print(render_snapshot(frame.shown, frame.now, RANKS))
    # Pad with empty lines, so that all frames have the same height and the text does not jump.
    used = console.export_text(clear=False).count("\n")
    console.print("\n" * max(LINES - used - 1, 0), end="")
    svg = console.export_svg(title="", code_format=FORMAT, unique_id=f"f{number}")
    # rich clips each line separately and ends it with an empty text element. Neither is visible,
    # and together they are a third of the file.
    svg = re.sub(r' clip-path="url\(#f\d+-line-\d+\)"', "", svg)
    return re.sub(r"<text [^>]*>\n</text>", "", svg)


def joined(pictures: Sequence[str], seconds: Sequence[float]) -> str:
    """Combine the frames into one SVG that shows them in turn. With reduced motion it shows only
    the last frame."""
    total, begin, parts, style = sum(seconds), 0.0, [], []
    for number, (each, lasts) in enumerate(zip(pictures, seconds, strict=True)):
        head, _, body = each.partition("</style>")
        style.append(head.partition("<style>")[2])
        parts.append(f'<g class="frame" id="frame{number}">{body.rpartition("</svg>")[0]}</g>')
        start, end = 100 * begin / total, 100 * (begin + lasts) / total
        style.append(
            f"@keyframes k{number} {{ 0%, {start:.2f}% {{ visibility: hidden }}"
            f" {start + 0.01:.2f}%, {end:.2f}% {{ visibility: visible }}"
            f" {min(end + 0.01, 100):.2f}%, 100% {{ visibility: hidden }} }}\n"
            f"#frame{number} {{ animation: k{number} {total:.1f}s step-end infinite }}"
        )
        begin += lasts
    last = len(pictures) - 1
    still = (
        "@media (prefers-reduced-motion: reduce) { .frame { animation: none !important;"
        f" visibility: hidden }} #frame{last} {{ visibility: visible }} }}"
    )
    box = re.findall(r'viewBox="([^"]+)"', pictures[0])[0]
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="{box}" role="img">\n'
        f"<title>kubectl dijob watch, while a pod is deleted and comes back</title>\n"
        f"<style>{''.join(style)}\n{still}</style>\n{''.join(parts)}\n</svg>\n"
    )


def job() -> Any:
    """Return a job that runs examples/search.py with a target that it never reaches."""
    container = {
        "name": "di-container",
        "image": "dijob/ditask:0.5.3",
        "command": ["python3", "/code/search.py"],
        "env": [{"name": "OUT", "value": "/tmp"}, {"name": "TARGET", "value": "501"}],
        "resources": {"requests": {"cpu": "100m", "memory": "512Mi"}},
        "volumeMounts": [{"name": "code", "mountPath": "/code"}],
    }
    volume = {"name": "code", "configMap": {"name": f"{NAME}-code"}}
    pod = {"spec": {"containers": [container], "volumes": [volume]}}
    return build(NAME, {"replicas": RANKS, "template": pod})


def code(made: dict[str, Any]) -> dict[str, Any]:
    """Return the ConfigMap with the script, owned by the job `made` if it is not empty."""
    meta: dict[str, Any] = {"name": f"{NAME}-code"}
    if made:
        owner = {key: made[key] for key in ("apiVersion", "kind")}
        owner |= {key: made["metadata"][key] for key in ("name", "uid")}
        meta["ownerReferences"] = [owner]
    script = {"search.py": (ROOT / "examples/search.py").read_text()}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": script}


def is_whole(shown: Snapshot, list_number: int) -> bool:
    """Return whether all ranks are ready with the peer list of this revision.

    For a list after the first one, the event PeersReady must also exist, so that the recording
    shows it.
    """
    messages = [event["message"] for event in shown.events if event.get("reason") == "PeersReady"]
    if list_number > 1 and not any(f"revision {list_number}," in each for each in messages):
        return False
    status = shown.job.status
    return status.ready_replicas == RANKS and status.list_number == list_number


async def recorded() -> list[Frame]:
    """Start the job, delete a pod when all ranks run, and record until all are ready again."""
    frames: list[Frame] = []
    loop = asyncio.get_running_loop()
    async with AsyncClient() as client, asyncio.timeout(PATIENCE_SECONDS):
        # The ConfigMap must exist before the pods mount it. When the job exists, the ConfigMap gets
        # it as its owner, so that it is deleted with the job.
        await client.apply(code({}))
        await client.apply(code(await client.apply_body(job())))
        async with aclosing(Feed(client, NAME).snapshots(beat=1.0)) as snapshots:
            lost = whole = 0.0
            async for shown in snapshots:
                now = loop.time()
                frames.append(Frame(shown, now, datetime.now(UTC)))
                whole = whole or (now if is_whole(shown, 1) else 0.0)
                if not lost and whole and now > whole + 2:
                    path = f"{PODS.path(client.namespace)}/{NAME}-{VICTIM}"
                    await client.connection.json(ClientRequest("DELETE", path))
                    lost = now
                if is_whole(shown, 2):
                    return frames
    raise SystemExit(f"{NAME} has ended")


def main() -> None:
    """Record the job, write the SVG, and delete the job."""
    try:
        frames = chosen(asyncio.run(recorded()))
    finally:
        with Client() as client:
            client.delete(NAME, timeout=60)
    pictures = [drawn(frame, number) for number, frame in enumerate(frames)]
    OUT.write_text(joined(pictures, lasting(frames)))
    print(f"{OUT.relative_to(ROOT)}: {len(frames)} pictures, {OUT.stat().st_size / 1000:.0f} KB")


if __name__ == "__main__":
    main()
