"""Ctrl-C in a loop over what the client without `async` gives is Ctrl-C, and nothing else."""

import asyncio
import signal
import threading
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest
import yaml
from dijob.client import Client

KUBECONFIG = {
    "clusters": [{"name": "c", "cluster": {"server": "http://127.0.0.1:1"}}],
    "contexts": [{"name": "c", "context": {"cluster": "c", "user": "c"}}],
    "users": [{"name": "c", "user": {}}],
    "current-context": "c",
}


def test_ctrl_c_while_the_next_line_is_waited_for(tmp_path: Path) -> None:
    waits = threading.Event()
    closed = []

    async def lines() -> AsyncGenerator[str]:
        try:
            waits.set()
            await asyncio.Event().wait()
            yield "never"
        finally:
            closed.append(True)

    def interrupt() -> None:
        waits.wait()
        signal.pthread_kill(main, signal.SIGINT)

    main = threading.get_ident()
    file = tmp_path / "kubeconfig"
    file.write_text(yaml.safe_dump(KUBECONFIG))
    with Client(str(file)) as client:
        threading.Thread(target=interrupt, daemon=True).start()
        with pytest.raises(KeyboardInterrupt):
            next(client._each(lines()))
    assert closed
