"""Runs the commands of an image build, with progress output, a log, a sandbox that ends with the
build, and this machine's settings for pip.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

# All processes and mounts of a build are in their own namespaces, so that they end with this
# program, even if it is killed.
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
    """The message says what is wrong, and what the user can do about it."""


def say(text: str) -> None:
    """Print progress to stderr, because stdout is for the paths of the archives."""
    print(f"==> images: {text}", file=sys.stderr, flush=True)


def quiet(*command: str) -> subprocess.CompletedProcess[str]:
    """Run a command and capture its output. A command that hangs fails after 2 minutes."""
    try:
        return subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    except subprocess.TimeoutExpired:
        return subprocess.CompletedProcess(command, 1, "", "no response within 120 s")


@dataclass(frozen=True)
class Step:
    """Runs the commands of one build, with the output in a log and the progress on the terminal. No
    process outlives the build.
    """

    name: str
    expected: int
    started: float
    log: Path

    def run(self, *command: str) -> None:
        """Run a command to its end; if it fails, raise BuildError with the log's last lines."""
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
    """Return the --secret arguments that mount this machine's certificates and pip settings for the
    build, without leaving them in a layer.
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
