"""The channel of a namespace whose launchers are simulated."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from launcher_player import Launchers, play_launchers
from ports import free_port

from faults.lab.kube import Access


@dataclass(frozen=True)
class Channel:
    """The channel's port, and the simulated launchers that connect to it."""

    port: int
    launchers: Launchers

    def options(self, port: int = 0) -> tuple[str, ...]:
        """Return the options of an operator that serves the channel on this port. The default is
        the port at which the pods reach the channel.
        """
        return (f"--channel={self._address(self.port)}", f"--channel-port={port or self.port}")

    async def lead_to(self, *ports: int) -> None:
        """Route each connection to one of these ports at random, as a Service with several replicas
        does.
        """
        behind = tuple(map(self._address, ports))
        await self.launchers.lead({self._address(self.port): behind})

    def _address(self, port: int) -> str:
        return f"127.0.0.1:{port}"


@asynccontextmanager
async def open_channel(
    access: Access, namespace: str, *, strict: bool = False
) -> AsyncIterator[Channel]:
    """Simulate the launchers of a namespace that has no pods yet. If `strict`, a refused report is
    an error.
    """
    async with play_launchers(access, namespace, strict=strict) as launchers:
        yield Channel(free_port(), launchers)
