"""Runs the operator, and writes its asyncio tasks to a file on SIGUSR1: python -m faults.lab.tasks
FILE dijob ARGS.
"""

import asyncio
import json
import os
import runpy
import signal
import sys
from collections import Counter
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

_run = asyncio.run


def _names() -> Counter[str]:
    coroutines = (task.get_coro() for task in asyncio.all_tasks())
    return Counter(getattr(one, "__qualname__", "") for one in coroutines)


def _write(file: Path) -> None:
    """Write the file atomically, because a reader waits for it."""
    new = file.with_suffix(".new")
    new.write_text(json.dumps({"pid": os.getpid(), "tasks": _names()}))
    new.replace(file)


def _listening(file: Path, main: Coroutine[Any, Any, Any], **settings: Any) -> Any:
    async def listens() -> Any:
        asyncio.get_running_loop().add_signal_handler(signal.SIGUSR1, _write, file)
        return await main

    return _run(listens(), **settings)


if __name__ == "__main__":
    _, path, module, *arguments = sys.argv
    asyncio.run = lambda main, **settings: _listening(Path(path), main, **settings)
    sys.argv = [module, *arguments]
    runpy.run_module(module, run_name="__main__", alter_sys=True)
