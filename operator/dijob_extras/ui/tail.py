"""Sends the log of one rank, or of all ranks, to the page."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any, Final

from dijob.api.printed import plain_text
from dijob.client import AsyncClient, DijobError, Line, LogOptions

from dijob_extras.ui.failure import is_noise
from dijob_extras.ui.sse import LINES, Message, Messages

# How many lines of each rank the page shows when a log is opened.
TAIL_LINES: Final = 500
# Lines are sent in batches. If a program prints many lines, one message per line would keep the
# browser busy.
_ONE_MESSAGE: Final = 200
_HELD_LINES: Final = 5000
_BEAT_SECONDS: Final = 1.0


def line_for_page(line: Line) -> dict[str, Any]:
    """Return a line for the page. A progress bar (with carriage returns) is reduced to its end."""
    text = _clean_line(line)
    shown = {"time": line.stamp, "rank": line.rank, "text": text}
    # The page shows warnings from libraries in a lighter color.
    return {**shown, "noise": True} if is_noise(text) else shown


def _clean_line(line: Line) -> str:
    return plain_text(line.text).rstrip().rpartition("\n")[2]


async def read_log(client: AsyncClient, name: str, rank: int | None) -> AsyncGenerator[str]:
    """Yield the complete log of a rank (None for all), as far as the nodes have kept it."""
    ranks = None if rank is None else frozenset({rank})
    async with aclosing(client.logs(name, LogOptions(ranks=ranks))) as lines:
        async for line in lines:
            prefix = f"[{line.rank}] " if rank is None else ""
            yield f"{line.stamp} {prefix}{_clean_line(line)}\n"


async def tail_log(client: AsyncClient, name: str, rank: int | None) -> Messages:
    """Yield the last lines of a rank (None for all), then new lines until the job has finished."""
    try:
        over = (await client.get(name)).finished
        ranks = None if rank is None else frozenset({rank})
        options = LogOptions(ranks=ranks, follow=not over, tail=TAIL_LINES)
        async with aclosing(_batch_lines(client.logs(name, options))) as batches:
            async for batch in batches:
                yield Message(LINES, [line_for_page(line) for line in batch]) if batch else None
        yield Message("end", {"sentence": "the log has ended"})
    except DijobError as error:
        yield Message("end", {"sentence": str(error)})


async def _batch_lines(lines: AsyncGenerator[Line]) -> AsyncGenerator[list[Line]]:
    """Yield batches of lines that arrive together; [] after a second without a line."""
    queue: asyncio.Queue[Line | None] = asyncio.Queue(_HELD_LINES)

    async def pump() -> None:
        try:
            async with aclosing(lines):
                async for line in lines:
                    await queue.put(line)
        # Even after an error, the reader must not wait for a line that never comes. After a
        # cancellation there is no reader, and a full queue would block this task forever.
        except Exception:
            await queue.put(None)
            raise
        await queue.put(None)

    work = asyncio.ensure_future(pump())
    try:
        ended = False
        while not ended:
            batch = list[Line]()
            try:
                async with asyncio.timeout(_BEAT_SECONDS):
                    first = await queue.get()
                    while first is not None:
                        batch.append(first)
                        if queue.empty() or len(batch) >= _ONE_MESSAGE:
                            break
                        first = queue.get_nowait()
                    ended = first is None
            except TimeoutError:
                pass
            yield batch
        await work
    finally:
        work.cancel()
        await asyncio.gather(work, return_exceptions=True)
