"""The probe that runs inside a pod, and its answer.

The program is passed to the container's Python through exec, so nothing has to be installed or
mounted. It needs only Python 3.6 or newer, and its standard library.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from pydantic import BaseModel, Field, FiniteFloat, ValidationError

# The argument is JSON: names to resolve, and [host, port] pairs to connect to. A connection that is
# closed immediately does not disturb a listening NNG socket. The launcher's reach/reach.go also
# closes its connections immediately.
PROGRAM: Final = r"""
import hashlib, json, os, socket, struct, subprocess, sys, threading, time
asked = json.loads(sys.argv[1])
told = {"time": time.time(), "reach": []}
told["names"] = {name: "no answer in time" for name in asked["names"]}

def text(path):
    try:
        return open(path, "rb").read(1 << 20).decode("utf-8", "replace")
    except OSError:
        return ""

# The user's processes: all except doctor's own and the launcher, which is the first process.
programs = []
for pid in sorted(map(int, filter(str.isdigit, os.listdir("/proc")))):
    words = text("/proc/%d/cmdline" % pid).split("\0")[:-1]
    first = bool(words) and "/run/dijob/bin/" in words[0]
    if words and pid != os.getpid() and not first and "dijob doctor" not in words:
        programs.append((pid, words))
pid, words = programs[0] if programs else (1, [])
told["command"] = words[:64]
pairs = (one.partition("=") for one in text("/proc/%d/environ" % pid).split("\0"))
env = {name: value for name, _, value in pairs}
wanted = ("proxy", "socket_ifname")
told["env"] = {k: v for k, v in env.items() if k.lower().endswith(wanted)}
told["interfaces"] = sorted(os.listdir("/sys/class/net")) if os.path.isdir("/sys/class/net") else []
try:
    disk = os.statvfs("/dev/shm")
    told["shm"] = [disk.f_blocks * disk.f_frsize, disk.f_bavail * disk.f_frsize]
except OSError:
    told["shm"] = None
try:
    told["list"] = json.loads(text("/run/dijob/topology.json"))["listNumber"]
except (ValueError, KeyError):
    told["list"] = None

# The source is the script on the command line, or the package that is passed to ditask.
def sources():
    cwd = "/proc/%d/cwd" % pid
    for at, word in enumerate(words):
        path = os.path.join(cwd, word.partition("=")[2] if word.startswith("--package=") else word)
        named = at and words[at - 1] in ("--package", "-p") or word.startswith("--package=")
        if word.endswith(".py") and os.path.isfile(path):
            yield path
        elif named and os.path.isdir(path) and os.access(path, os.R_OK):
            for name in sorted(os.listdir(path))[:200]:
                if name.endswith(".py"):
                    yield os.path.join(path, name)
digest, count, barrier = hashlib.sha256(), 0, False
for path in sources():
    body = text(path)
    digest.update(body.encode())
    count, barrier = count + 1, barrier or "barrier" in body.lower()
told["source"] = [count, digest.hexdigest()[:12] if count else "", barrier]

# The program may use a different Python than this probe, such as that of a virtual environment.
python = sys.executable
for _, each in programs:
    name = os.path.basename(each[0])
    if name.startswith("python") and os.path.isabs(each[0]) and os.access(each[0], os.X_OK):
        python = each[0]
        break
versions = '''
import json, sys
found = {"python": "%d.%d.%d" % sys.version_info[:3]}
try:
    from importlib.metadata import version
except ImportError:
    version = lambda name: __import__("pkg_resources").get_distribution(name).version
for name in ("DI-engine", "torch", "redis", "pynng"):
    try:
        found[name] = version(name)
    except Exception:
        pass
print(json.dumps(found))
'''
try:
    said = subprocess.check_output([python, "-c", versions], stderr=subprocess.DEVNULL, timeout=10)
    told["versions"] = json.loads(said.decode())
except (OSError, ValueError, subprocess.SubprocessError):
    told["versions"] = {}

def resolve(name):
    try:
        found = {one[4][0] for one in socket.getaddrinfo(name, None, type=socket.SOCK_STREAM)}
        told["names"][name] = sorted(found)
    except OSError as error:
        told["names"][name] = str(error)

def reach(host, port):
    try:
        link = socket.create_connection((host, port), 3)
        # With a linger time of 0, close() resets the connection and leaves no socket behind.
        link.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        link.close()
        said = ""
    except socket.timeout:
        said = "timed out"
    except ConnectionRefusedError:
        said = "refused"
    except OSError as error:
        said = error.strerror or str(error)
    told["reach"].append([host, port, said])

threads = [threading.Thread(target=resolve, args=(name,), daemon=True) for name in asked["names"]]
threads += [threading.Thread(target=reach, args=pair, daemon=True) for pair in asked["reach"]]
for thread in threads:
    thread.start()
# This is well below the time limit of the exec, so that partial results arrive.
end = time.time() + 8
for thread in threads:
    thread.join(max(0, end - time.time()))
print(json.dumps(told))
"""
# A limit on the targets of one probe. Each target takes a thread and a socket in the pod.
MOST_TARGETS: Final = 256


@dataclass(frozen=True)
class Probe:
    """The response from a rank's container. If there is none, only `problem` is set."""

    problem: str = ""
    time: float = 0.0
    """The container's clock, in seconds since 1970."""
    asked: tuple[float, float] = (0.0, 0.0)
    """When the probe began and ended, by the local clock."""
    command: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    interfaces: tuple[str, ...] = ()
    shm: tuple[int, int] | None = None
    """Size and free space of /dev/shm, in bytes."""
    list_number: int | None = None
    files: int = 0
    digest: str = ""
    barrier: bool = False
    """Whether the source contains the word "barrier"."""
    versions: Mapping[str, str] = field(default_factory=dict)
    names: Mapping[str, tuple[str, ...] | str] = field(default_factory=dict)
    """The addresses of each name, or the error."""
    reach: Mapping[tuple[str, int], str] = field(default_factory=dict)
    """The error for each address and port; "" for success."""


def build_command(names: list[str], targets: list[tuple[str, int]]) -> tuple[tuple[str, ...], ...]:
    """Return the alternative commands that run the probe.

    The last argument marks the probe's own process, so that the probe does not report itself.
    """
    request = json.dumps({"names": names, "reach": targets[:MOST_TARGETS]})
    return tuple(
        (python, "-c", PROGRAM, request, "dijob doctor") for python in ("python3", "python")
    )


class _Answer(BaseModel):
    """The output of the probe. The container's Python belongs to the tenant, so the output is
    untrusted and is validated.
    """

    time: FiniteFloat
    command: tuple[str, ...]
    env: dict[str, str]
    interfaces: tuple[str, ...]
    shm: tuple[int, int] | None
    list_number: int | None = Field(alias="list")
    source: tuple[int, str, bool]
    versions: dict[str, str]
    names: dict[str, tuple[str, ...] | str]
    reach: tuple[tuple[str, int, str], ...]


def parse_answer(text: str, asked: tuple[float, float]) -> Probe:
    """Parse an answer. An invalid answer becomes a Probe with a `problem`."""
    try:
        # Only the last line is parsed: a sitecustomize of the image may print other lines first.
        answer = _Answer.model_validate_json((text.splitlines() or [""])[-1])
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join(map(str, first["loc"]))
        at = f"{where}: " if where else ""
        return Probe(problem=f"invalid answer from the probe: {at}{first['msg']}")
    files, digest, barrier = answer.source
    return Probe(
        time=answer.time,
        asked=asked,
        command=answer.command,
        env=answer.env,
        interfaces=answer.interfaces,
        shm=answer.shm,
        list_number=answer.list_number,
        files=files,
        digest=digest,
        barrier=barrier,
        versions=answer.versions,
        names=answer.names,
        reach={(host, port): error for host, port, error in answer.reach},
    )
