"""Server-sent events: the frames of a stream (HTML standard, section 9.2)."""

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any, Final

from aiohttp import web

from dijob.cli.ui.words import safe

# A page that hears nothing for three of these knows that nobody is there.
QUIET_SECONDS: Final = 5.0


@dataclass(frozen=True)
class Message:
    """An event of a stream: its name, and its data as JSON."""

    event: str
    data: Any


# None: nothing new, which is said from time to time.
Messages = AsyncGenerator[Message | None]


def frame(message: Message) -> bytes:
    """A message as it goes over the wire."""
    data = json.dumps(safe(message.data), ensure_ascii=False, separators=(",", ":"))
    return f"event: {message.event}\ndata: {data}\n\n".encode()


async def send(request: web.Request, messages: Messages) -> web.StreamResponse:
    """Answer with all messages; one that says what the last of its event has said is left out."""
    response = web.StreamResponse(headers={"Content-Type": "text/event-stream; charset=utf-8"})
    await response.prepare(request)
    loop = asyncio.get_running_loop()
    said, last = dict[str, bytes](), loop.time()
    async with aclosing(messages):
        async for message in messages:
            line = frame(message) if message else b""
            if message and said.get(message.event) != line:
                said = {**said, message.event: line} if message.event != LINES else said
                await response.write(line)
            elif loop.time() - last >= QUIET_SECONDS:
                await response.write(b": still here\n\n")
            else:
                continue
            last = loop.time()
    return response


# Lines of a log may be the same twice.
LINES: Final = "lines"
