"""Starts programs that outlive this one, records them by pid and start time, and ends only these
programs.
"""

import contextlib
import json
import os
import signal
import subprocess
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from cluster.errors import ClusterError
from cluster.waiting import until

# An environment variable with the state directory. All programs of the cluster and their shims
# inherit this variable. If a command is killed before it has recorded a program that it
# started, this variable identifies the program.
MARK = "DIJOB_CLUSTER_STATE"
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


@dataclass(frozen=True)
class Process:
    """A started program, with enough data to distinguish it from a later process with the same pid,
    and to restart it.
    """

    name: str
    argv: tuple[str, ...]
    pid: int
    start: int  # clock ticks since boot, from /proc/PID/stat

    @property
    def alive(self) -> bool:
        return start_time(self.pid) == self.start


def start_time(pid: int) -> int | None:
    """Return a process's start time in clock ticks since boot; None if it is gone or a zombie."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    fields = stat.rpartition(")")[2].split()  # the name before it may contain spaces and brackets
    return None if fields[0] in "ZX" else int(fields[19])


def spawn(state: Path, name: str, argv: Sequence[str], owner: Path | None = None) -> Process:
    """Start a program in its own session with its output in STATE/logs/NAME.log, and record it in
    STATE/processes.

    `owner` is the value of the mark: STATE, or a node's folder below it.
    """
    log = state / "logs" / f"{name}.log"
    record = state / "processes" / f"{name}.json"
    for directory in (log.parent, record.parent):
        directory.mkdir(parents=True, exist_ok=True)
    # The shell in between ends at once, so that init becomes the parent and reaps the program.
    env = {"PATH": PATH, "HOME": str(state), MARK: str(owner or state)}
    script = 'log=$1; shift; "$@" >>"$log" 2>&1 </dev/null & echo $!'
    done = subprocess.run(
        ["/bin/sh", "-c", script, "sh", str(log), *argv],
        env=env,
        start_new_session=True,
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    pid = int(done.stdout)
    process = Process(name, tuple(argv), pid, start_time(pid) or 0)
    record.write_text(json.dumps(asdict(process)))
    return process


def recorded(state: Path) -> dict[str, Process]:
    """Return every recorded program of the cluster by name, running or not."""
    found: dict[str, Process] = {}
    for path in sorted((state / "processes").glob("*.json")):
        # A kill may have truncated the record. The program can still be found by MARK.
        with contextlib.suppress(ValueError, FileNotFoundError):
            fields = json.loads(path.read_text())
            found[path.stem] = Process(**{**fields, "argv": tuple(fields["argv"])})
    return found


def require(state: Path, name: str) -> Process:
    """Return the running program with this name."""
    process = recorded(state).get(name)
    if process is None or not process.alive:
        raise ClusterError(
            f"{name} is not running; see {state}/logs/{name}.log, then run: python -m cluster up"
        )
    return process


def log_tail(state: Path, name: str, lines: int = 8) -> str:
    """Return the last lines of a program's log, for use in error messages."""
    try:
        text = (state / "logs" / f"{name}.log").read_text(errors="replace")
    except OSError:
        return "(no log)"
    return "\n".join(text.splitlines()[-lines:])


def stop(process: Process, sig: signal.Signals = signal.SIGKILL, timeout: float = 20) -> None:
    """Send a signal to a program if it is still running, and wait for it to end."""
    if process.alive:
        with contextlib.suppress(ProcessLookupError):
            os.kill(process.pid, sig)
        until(
            f"end of {process.name}",
            lambda: f"pid {process.pid} lives" if process.alive else "",
            timeout,
        )


def marked(owner: Path) -> set[int]:
    """Return the pids of all processes that were started for the folder `owner`, or for a
    folder below it.
    """
    mark = f"{MARK}={owner}".encode()
    found = set()
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                variables = (entry / "environ").read_bytes().split(b"\0")
                if any(value == mark or value.startswith(mark + b"/") for value in variables):
                    found.add(int(entry.name))
    return {pid for pid in found if pid != os.getpid() and start_time(pid) is not None}


def kill_all(pids: Iterable[int]) -> None:
    """Send SIGKILL to these pids; they may have ended already."""
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
