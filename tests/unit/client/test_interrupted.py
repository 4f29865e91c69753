"""Ctrl-C in a loop over what the client without `async` gives is Ctrl-C, and nothing else."""

import asyncio
import signal
import threading
from collections.abc import AsyncGenerator, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from dijob.client import Client

KUBECONFIG = {
    "clusters": [{"name": "c", "cluster": {"server": "http://127.0.0.1:1"}}],
    "contexts": [{"name": "c", "context": {"cluster": "c", "user": "c"}}],
    "users": [{"name": "c", "user": {}}],
    "current-context": "c",
}


@pytest.fixture
def client(tmp_path: Path) -> Iterator[Client]:
    file = tmp_path / "kubeconfig"
    file.write_text(yaml.safe_dump(KUBECONFIG))
    with Client(str(file)) as made:
        yield made


class Lines:
    """Lines that never come; `waits` once the first is waited for, `closed` in the end."""

    def __init__(self) -> None:
        self.waits, self.closed = threading.Event(), False

    async def __call__(self) -> AsyncGenerator[str]:
        try:
            self.waits.set()
            await asyncio.Event().wait()
            yield "never"
        finally:
            self.closed = True


def test_ctrl_c_while_the_next_line_is_waited_for(client: Client) -> None:
    lines, main = Lines(), threading.get_ident()

    def interrupt() -> None:
        lines.waits.wait()
        signal.pthread_kill(main, signal.SIGINT)

    threading.Thread(target=interrupt, daemon=True).start()
    with pytest.raises(KeyboardInterrupt):
        next(client._each(lines()))
    assert lines.closed


def test_ctrl_c_as_the_next_line_is_asked_for(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The step has begun, and nobody has its future yet."""
    lines, real = Lines(), asyncio.run_coroutine_threadsafe

    def interrupted(*args: Any) -> None:
        monkeypatch.setattr(asyncio, "run_coroutine_threadsafe", real)
        real(*args)
        lines.waits.wait()
        raise KeyboardInterrupt

    monkeypatch.setattr(asyncio, "run_coroutine_threadsafe", interrupted)
    with pytest.raises(KeyboardInterrupt):
        next(client._each(lines()))
    assert lines.closed


def test_an_error_as_the_connection_closes_leaves_no_thread(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """R16."""

    close = client._client.__aexit__

    async def broken(*args: Any) -> None:
        await close(*args)
        raise OSError("broken")

    monkeypatch.setattr(client._client, "__aexit__", broken)
    with pytest.raises(OSError, match="broken"):
        client.close()
    assert not client._thread.is_alive()
