"""Runs `kubectl dijob` in a test's namespace, and returns its exit code and output."""

import json
import os
import subprocess
import sys
from collections.abc import Mapping

from archives import ROOT
from space import Body, Space

# Maps a job and a check of doctor to parts of the expected finding and remedy.
Wanted = Mapping[tuple[str, str], tuple[str, str]]


def asked(space: Space, *words: str, kubeconfig: str = "") -> tuple[int, str]:
    """Return the exit code, and the output including stderr."""
    name, *rest = words
    where = ("-n", space.name, "--kubeconfig", kubeconfig or str(space.cluster.kubeconfig))
    argv = [sys.executable, "-m", "dijob.cli.main", name, *where, *rest]
    env = {**os.environ, "PYTHONPATH": str(ROOT / "operator")}
    done = subprocess.run(argv, capture_output=True, text=True, timeout=180, env=env)
    return done.returncode, done.stdout + done.stderr


def doctored(space: Space, name: str) -> tuple[int, list[Body]]:
    code, told = asked(space, "doctor", name, "-o", "json")
    assert told.startswith("{"), told
    return code, json.loads(told)["checks"]


def unfound(space: Space, name: str, wanted: Wanted) -> str:
    """Return the wanted findings of this job that doctor does not report yet."""
    code, checks = doctored(space, name)
    found = [
        (one["check"], one["finding"], one["remedy"])
        for one in checks
        if one["verdict"] == "problem"
    ]
    left = {
        check: (finding, remedy)
        for (of, check), (finding, remedy) in wanted.items()
        if of == name and not any(check == c and finding in f and remedy in r for c, f, r in found)
    }
    return f"{code}: not found: {left} in {found}" if left or code != 1 else ""
