"""Runs, kills and measures the operator as a process."""

import asyncio
import os
import re
import signal
import sys
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

import aiohttp
from planes import ROOT
from ports import free_port

_PATHS = {"PYTHONPATH": f"{ROOT / 'operator'}:{ROOT / 'testing'}:{ROOT / 'tests'}"}
TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Usage:
    """CPU seconds (user and system) of a process so far, and its peak resident memory in MB."""

    cpu: float
    peak: float


def usage_of(pid: int) -> Usage:
    """Return the usage of a process. If it has just ended, figures may be missing."""
    try:
        numbers = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        peak = re.search(r"VmHWM:\s+(\d+)", Path(f"/proc/{pid}/status").read_text())
    except (FileNotFoundError, ProcessLookupError):
        return Usage(0.0, 0.0)
    cpu = (int(numbers[11]) + int(numbers[12])) / TICKS
    return Usage(cpu, int(peak[1]) / 1024 if peak else 0.0)


@dataclass
class Operator:
    """One operator process at a time, always with the same kubeconfig. If this class is used as a
    context manager, the process is stopped at the end of the block.
    """

    kubeconfig: Path
    log: Path
    namespaces: tuple[str, ...] = ()
    arguments: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    # The file in which the process records which steps of its event loop took long (stretches.py)
    stretches: Path | None = None
    # The file to which the process writes the durations of its reconciliations (passes.py)
    passes: Path | None = None
    # The file to which the process writes its asyncio tasks when it receives SIGUSR1 (tasks.py)
    tasks: Path | None = None
    starts: int = 0
    port: int = 0
    _process: asyncio.subprocess.Process | None = field(default=None, repr=False)

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.kill()

    async def start(self) -> None:
        """Start the process, and return as soon as it exists."""
        if self._process is not None and self._process.returncode is None:
            raise AssertionError("an operator runs already")
        self.starts += 1
        self.port = free_port()
        scope = [word for namespace in self.namespaces for word in ("--namespace", namespace)]
        noted = ("faults.lab.stretches", str(self.stretches)) if self.stretches else ()
        noted = ("faults.lab.passes", str(self.passes)) if self.passes else noted
        noted = ("faults.lab.tasks", str(self.tasks)) if self.tasks else noted
        with self.log.open("a") as log:
            log.write(f"--- start {self.starts}\n")
            log.flush()
            self._process = await asyncio.create_subprocess_exec(
                sys.executable,
                *(
                    "-m",
                    *noted,
                    "dijob",
                    f"--kubeconfig={self.kubeconfig}",
                    f"--health-port={self.port}",
                    *scope,
                    *self.arguments,
                ),
                env={**os.environ, **_PATHS, **self.environment},
                stdout=log,
                stderr=log,
            )

    def end(self) -> None:
        """Kill the process (kill -9) without waiting."""
        self.signal(signal.SIGKILL)

    def signal(self, which: signal.Signals) -> None:
        """Send a signal to the process if it is running."""
        if self._process is not None:
            with suppress(ProcessLookupError):
                self._process.send_signal(which)

    async def kill(self) -> None:
        """Kill the process (kill -9), and wait for its end."""
        self.end()
        if self._process is not None:
            await self._process.wait()

    async def restart(self) -> None:
        """Kill the process (kill -9), and start a new one."""
        await self.kill()
        await self.start()

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def died(self) -> str:
        """Return why the process is no longer running, or "" if it is still running."""
        code = None if self._process is None else self._process.returncode
        return "" if code is None else f"the operator has exited with {code}; {self.tail()}"

    async def ended(self) -> int:
        """Wait for the process to end. Return the exit code, negative for a signal."""
        assert self._process is not None
        return await self._process.wait()

    def evidence(self) -> str:
        """Return the end of the operator's log and, if the operator has exited, its exit code. A
        failed test shows this in its message.
        """
        return self.died() or self.tail()

    def usage(self) -> Usage:
        """Return the usage of the current process."""
        return usage_of(self.pid)

    async def metric(self, name: str) -> float:
        """Return the sum of a metric over its labels; 0 if the operator serves no metrics yet."""
        try:
            async with aiohttp.request("GET", f"http://127.0.0.1:{self.port}/metrics") as answer:
                text = await answer.text()
        except aiohttp.ClientError:
            return 0.0
        found = re.findall(rf"^{re.escape(name)}(?:{{[^}}]*}})? (\S+)$", text, re.MULTILINE)
        return sum(float(value) for value in found)

    async def unready(self) -> str:
        """Return why the operator is not ready, or "" if it is."""
        try:
            async with aiohttp.request("GET", f"http://127.0.0.1:{self.port}/readyz") as answer:
                return "" if answer.status == 200 else await answer.text()
        except aiohttp.ClientError as error:
            return str(error) or "no answer"

    def tail(self, lines: int = 25) -> str:
        """Return the end of its log."""
        return "log of the operator:\n" + "\n".join(self.log.read_text().splitlines()[-lines:])
