"""Helpers to run commands, to wait for a condition with a timeout, and to print progress."""

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from typing import IO

from cluster.errors import ClusterError
from cluster.waiting import until


def run(
    argv: Sequence[str],
    *,
    stdin: str | IO[bytes] | None = None,
    env: Mapping[str, str] | None = None,
    timeout: float = 120,
) -> str:
    """Run a command and return its standard output. Raise ClusterError with its error output if it
    fails, or runs for more than `timeout` seconds.
    """
    if isinstance(stdin, str):
        with tempfile.TemporaryFile() as file:
            file.write(stdin.encode())
            file.seek(0)
            return run(argv, stdin=file, env=env, timeout=timeout)
    try:
        done = subprocess.run(
            argv,
            stdin=stdin or subprocess.DEVNULL,
            env=env,
            timeout=timeout,
            capture_output=True,
            check=False,
        )
    except FileNotFoundError as missing:
        raise ClusterError(f"{argv[0]}: program not found; install its package") from missing
    except subprocess.TimeoutExpired as slow:
        raise ClusterError(f"{' '.join(argv)}: still running after {timeout:.0f} s") from slow
    if done.returncode:
        words = (done.stderr or done.stdout).decode(errors="replace").strip()[-2000:]
        raise ClusterError(f"{' '.join(argv)}: exit code {done.returncode}: {words}")
    return done.stdout.decode(errors="replace")


def until_established(kubectl: Callable[..., str], crd: str) -> None:
    """Wait until the API server serves a CRD. (`kubectl wait`, and a jsonpath with a filter, fail
    on a CRD that has no conditions yet.)
    """

    def problem() -> str:
        conditions = (
            json.loads(kubectl("get", "crd", crd, "-o", "json")).get("status", {}).get("conditions")
            or ()
        )
        return (
            ""
            if ("Established", "True") in {(c["type"], c["status"]) for c in conditions}
            else "not yet"
        )

    until(f"{crd} is established", problem, 30)


class Progress:
    """Prints each step with the elapsed seconds and the expected total seconds: `[ 12 s / ~70 s]
    node-1 is Ready`.
    """

    def __init__(self, expected: float, quiet: bool = False) -> None:
        self.started = time.monotonic()
        self.expected = expected
        self.quiet = quiet

    @property
    def elapsed(self) -> float:
        return time.monotonic() - self.started

    def say(self, text: str) -> None:
        if not self.quiet:
            print(
                f"[{self.elapsed:4.0f} s / ~{self.expected:.0f} s] {text}",
                file=sys.stderr,
                flush=True,
            )
