"""The interface through which the rest of the operator uses leader election: with a Lease, or
without one if there is only a single replica.
"""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Protocol

from dijob.controller import metrics
from dijob.controller.leader.lease import Lease, LeaseName
from dijob.kube.api import Api


class Leadership(Protocol):
    """The interface through which a replica becomes the leader and stays the leader."""

    @property
    def identity(self) -> str:
        """The name of this replica; "" if there is no leader election."""

    async def permission(self) -> None:
        """Wait until this replica may write. Called before each write."""

    async def acquire(self) -> None:
        """Wait until this replica is the leader."""

    async def keep(self) -> None:
        """Stay the leader until another replica becomes the leader."""

    async def release(self) -> None:
        """Stop being the leader, so that another replica can take over at once."""


class Undisputed:
    """Leadership without leader election: a single replica, or a run outside a cluster."""

    identity = ""

    async def permission(self) -> None:
        """Never wait: there is no other replica."""

    async def acquire(self) -> None:
        """Never wait: there is no other replica."""

    async def keep(self) -> None:
        """Never return: this replica cannot lose leadership."""
        await asyncio.Event().wait()

    async def release(self) -> None:
        """Do nothing: there is no other replica."""


@asynccontextmanager
async def join_election(
    kubeconfig: str | None, name: LeaseName | None
) -> AsyncGenerator[Leadership]:
    """Take part in the leader election with the Lease `name`; None disables leader election."""
    if name is None:
        metrics.LEADER.set(1)
        yield Undisputed()
        return
    # The renewal has its own connection. A renewal must not wait for other writes. It must not wait
    # for `permission` either, because the permission depends on the renewal.
    api = await Api.connect(kubeconfig, name.identity)
    lease = Lease(api, name)
    metrics.LEADER.set_function(lambda: float(lease.may_act))
    try:
        yield lease
    finally:
        await api.close()
