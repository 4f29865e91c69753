"""Helpers for tests of `dijob local`: files of jobs, its process, and processes left behind."""

import subprocess
from pathlib import Path
from typing import Any

import yaml
from manifests import dijob

ROOT = Path(__file__).parents[3]
MARKED = "TEST_OF_LOCAL"


def script(name: str, text: str, **more: Any) -> str:
    """Return the YAML of a job that runs a Python program from a ConfigMap."""
    main = {
        "image": "none",
        "command": ["python3", "main.py"],
        "workingDir": "/code",
        "volumeMounts": [{"name": "code", "mountPath": "/code"}],
    }
    pod = {"volumes": [{"name": "code", "configMap": {"name": "code"}}]}
    config = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "code"}}
    body = dijob(name, main, pod, **{"replicas": 2, **more})
    return yaml.safe_dump_all([body, {**config, "data": {"main.py": text}}])


def alive(mark: Path) -> list[str]:
    """Return the processes of a test's runs."""
    wanted, found = f"{MARKED}={mark}".encode(), []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if wanted in (folder / "environ").read_bytes().split(b"\0"):
                found.append((folder / "cmdline").read_text().replace("\0", " "))
        except OSError:
            continue
    return found


def finished(process: subprocess.Popen[str]) -> tuple[int, str, str]:
    out, err = process.communicate(timeout=300)  # a run that hangs fails after this time
    return process.returncode, out, err
