"""Commands in a rank's container, and what the connection makes of an apiserver's answers."""

import asyncio
from pathlib import Path

import pytest
from dijob.client import AsyncClient, Client, Executed, NotFound, Refused, Unreachable
from dijob.client.executing import execute
from unit.client.kubelets import kubelets


async def test_commands_in_a_container(tmp_path: Path) -> None:
    async with kubelets(tmp_path) as (made, kubeconfig), AsyncClient(kubeconfig) as client:
        await made.start(0)
        data = bytes(range(256)) * 400
        assert await client.exec("test", 0, ["cat"], data) == Executed(data, b"", 0)
        assert await client.exec("test", 0, ["false"]) == Executed(b"", b"it fails", 3)
        with pytest.raises(Refused, match="you cannot create pods/exec") as caught:
            await client.exec("test", 0, ["reboot"])
        assert (caught.value.status, caught.value.reason) == (403, "Forbidden")
        with pytest.raises(NotFound, match="rank 1 of test currently has no pod"):
            await client.exec("test", 1, ["cat"])


async def test_the_client_without_async_works_where_a_loop_runs(tmp_path: Path) -> None:
    """As in a notebook."""
    async with kubelets(tmp_path) as (made, kubeconfig):
        await made.finish()

        def plain() -> list[str]:
            with Client(kubeconfig) as client:
                phases = [job.phase for job in client.watch("test")]
                return [*phases, str(client.wait("test", timeout=10))]

        assert await asyncio.to_thread(plain) == ["Succeeded", "test: Succeeded: done"]


async def test_a_busy_apiserver_is_asked_again(tmp_path: Path) -> None:
    async with kubelets(tmp_path) as (made, kubeconfig), AsyncClient(kubeconfig) as client:
        made.busy = 3
        assert (await client.get("test")).name == "test"
        made.busy = 100
        with pytest.raises(Refused, match="429 Too Many Requests"):
            await client.get("test")


async def test_an_answer_without_an_end_is_cut_off(tmp_path: Path) -> None:
    """The program that answers is the tenant's: `doctor` and `topology` bound what they read."""
    async with kubelets(tmp_path) as (made, kubeconfig), AsyncClient(kubeconfig) as client:
        await made.start(0)
        place = await client.place("test", 0)
        with pytest.raises(Unreachable, match="pod test-0 wrote more than 1 MiB"):
            await execute(client.connection, place, ["cat"], bytes(2**21), most=2**20)
