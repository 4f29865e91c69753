"""Runs the program that plays the launchers of simulated pods (launchers/main.go)."""

import asyncio
import base64
import os
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import yaml
from cluster.go_program import build_program

SOURCES = Path(__file__).parent / "launchers"


@asynccontextmanager
async def play_launchers(kubeconfig: Path, namespace: str) -> AsyncIterator[None]:
    """Play the launchers of the pods of a namespace. Its CPU time is not measured: on real nodes,
    the launchers run in the pods.
    """
    program = await asyncio.to_thread(build_program, SOURCES, "launchers")
    there, user = _credentials(kubeconfig)
    with tempfile.NamedTemporaryFile() as authority:
        authority.write(base64.b64decode(there["certificate-authority-data"]))
        authority.flush()
        process = await asyncio.create_subprocess_exec(
            *(str(program), "-server", there["server"], "-ca", authority.name),
            *("-namespace", namespace),
            env={**os.environ, "TOKEN": user["token"]},
            stdout=asyncio.subprocess.PIPE,
        )
        try:
            assert process.stdout
            assert await process.stdout.readline() == b"watching\n"
            yield
        finally:
            if process.returncode is None:
                process.kill()
            await process.wait()


def _credentials(kubeconfig: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    config = yaml.safe_load(kubeconfig.read_text())
    return config["clusters"][0]["cluster"], config["users"][0]["user"]
