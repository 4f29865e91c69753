"""Draws a flame graph of the operator while many jobs start: PYSPY=py-spy python bench/flames.py
OUT.svg.

py-spy reads the stacks of another process, so it needs root or the permission to trace. It is not
a dependency of this project: `pip install py-spy` in any venv.
"""

import argparse
import asyncio
import os
import re
import signal
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from changes import start_jobs
from faults.lab.kube import Access, Kube, make_namespace
from faults.lab.running import Operator
from measured import Shape
from place import LIMIT_SECONDS, clear, own_plane, until_listed, until_served

# The variable that names py-spy's program.
PYSPY = "PYSPY"
RATE = 200  # samples per second


@asynccontextmanager
async def recorded(pid: int, out: Path) -> AsyncIterator[None]:
    """Record the stacks of a process, by function, while the context is open. Samples in which the
    process waits are not recorded.
    """
    process = await asyncio.create_subprocess_exec(
        *(os.environ.get(PYSPY, "py-spy"), "record", "--pid", str(pid), "--nonblocking"),
        *("--function", "--rate", str(RATE), "--duration", str(LIMIT_SECONDS)),
        *("--format", "flamegraph", "--output", str(out)),
        stdout=asyncio.subprocess.DEVNULL,
    )
    try:
        yield
    finally:
        # SIGINT ends the recording, and py-spy writes its output.
        process.send_signal(signal.SIGINT)
        await process.wait()


async def draw(kubeconfig: Path, shape: Shape, addressing: str, out: Path) -> None:
    """Record one start of jobs, with an operator that is started only for it."""
    namespace = f"flames-{int(time.time())}"
    log = Path(tempfile.gettempdir()) / f"{namespace}.log"
    async with Kube(Access.of(kubeconfig)) as kube, Operator(kubeconfig, log) as operator:
        await until_served(kube)
        await make_namespace(kube, namespace)
        await until_listed(operator)
        async with recorded(operator.pid, out):
            starting = start_jobs(kube, namespace, shape, addressing=addressing)
            await asyncio.wait_for(starting, LIMIT_SECONDS)
        await operator.kill()
        await clear(kube, namespace)
    log.unlink()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path, help="the SVG")
    parser.add_argument("--shape", type=Shape.parse, default=Shape(100, 4), help="JOBSxRANKS")
    parser.add_argument("--addressing", default="IP", help="IP or Hostname")
    given = parser.parse_args()
    with own_plane() as cluster:
        asyncio.run(draw(cluster.kubeconfig, given.shape, given.addressing, given.out))
    # py-spy's title is its own command line.
    title = f"The operator's CPU while {given.shape} start, {given.addressing}"
    given.out.write_text(re.sub(r">[^<>]*py-spy record[^<]*", f">{title}", given.out.read_text()))


if __name__ == "__main__":
    main()
