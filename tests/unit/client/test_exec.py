"""Commands in a rank's container, and how the connection handles the apiserver's responses."""

import asyncio
from pathlib import Path

import pytest
from dijob.client import AsyncClient, Client, Executed, NotFound, Refused, Unreachable
from dijob.client.executing import execute_command
from unit.client.kubelets import kubelets


async def test_exec_returns_output_and_exit_code(tmp_path: Path) -> None:
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


async def test_the_synchronous_client_works_inside_a_running_loop(tmp_path: Path) -> None:
    """A notebook runs a loop."""
    async with kubelets(tmp_path) as (made, kubeconfig):
        await made.finish()

        def plain() -> list[str]:
            with Client(kubeconfig) as client:
                phases = [job.phase for job in client.watch("test")]
                return [*phases, str(client.wait("test", timeout=10))]

        assert await asyncio.to_thread(plain) == ["Succeeded", "test: Succeeded: done"]


async def test_a_429_is_retried(tmp_path: Path) -> None:
    async with kubelets(tmp_path) as (made, kubeconfig), AsyncClient(kubeconfig) as client:
        made.busy = 3
        assert (await client.get("test")).name == "test"
        made.busy = 100
        with pytest.raises(Refused, match="429 Too Many Requests"):
            await client.get("test")


async def test_endless_output_is_cut_off(tmp_path: Path) -> None:
    """The program belongs to the tenant, so `doctor` and `topology` limit its output."""
    async with kubelets(tmp_path) as (made, kubeconfig), AsyncClient(kubeconfig) as client:
        await made.start(0)
        place = await client.place("test", 0)
        with pytest.raises(Unreachable, match="pod test-0 wrote more than 1 MiB"):
            await execute_command(client.connection, place, ["cat"], bytes(2**21), most=2**20)
