"""Runs the program that simulates the launchers of simulated pods (launchers/main.go)."""

import asyncio
import os
import tempfile
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
from cluster.go_program import build_program
from dijob.names import GROUP
from faults.lab.kube import Access

SOURCES = Path(__file__).parent / "launchers"
# The Go module of the real launcher. The program in SOURCES uses this module's channel package.
LAUNCHER = Path(__file__).parents[1] / "images/launcher"


@dataclass(frozen=True)
class Launchers:
    """The launchers of a namespace. Their program answers questions on `port`."""

    port: int

    async def lists(self) -> dict[str, dict[str, str]]:
        """Return the annotations that each launcher has received, by the uid of its pod."""
        said: dict[str, dict[str, str]] = (await self._launchers())["lists"]
        return {
            uid: {f"{GROUP}/{key}": text for key, text in known.items()}
            for uid, known in said.items()
        }

    async def received(self) -> int:
        """Return how many lists have arrived through the channel."""
        return int((await self._launchers())["received"])

    async def lead(self, services: Mapping[str, tuple[str, ...]]) -> None:
        """For each Service address, set the addresses of the operators behind it, like the
        endpoints of a Service.
        """
        url = f"http://127.0.0.1:{self.port}/services"
        async with aiohttp.request("PUT", url, json=services, raise_for_status=True):
            pass

    async def _launchers(self) -> Any:
        url = f"http://127.0.0.1:{self.port}/launchers"
        async with aiohttp.request("GET", url, raise_for_status=True) as answer:
            return await answer.json(content_type=None)


@asynccontextmanager
async def play_launchers(
    access: Access, namespace: str, *, strict: bool = False
) -> AsyncIterator[Launchers]:
    """Simulate the launchers of the pods of a namespace. If `strict`, a refused report is an error.

    A separate program simulates them. Its CPU time is not measured, because on real nodes the
    launchers run in the pods.
    """
    program = await asyncio.to_thread(build_program, SOURCES, "launchers", LAUNCHER)
    with tempfile.NamedTemporaryFile("w") as authority:
        authority.write(access.authority)
        authority.flush()
        process = await asyncio.create_subprocess_exec(
            *(str(program), "-server", access.server, "-ca", authority.name),
            *("-namespace", namespace, *(["-strict"] if strict else [])),
            env={**os.environ, "TOKEN": access.token},
            stdout=asyncio.subprocess.PIPE,
        )
        try:
            assert process.stdout
            yield Launchers(int(await process.stdout.readline()))
            assert process.returncode is None, "the program that simulates the launchers has ended"
        finally:
            if process.returncode is None:
                process.kill()
            await process.wait()
