"""Sends server-sent events (HTML standard, section 9.2).

Data flows only from the server to the page, so a WebSocket would have no advantage.
"""

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any, Final

from aiohttp import web
from dijob.api.printed import plain_text

# How often a silent stream sends a comment. If three comments in a row do not arrive, the page
# reconnects.
QUIET_SECONDS: Final = 5.0


@dataclass(frozen=True)
class Message:
    """An event in a stream: its name, and its data, which is sent as JSON."""

    event: str
    data: Any


_HEADERS: Final = {
    "Content-Type": "text/event-stream; charset=utf-8",
    # Otherwise nginx would hold the events back until its buffer is full.
    "X-Accel-Buffering": "no",
}

# None means that nothing is new. When `send_messages` receives None, it can send a comment.
Messages = AsyncGenerator[Message | None]


def encode_message(message: Message) -> bytes:
    """Return the bytes of a message."""
    data = json.dumps(clean_texts(message.data), ensure_ascii=False, separators=(",", ":"))
    return f"event: {message.event}\ndata: {data}\n\n".encode()


async def send_messages(request: web.Request, messages: Messages) -> web.StreamResponse:
    """Send all messages, except those that repeat the previous message of the same event."""
    response = web.StreamResponse(headers=_HEADERS)
    await response.prepare(request)
    loop = asyncio.get_running_loop()
    sent, last = dict[str, bytes](), loop.time()
    async with aclosing(messages):
        async for message in messages:
            line = encode_message(message) if message else b""
            if message and sent.get(message.event) != line:
                sent = {**sent, message.event: line} if message.event != LINES else sent
                await response.write(line)
            elif loop.time() - last >= QUIET_SECONDS:
                await response.write(b": still here\n\n")
            else:
                continue
            last = loop.time()
    return response


# This event is never left out, because a program may print the same lines again.
LINES: Final = "lines"


def clean_texts(data: Any) -> Any:
    """Return data with each text cleaned of characters that reorder or hide other characters."""
    if isinstance(data, str):
        return plain_text(data)
    if isinstance(data, dict):
        return {clean_texts(key): clean_texts(value) for key, value in data.items()}
    return [clean_texts(item) for item in data] if isinstance(data, list | tuple) else data
