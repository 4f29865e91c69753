"""`kubectl dijob` in a test's namespace, with the exit code that it ends with."""

import os
import subprocess
import sys

from archives import ROOT
from space import Space


def asked(space: Space, *words: str, kubeconfig: str = "") -> tuple[int, str]:
    """Its exit code, and all that it has said."""
    name, *rest = words
    where = ("-n", space.name, "--kubeconfig", kubeconfig or str(space.cluster.kubeconfig))
    argv = [sys.executable, "-m", "dijob.cli.main", name, *where, *rest]
    env = {**os.environ, "PYTHONPATH": str(ROOT / "operator")}
    done = subprocess.run(argv, capture_output=True, text=True, timeout=180, env=env)
    return done.returncode, done.stdout + done.stderr
