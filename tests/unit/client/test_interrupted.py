"""Ctrl-C in a loop over results of the synchronous client raises only KeyboardInterrupt."""

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
    """Lines that never arrive. `waits` is set once the first is awaited, `closed` at the end."""

    def __init__(self) -> None:
        self.waits, self.closed = threading.Event(), False

    async def __call__(self) -> AsyncGenerator[str]:
        try:
            self.waits.set()
            await asyncio.Event().wait()
            yield "never"
        finally:
            self.closed = True


def test_ctrl_c_while_waiting_for_the_next_line(client: Client) -> None:
    lines, main = Lines(), threading.get_ident()

    def interrupt() -> None:
        lines.waits.wait()
        signal.pthread_kill(main, signal.SIGINT)

    threading.Thread(target=interrupt, daemon=True).start()
    with pytest.raises(KeyboardInterrupt):
        next(client._each(lines()))
    assert lines.closed


def test_ctrl_c_while_requesting_the_next_line(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ctrl-C arrives when the step has started, but its future is not stored yet."""
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


def test_an_error_while_closing_leaves_no_thread(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """R16: the thread was left running."""

    close = client._client.__aexit__

    async def broken(*args: Any) -> None:
        await close(*args)
        raise OSError("broken")

    monkeypatch.setattr(client._client, "__aexit__", broken)
    with pytest.raises(OSError, match="broken"):
        client.close()
    assert not client._thread.is_alive()
