"""Computes the command, the variables and the working directory of each rank.

All of these come from `explain`. It renders the pod with the operator's code, and resolves what the
kubelet and the launcher would set.
"""

import os
import socket
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from dijob.api.model import DIJob
from dijob.cli.errors import CliError, Exit
from dijob.cli.explain.environment import MainProcess, PodPlace, main_process
from dijob.cli.files import JobFile
from dijob.core.addresses import AddressList
from dijob.core.members import Gang, gang_of
from dijob.core.options import Options
from dijob.names import Queue

from dijob_extras.local import volumes

# The Python files of `hook_folders`: the wheel contains copies of them (pyproject.toml,
# force-include), and a checkout has only the originals.
_IN_WHEEL = Path(__file__).parent / "python"
_IN_CHECKOUT = Path(__file__).parents[3] / "images" / "dijob-runtime"
# A variable in the environment of every process of a run. It identifies processes that have left
# their process group, so that they can be killed at the end.
MARK = "DIJOB_LOCAL_RUN"


@dataclass(frozen=True)
class Start:
    """The program of one rank. `title` is the prefix of its output lines."""

    rank: int
    title: str
    name: str
    words: tuple[str, ...]
    env: Mapping[str, str]
    folder: Path


@dataclass(frozen=True)
class Request:
    """A job to run.

    `addresses` has one entry per rank. `work` is a temporary folder, and `folders` replace volumes
    that only a cluster has. `redis` is the address of the job's Redis server.
    """

    job: DIJob
    file: JobFile
    addresses: tuple[str, ...]
    work: Path
    folders: Mapping[str, Path] = field(default_factory=dict)
    mark: str = ""
    redis: str = ""


def find_obstacles(job: DIJob) -> list[str]:
    """Return the reasons why a job cannot run locally."""
    advice = "the image's entry point is not available locally: set command in the main container"
    silent = (one.path for one in job.pod_sets if not one.main_container.get("command"))
    found = [f"{path}: {advice}" for path in silent]
    if job.spec.suspend:
        found.append("spec.suspend is true, so the job has no pods: remove spec.suspend")
    if str(job.queue).startswith(Queue.TORCHRPC) and any(
        p.command.runs_ditask for p in job.pod_sets
    ):
        found.append(
            "ditask supports torchrpc only with a pod's launcher: replace ditask with python -m"
            " dijob_runtime.ditask"
        )
    return found


def describe_omissions(job: DIJob) -> list[str]:
    """Return remarks about the parts of a job that do not run locally."""
    found = []
    for pod_set in job.pod_sets:
        others = [str(c.get("name")) for c in pod_set.pod.get("initContainers") or ()]
        others += [
            str(c.get("name"))
            for c in pod_set.pod.get("containers") or ()
            if c is not pod_set.main_container
        ]
        if others:
            found.append(
                f"{pod_set.path}: containers that are not run locally: {', '.join(others)}"
            )
    if job.spec.stall_seconds is not None:
        found.append("spec.stallSeconds has no effect locally, because there is no operator")
    return found


def plan_starts(request: Request) -> tuple[Start, ...]:
    """Return the programs to start, in rank order, and create their folders and files.

    Raises CliError (USAGE) for volumes and variables that only a cluster has.
    """
    gang = gang_of(request.job)
    texts = (gang.address(rank, ip) for rank, ip in enumerate(request.addresses))
    listed = AddressList(1, ",".join(texts))
    return tuple(_plan_start(request, gang, rank, listed) for rank in range(gang.size))


def _plan_start(request: Request, gang: Gang, rank: int, listed: AddressList) -> Start:
    member, job = gang.member(rank), request.job
    node = socket.gethostname()
    place = PodPlace(
        member, request.addresses[rank], listed, node, lookup=_build_lookup(request.file)
    )
    seen = main_process(job, place, Options())
    pod_set = job.pod_set_of(rank)
    wanted = list(
        volumes.list_mounts(pod_set.pod, pod_set.main_container, list(job.spec.volumes or ()))
    )
    own = request.work / member.name
    paths = volumes.prepare_folders(own, wanted, request.file, request.folders)
    env = {name: paths.translated(value) for name, value in _known_variables(seen, request).items()}
    title = member.name.removeprefix(f"{gang.job}-") if gang.tasks else f"rank {rank}"
    return Start(
        rank,
        title,
        member.name,
        words=tuple(paths.translated(word) for word in seen.command),
        # The job's variables override those of the machine, and the machine's variables take the
        # place of the image's. The mark ends with a dot, so that the mark of rank 1 is not a prefix
        # of the mark of rank 10.
        env={**_machine_variables(), **env, **_python_path(env), MARK: f"{request.mark}-{rank}."},
        folder=_working_folder(pod_set.main_container, paths, own),
    )


def _known_variables(seen: MainProcess, request: Request) -> dict[str, str]:
    """Return the variables that have a value. Raises CliError (USAGE) if a required variable has
    none.
    """
    for one in seen.variables:
        if one.value is None and not one.optional:
            raise CliError(
                f"variable {one.name} is {one.unknown}, which {request.file.name} does not contain:"
                " add the missing object to the file, or give the variable a value",
                Exit.USAGE,
            )
    found = {one.name: one.value for one in seen.variables if one.value is not None}
    if request.redis:
        found["DI_REDIS_HOST"] = request.redis
    return found


def _machine_variables() -> dict[str, str]:
    """Return this machine's variables. If this program runs in a pod of a job, the job's variables
    are left out.

    The PET_ variables of torchrun are kept, because users also set them.
    """
    ours = ("DI_", "DIJOB_", "SLURM")
    return {name: value for name, value in os.environ.items() if not name.startswith(ours)}


def _python_path(env: Mapping[str, str]) -> dict[str, str]:
    """Return PYTHONPATH as the launcher sets it."""
    if (before := env.get("PYTHONPATH")) is None:
        # Relative paths refer to the current directory, but a rank may start in a different one.
        given = filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))
        before = os.pathsep.join(map(os.path.abspath, given))
    return {"PYTHONPATH": os.pathsep.join([*map(str, hook_folders()), *filter(None, [before])])}


def _working_folder(main: Mapping[str, Any], paths: volumes.Paths, own: Path) -> Path:
    """Return the folder in which the program starts: workingDir, else the current directory.

    A container runtime creates a missing workingDir; here it is created in the rank's temporary
    folder.
    """
    given = str(main.get("workingDir") or "")
    if not given.startswith("/"):
        return Path.cwd()
    if found := paths.folder(given):
        return found
    made = own / "root" / given.lstrip("/")
    made.mkdir(parents=True, exist_ok=True)
    return made


def _build_lookup(file: JobFile) -> Any:
    """Return a function that looks up keys of the file's ConfigMaps and Secrets.

    For the key "" it returns the names of all keys, one per line, as `envFrom` needs them.
    """

    def one(kind: str, name: str, key: str) -> str | None:
        body = file.of_kind(kind).get(name)
        if body is None:
            return None
        keys = volumes.decode_contents(body)
        if not key:
            return "\n".join(keys)
        return keys[key].decode(errors="replace") if key in keys else None

    return one


def hook_folders() -> tuple[Path, ...]:
    """Return the folders with the Python files that a pod gets from the launcher's image.

    These files make DI-engine join the job (docs/decisions/027). The first folder contains
    sitecustomize.py.
    """
    if (_IN_WHEEL / "sitecustomize.py").is_file():
        return (_IN_WHEEL,)
    if (_IN_CHECKOUT / "hook" / "sitecustomize.py").is_file():
        return (_IN_CHECKOUT / "hook", _IN_CHECKOUT)
    raise CliError(f"{_IN_WHEEL} is missing: reinstall the package dijob[cli]", Exit.BUG)
