"""A process group: a program and all that it starts, ended together."""

import asyncio
import os
import signal
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from dijob.cli.local.plan import MARK, Start

# Where there is no /proc, a process that has left its group may hold the output open.
DRAIN_SECONDS = 2
NOT_FOUND, NOT_RUN = 127, 126

Line = Callable[[str], None]


class Group:
    """The processes of one rank. `line` gets each line that they print."""

    def __init__(self, start: Start, line: Line) -> None:
        self.start = start
        self._line = line
        self._process: asyncio.subprocess.Process | None = None
        self._over = False
        self._due: signal.Signals | None = None
        self.began = 0.0
        """When its program began, by the loop's clock; 0 before that."""

    @property
    def pid(self) -> int:
        """Its first process, 0 before there is one."""
        return self._process.pid if self._process else 0

    @property
    def runs(self) -> bool:
        """Whether its program runs, or is about to."""
        return not self._over

    async def run(self) -> int:
        """Start the program, and return how it ended, as subprocess has it; all that it has started
        is ended then, as with the end of a container."""
        try:
            return await self._run()
        finally:
            self._over = True

    async def _run(self) -> int:
        # A pipe of our own: asyncio's wait() would last until everybody has closed its, also who
        # has left the group.
        reading, writing = os.pipe()
        try:
            self._process = await asyncio.create_subprocess_exec(
                *self.start.words,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=writing,
                stderr=writing,
                env=dict(self.start.env),
                cwd=self.start.folder,
                start_new_session=True,
            )
        except OSError as error:
            os.close(reading)
            self._line(f"dijob: cannot run {self.start.words[0]!r}: {error.strerror}")
            return NOT_FOUND if isinstance(error, FileNotFoundError) else NOT_RUN
        finally:
            os.close(writing)
        self.began = asyncio.get_running_loop().time()
        if self._due is not None:
            self.tell(self._due)
        reader = asyncio.create_task(self._read(reading))
        status = await self._process.wait()
        self.tell(signal.SIGKILL)
        sweep(self.start.env[MARK])
        with suppress(TimeoutError):
            await asyncio.wait_for(reader, DRAIN_SECONDS)
        return status

    def tell(self, number: signal.Signals) -> None:
        """Send a signal to the group, or as soon as it is there."""
        self._due = number
        if self._process is not None and not self._over:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self._process.pid, number)

    async def _read(self, pipe: int) -> None:
        stream = asyncio.StreamReader()
        transport, _ = await asyncio.get_running_loop().connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(stream), os.fdopen(pipe, "rb")
        )
        try:
            await self._lines_of(stream)
        finally:
            transport.close()

    async def _lines_of(self, stream: asyncio.StreamReader) -> None:
        rest = b""
        while chunk := await stream.read(1 << 16):
            *whole, rest = (rest + chunk).split(b"\n")
            for line in whole:
                self._line(line.decode(errors="replace"))
        if rest:
            self._line(rest.decode(errors="replace"))


def sweep(mark: str) -> None:
    """Kill all processes whose mark begins with this, in whichever group they are. Where there is
    no /proc, the groups are all that is known."""
    wanted = f"{MARK}={mark}".encode()
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError, ValueError):
            variables = (folder / "environ").read_bytes().split(b"\0")
            if any(variable.startswith(wanted) for variable in variables):
                os.kill(int(folder.name), signal.SIGKILL)
