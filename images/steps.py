"""Runs the commands of an image's build: progress, log, a sandbox that dies with it, the machine's
settings for pip.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

# Everything a build starts dies with this program, and its mounts with it: both live in namespaces
# of their own.
SANDBOX = [
    "setpriv",
    "--pdeathsig",
    "KILL",
    "unshare",
    "--mount",
    "--pid",
    "--fork",
    "--kill-child",
    "--mount-proc",
]
PIP_KEYS = {"index-url", "extra-index-url", "trusted-host", "timeout"}
CERTIFICATES = ("PIP_CERT", "REQUESTS_CA_BUNDLE", "SSL_CERT_FILE")


class BuildError(Exception):
    """What is wrong and what the user can do about it."""


def say(text: str) -> None:
    """Progress goes to stderr: stdout carries what --print prints."""
    print(f"==> images: {text}", file=sys.stderr, flush=True)


def quiet(*command: str) -> subprocess.CompletedProcess[str]:
    """Run and keep what it said; a command that hangs counts as failed after 2 minutes."""
    try:
        return subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    except subprocess.TimeoutExpired:
        return subprocess.CompletedProcess(command, 1, "", "no answer in 120 s")


@dataclass(frozen=True)
class Step:
    """Runs commands of one build: output to a log, progress to the terminal, nothing left running
    after it.
    """

    name: str
    expected: int
    started: float
    log: Path

    def run(self, *command: str) -> None:
        """Run to the end; raise BuildError with the last lines of the log when the command
        fails.
        """
        with self.log.open("ab") as log:
            process = subprocess.Popen(
                command, stdout=log, stderr=log, stdin=subprocess.DEVNULL, start_new_session=True
            )
            try:
                while process.poll() is None:
                    try:
                        process.wait(timeout=15)
                    except subprocess.TimeoutExpired:
                        self._progress()
            finally:
                process.kill()
                process.wait()
        if process.returncode:
            tail = "\n".join(self.log.read_text(errors="replace").splitlines()[-30:])
            raise BuildError(
                f"{self.name} failed ({process.returncode}) in: {' '.join(command)}\n{tail}\nlog:"
                f" {self.log}"
            )

    def _progress(self) -> None:
        lines = self.log.read_text(errors="replace").splitlines()
        elapsed = time.monotonic() - self.started
        say(
            f"{self.name} {elapsed:.0f} s of about {self.expected} s:"
            f" {lines[-1].strip()[:90] if lines else ''}"
        )


def pip_secrets(work: Path) -> list[str]:
    """The machine's certificates and index for pip, mounted for the build and in no layer: --secret
    arguments.
    """
    bundles = (os.environ.get(name) for name in CERTIFICATES)
    bundle = next(
        (b for b in bundles if b and Path(b).is_file()), "/etc/ssl/certs/ca-certificates.crt"
    )
    settings = {}
    for line in quiet(sys.executable, "-m", "pip", "config", "list").stdout.splitlines():
        key, _, value = line.partition("=")
        settings[key.rpartition(".")[2]] = value.strip("'\"")
    lines = [f"{key} = {value}" for key, value in settings.items() if key in PIP_KEYS]
    secrets = []
    if Path(bundle).is_file():
        lines.append("cert = /run/ca.crt")
        secrets += ["--secret", f"id=ca,src={bundle}"]
    config = work / "pip.conf"
    config.write_text("\n".join(["[global]", *lines, ""]))
    return [*secrets, "--secret", f"id=pip,src={config}"]
