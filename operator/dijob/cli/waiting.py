"""Waiting for jobs: their changes on stderr, their outcomes as the exit code."""

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from dijob.cli.calling import Narrator, Where, call, ended
from dijob.cli.errors import CliError

if TYPE_CHECKING:
    from dijob.client import AsyncClient, Outcome


def outcome(where: Where, name: str, goal: str = "finished", timeout: float | None = None) -> None:
    """Wait for one job, and say its outcome. Raises CliError where it has not succeeded."""
    ended(call(where, lambda client: client.wait(name, goal, timeout, Narrator())))


def outcomes(where: Where, jobs: Sequence[dict[str, Any]], timeout: float | None) -> None:
    """Wait for jobs that were applied, at once. Raises the CliError of the first that has not
    succeeded, once all are said.
    """
    found = []
    # A file may name a namespace.
    for namespace in dict.fromkeys(job["metadata"]["namespace"] for job in jobs):
        names = [j["metadata"]["name"] for j in jobs if j["metadata"]["namespace"] == namespace]
        found += _in(Where(namespace, where.context, where.kubeconfig), names, timeout)
    _said(found)


def _in(where: Where, names: Sequence[str], timeout: float | None) -> "list[Outcome]":
    async def act(client: "AsyncClient") -> "list[Outcome]":
        waits = (client.wait(name, timeout=timeout, seen=Narrator()) for name in names)
        return await asyncio.gather(*waits)

    return call(where, act)


def _said(found: "Sequence[Outcome]") -> None:
    first: CliError | None = None
    for one in found:
        try:
            ended(one)
        except CliError as error:
            first = first or error
    if first is not None:
        raise first
