"""Whether this operator is the one that acts: by a Lease, or since there is no other."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Protocol

from dijob.shell import metrics
from dijob.shell.api import Api
from dijob.shell.lease import Lease, LeaseName


class Leadership(Protocol):
    """Whether this operator is the one that acts."""

    @property
    def identity(self) -> str:
        """Its name among the operators; "" where it is the only one."""

    async def permission(self) -> None:
        """Wait until it may act."""

    async def acquire(self) -> None:
        """Wait until it leads."""

    async def keep(self) -> None:
        """Go on leading; returns when another one does."""

    async def release(self) -> None:
        """Let another one lead."""


class Undisputed:
    """There is no other operator."""

    identity = ""

    async def permission(self) -> None:
        """At once."""

    async def acquire(self) -> None:
        """At once."""

    async def keep(self) -> None:
        """For ever."""
        await asyncio.Event().wait()

    async def release(self) -> None:
        """There is nobody."""


@asynccontextmanager
async def leadership(kubeconfig: str | None, name: LeaseName | None) -> AsyncGenerator[Leadership]:
    """As the Lease has it."""
    if name is None:
        metrics.LEADER.set(1)
        yield Undisputed()
        return
    api = await Api.connect(kubeconfig, name.identity)
    lease = Lease(api, name)
    metrics.LEADER.set_function(lambda: float(lease.may_act))
    try:
        yield lease
    finally:
        await api.close()
