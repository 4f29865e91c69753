"""What is to be started for each rank: its words, variables and working directory."""

import os
import socket
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from dijob.api.model import DIJob
from dijob.cli.errors import CliError, Exit
from dijob.cli.explain.environment import Place, Process, process
from dijob.cli.files import File
from dijob.cli.local import hook, volumes
from dijob.core.addresses import AddressList
from dijob.core.members import Gang, gang_of
from dijob.core.options import Options
from dijob.names import Queue

# Marks every process of a run, so that none is left behind.
MARK = "DIJOB_LOCAL_RUN"


@dataclass(frozen=True)
class Start:
    """One rank's program. `title` is how its lines are marked."""

    rank: int
    title: str
    name: str
    words: tuple[str, ...]
    env: Mapping[str, str]
    folder: Path


@dataclass(frozen=True)
class Request:
    """What is to be run: a job and its file, an address for each rank, a folder for what is written
    on the way, folders for volumes of a cluster, and the mark."""

    job: DIJob
    file: File
    addresses: tuple[str, ...]
    work: Path
    folders: Mapping[str, Path] = field(default_factory=dict)
    mark: str = ""
    redis: str = ""


def refusals(job: DIJob) -> list[str]:
    """Why a job cannot run here, in sentences."""
    said = "the image's own entry point is not here to be run: say command in the main container"
    silent = (one.path for one in job.pod_sets if not one.main_container.get("command"))
    found = [f"{path}: {said}" for path in silent]
    if job.spec.suspend:
        found.append("spec.suspend is true: such a job has no pods")
    if str(job.queue).startswith(Queue.TORCHRPC) and any(
        p.command.runs_ditask for p in job.pod_sets
    ):
        found.append(
            "ditask learns torchrpc from the launcher in a pod: write python -m"
            " dijob_runtime.ditask instead of ditask"
        )
    return found


def remarks(job: DIJob) -> list[str]:
    """What of a job is not done here, in sentences."""
    found = []
    for pod_set in job.pod_sets:
        others = [str(c.get("name")) for c in pod_set.pod.get("initContainers") or ()]
        others += [
            str(c.get("name"))
            for c in pod_set.pod.get("containers") or ()
            if c is not pod_set.main_container
        ]
        if others:
            found.append(f"{pod_set.path}: of {', '.join(others)} nothing is run")
    return found


def starts(request: Request) -> tuple[Start, ...]:
    """What is started, in rank order. Folders and files are made on the way. CliError (USAGE) for
    what only a cluster has."""
    gang = gang_of(request.job)
    texts = (gang.address(rank, ip) for rank, ip in enumerate(request.addresses))
    listed = AddressList(1, ",".join(texts))
    return tuple(_start(request, gang, rank, listed) for rank in range(gang.size))


def _start(request: Request, gang: Gang, rank: int, listed: AddressList) -> Start:
    member, job = gang.member(rank), request.job
    node = socket.gethostname()
    place = Place(member, request.addresses[rank], listed, node, lookup=_lookup(request.file))
    seen = process(job, place, Options())
    pod_set = job.pod_set_of(rank)
    wanted = list(volumes.mounts(pod_set.pod, pod_set.main_container, list(job.spec.volumes or ())))
    own = request.work / member.name
    paths = volumes.prepared(own, wanted, request.file, request.folders)
    env = {name: paths.translated(value) for name, value in _known(seen, request).items()}
    title = member.name.removeprefix(f"{gang.job}-") if gang.tasks else f"rank {rank}"
    return Start(
        rank,
        title,
        member.name,
        words=tuple(paths.translated(word) for word in seen.command),
        env={**_machines(), **env, **_python(env), MARK: f"{request.mark}-{rank}."},
        folder=_working(pod_set.main_container, paths, own),
    )


def _known(seen: Process, request: Request) -> dict[str, str]:
    """The variables that have a value here."""
    for one in seen.variables:
        if one.value is None and not one.optional:
            raise CliError(
                f"variable {one.name} is {one.unknown}, which is not in {request.file.name}: put it"
                " into the file, or give the variable a value.",
                Exit.USAGE,
            )
    found = {one.name: one.value for one in seen.variables if one.value is not None}
    if request.redis:
        found["DI_REDIS_HOST"] = request.redis
    return found


def _machines() -> dict[str, str]:
    """This machine's variables, without those of a job that it may be in itself. torchrun's PET_
    stay, as an image's do: they are settings too."""
    ours = ("DI_", "DIJOB_", "SLURM")
    return {name: value for name, value in os.environ.items() if not name.startswith(ours)}


def _python(env: Mapping[str, str]) -> dict[str, str]:
    """PYTHONPATH as the launcher makes it."""
    if (before := env.get("PYTHONPATH")) is None:
        # This machine's is meant from where the user stands.
        given = filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))
        before = os.pathsep.join(map(os.path.abspath, given))
    return {"PYTHONPATH": os.pathsep.join([*map(str, hook.folders()), *filter(None, [before])])}


def _working(main: Mapping[str, Any], paths: volumes.Paths, own: Path) -> Path:
    """Where the program starts: without a word on it, where the user stands. A folder that is
    nowhere is made, as a container's would be."""
    given = str(main.get("workingDir") or "")
    if not given.startswith("/"):
        return Path.cwd()
    if found := paths.folder(given):
        return found
    made = own / "root" / given.lstrip("/")
    made.mkdir(parents=True, exist_ok=True)
    return made


def _lookup(file: File) -> Any:
    """Looks up keys of the file's ConfigMaps and Secrets; all names of them where the key is ""."""

    def one(kind: str, name: str, key: str) -> str | None:
        body = file.of_kind(kind).get(name)
        if body is None:
            return None
        keys = volumes.contents(body)
        if not key:
            return "\n".join(keys)
        return keys[key].decode(errors="replace") if key in keys else None

    return one
