"""Runs a blocking function in a thread that exchanges bytes with the event loop over a socket pair.

tarfile blocks, so it runs in a thread. The thread closes its end when the function returns or
raises, and the event loop closes its own end when the context exits. So if one side fails, the
other side always notices, instead of waiting forever for buffer space or for data. The event loop
can cancel its own reads and writes, but a thread in os.read or os.write cannot be canceled.
"""

import asyncio
import socket
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import IO, Generic, Literal, TypeVar

Result = TypeVar("Result")


@dataclass(frozen=True)
class RunningThread(Generic[Result]):
    """A function that runs in a thread, and the reader and writer through which the event loop
    exchanges bytes with it.
    """

    result: asyncio.Task[Result]
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    async def write(self, piece: bytes) -> None:
        """Raises ConnectionError if the function has ended."""
        self.writer.write(piece)
        await self.writer.drain()


@asynccontextmanager
async def run_in_thread(
    function: Callable[[IO[bytes]], Result], mode: Literal["rb", "wb"]
) -> AsyncGenerator[RunningThread[Result]]:
    """Run a function that reads (rb) or writes (wb) a stream. When the context has exited, the
    function has ended, and `result` holds its return value or its exception.
    """
    here, there = socket.socketpair()

    def run() -> Result:
        with there, there.makefile(mode) as stream:
            return function(stream)

    result = asyncio.create_task(asyncio.to_thread(run))
    reader, writer = await asyncio.open_connection(sock=here)
    try:
        yield RunningThread(result, reader, writer)
    finally:
        writer.close()
        await asyncio.gather(result, return_exceptions=True)
