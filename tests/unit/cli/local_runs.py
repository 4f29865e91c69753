"""Jobs that `dijob local` runs in tests: their files, its process, and what that leaves."""

import subprocess
from pathlib import Path
from typing import Any

import yaml
from manifests import dijob

ROOT = Path(__file__).parents[3]
MARKED = "TEST_OF_LOCAL"


def script(name: str, text: str, **more: Any) -> str:
    """The YAML of a job that runs a Python program, which a ConfigMap holds."""
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
    """The processes of a test's runs."""
    wanted, found = f"{MARKED}={mark}".encode(), []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if wanted in (folder / "environ").read_bytes().split(b"\0"):
                found.append((folder / "cmdline").read_text().replace("\0", " "))
        except OSError:
            continue
    return found


def finished(process: subprocess.Popen[str]) -> tuple[int, str, str]:
    out, err = process.communicate(timeout=60)
    return process.returncode, out, err
