"""A rank's program and everything that it starts, in a process group that is terminated as a unit.

When a container terminates, all of its processes are killed. Here, those processes are found by
their process group, and by a variable in their environment.
"""

import asyncio
import os
import signal
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from dijob_extras.local.plan import MARK, Start

# How long to read the output after the program has exited. Without /proc, a process that has left
# its group cannot be found, and may keep the pipe open.
DRAIN_SECONDS = 2
# The exit codes of a shell for a command that is missing, and for one that cannot be executed.
NOT_FOUND, NOT_RUN = 127, 126

# How many of the last output lines are kept. Like a termination message, they show how a program
# ended.
KEPT_LINES = 40

Line = Callable[[str], None]


class ProcessGroup:
    """The processes of one rank. `line` is called for each line that the processes print."""

    def __init__(self, start: Start, line: Line) -> None:
        self.start = start
        self._line = line
        self._last = deque[str](maxlen=KEPT_LINES)
        self._process: asyncio.subprocess.Process | None = None
        self._over = False
        self._due: signal.Signals | None = None
        self.began = 0.0
        """The time on the event loop's clock when the program started; 0 until then."""

    @property
    def pid(self) -> int:
        """The id of the first process; 0 before it has started."""
        return self._process.pid if self._process else 0

    @property
    def output(self) -> str:
        """The last lines that the processes have printed."""
        return "\n".join(self._last)

    @property
    def runs(self) -> bool:
        """Whether the program is running or is about to start."""
        return not self._over

    async def run(self) -> int:
        """Run the program, and return its status. As in subprocess, a negative status stands for a
        signal.

        When the program has exited, kill all processes that it has started, as when a container
        terminates.
        """
        try:
            return await self._run()
        finally:
            self._over = True

    async def _run(self) -> int:
        # asyncio's own pipe is not used. With it, `Process.wait` would return only when every
        # process has closed the pipe, including processes that have left the group.
        reading, writing = os.pipe()
        try:
            self._process = await asyncio.create_subprocess_exec(
                *self.start.words,
                # A container has no standard input either.
                stdin=asyncio.subprocess.DEVNULL,
                stdout=writing,
                stderr=writing,
                env=dict(self.start.env),
                cwd=self.start.folder,
                # In its own session, the rank does not receive the terminal's Ctrl-C. Instead, this
                # program terminates the rank with a grace period.
                start_new_session=True,
            )
        except OSError as error:
            os.close(reading)
            self._line(f"dijob: cannot run {self.start.words[0]!r}: {error.strerror}")
            return NOT_FOUND if isinstance(error, FileNotFoundError) else NOT_RUN
        finally:
            os.close(writing)
        self.began = asyncio.get_running_loop().time()
        # Send the signal that was requested while the program was starting.
        if self._due is not None:
            self.tell(self._due)
        reader = asyncio.create_task(self._read(reading))
        status = await self._process.wait()
        self.tell(signal.SIGKILL)
        kill_marked(self.start.env[MARK])
        with suppress(TimeoutError):
            await asyncio.wait_for(reader, DRAIN_SECONDS)
        return status

    def tell(self, number: signal.Signals) -> None:
        """Send a signal to the group, as soon as the group has started."""
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
        # StreamReader.readline() would raise an error for a line of more than 64 KiB.
        rest = b""
        while chunk := await stream.read(1 << 16):
            *whole, rest = (rest + chunk).split(b"\n")
            for line in whole:
                self._print(line)
        if rest:
            self._print(rest)

    def _print(self, line: bytes) -> None:
        text = line.decode(errors="replace")
        self._last.append(text)
        self._line(text)


def kill_marked(mark: str) -> None:
    """Kill all processes whose mark begins with this text, in any process group.

    Without /proc, for example on macOS, no process is found.
    """
    wanted = f"{MARK}={mark}".encode()
    for folder in Path("/proc").glob("[0-9]*"):
        # A process can exit during this loop, and processes of other users cannot be read.
        with suppress(OSError, ValueError):
            variables = (folder / "environ").read_bytes().split(b"\0")
            if any(variable.startswith(wanted) for variable in variables):
                os.kill(int(folder.name), signal.SIGKILL)
