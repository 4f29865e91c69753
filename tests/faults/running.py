"""The operator as a process of the tests: started, killed, measured, and what it says of its
passes.
"""

import asyncio
import os
import random
import re
import signal
import socket
import sys
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

import aiohttp
from planes import ROOT

_PATHS = {"PYTHONPATH": f"{ROOT / 'operator'}:{ROOT / 'tests'}"}
TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Usage:
    """What the process has used so far: CPU seconds (user and system), peak resident memory in
    MB.
    """

    cpu: float
    peak: float


def usage_of(pid: int) -> Usage:
    """Of a process; one that has just ended shows no memory, or nothing at all."""
    try:
        numbers = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        peak = re.search(r"VmHWM:\s+(\d+)", Path(f"/proc/{pid}/status").read_text())
    except (FileNotFoundError, ProcessLookupError):
        return Usage(0.0, 0.0)
    cpu = (int(numbers[11]) + int(numbers[12])) / TICKS
    return Usage(cpu, int(peak[1]) / 1024 if peak else 0.0)


@dataclass
class Operator:
    """One operator at a time, with the same kubeconfig; as a context manager it is gone at the
    end.
    """

    kubeconfig: Path
    log: Path
    namespaces: tuple[str, ...] = ()
    arguments: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    # Where to note the long stretches of its event loop (stretches.py)
    stretches: Path | None = None
    # Where to note how long each of its passes takes (passes.py)
    passes: Path | None = None
    # Where to note its tasks on SIGUSR1 (tasks.py)
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
        """Start it; returns as soon as the process is there."""
        if self._process is not None and self._process.returncode is None:
            raise AssertionError("an operator runs already")
        self.starts += 1
        self.port = free_port()
        scope = [word for namespace in self.namespaces for word in ("--namespace", namespace)]
        noted = ("faults.stretches", str(self.stretches)) if self.stretches else ()
        noted = ("faults.passes", str(self.passes)) if self.passes else noted
        noted = ("faults.tasks", str(self.tasks)) if self.tasks else noted
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
        """kill -9, at once."""
        self.signal(signal.SIGKILL)

    def signal(self, which: signal.Signals) -> None:
        """Send it a signal, where it runs."""
        if self._process is not None:
            with suppress(ProcessLookupError):
                self._process.send_signal(which)

    async def kill(self) -> None:
        """kill -9, and wait until it is gone."""
        self.end()
        if self._process is not None:
            await self._process.wait()

    async def restart(self) -> None:
        """kill -9 and start again."""
        await self.kill()
        await self.start()

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def died(self) -> str:
        """Why it does not run any more; "" while it does."""
        code = None if self._process is None else self._process.returncode
        return "" if code is None else f"the operator has exited with {code}; {self.tail()}"

    async def ended(self) -> int:
        """Wait until its process ends; the exit code, negative for a signal."""
        assert self._process is not None
        return await self._process.wait()

    def evidence(self) -> str:
        """What a reader of a failed test wants to see."""
        return self.died() or self.tail()

    def usage(self) -> Usage:
        """Of the process that runs now."""
        return usage_of(self.pid)

    async def metric(self, name: str) -> float:
        """The sum of a metric over its labels; 0 while the operator does not answer yet."""
        try:
            async with aiohttp.request("GET", f"http://127.0.0.1:{self.port}/metrics") as answer:
                text = await answer.text()
        except aiohttp.ClientError:
            return 0.0
        found = re.findall(rf"^{re.escape(name)}(?:{{[^}}]*}})? (\S+)$", text, re.MULTILINE)
        return sum(float(value) for value in found)

    async def unready(self) -> str:
        """What it still lacks until it has listed everything; "" then."""
        try:
            async with aiohttp.request("GET", f"http://127.0.0.1:{self.port}/readyz") as answer:
                return "" if answer.status == 200 else await answer.text()
        except aiohttp.ClientError as error:
            return str(error) or "no answer"

    def tail(self, lines: int = 25) -> str:
        """The end of its log, for evidence."""
        return "log of the operator:\n" + "\n".join(self.log.read_text().splitlines()[-lines:])


def free_port() -> int:
    """A port that nobody listens on, below those that the kernel gives to outgoing connections."""
    while True:
        port = random.randrange(20_000, 32_000)
        with (
            suppress(OSError),
            socket.create_server(("::", port), family=socket.AF_INET6, dualstack_ipv6=True),
        ):
            return port
