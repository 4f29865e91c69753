"""Finds the experiment folder and the checkpoints from which a restarted training run resumes.

DI-engine creates a new folder if the experiment's folder exists, so a restarted program would train
from the beginning. A run resumes from a folder only if the folder is on a volume and if this rank
of this job created it with the same configuration. A file in the folder records this. Without this
record, two ranks on a shared volume would write to one folder, and a changed configuration would
continue with the optimizer of the old configuration.

This module decides. It imports neither DI-engine nor torch; hook/resume.py applies the decision.
"""

from __future__ import annotations

import fcntl
import glob
import hashlib
import json
import os
import re
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from dijob_runtime.world import FOLDER

VARIABLE = "DIJOB_RESUME"
OFF = "off"
ALWAYS = "always"
RECORD = ".dijob.json"
# A timestamp such as _250131_235959. If the folder `exp_name` already exists, DI-engine creates a
# folder whose name is `exp_name` followed by this timestamp (ding 0.5.3, ding/config/config.py).
TIMESTAMP = re.compile(r"_\d{6}_\d{6}")
# The learner's checkpoint folder (ding/worker/learner/learner_hook.py, SaveCkptHook).
CHECKPOINTS = "ckpt/*.pth.tar"
# Settings that may differ between two runs of the same training: length, evaluation, intervals of
# logging and saving, and the sizes that to_ddp_config computes from the number of processes.
MAY_CHANGE = frozenset(
    {
        "exp_name",
        "stop_value",
        "n_evaluator_episode",
        "evaluator_env_num",
        "collector_env_num",
        "batch_size",
        "n_sample",
        "n_episode",
        "hook",
        "eval",
        "manager",
    }
)
# repr() of a function or an object contains its address.
ADDRESS = re.compile(r" at 0x[0-9a-f]+")

# The open lock files of this process. A lock is released when its file is closed.
_locks: dict[str, int] = {}


def find_mount(folder: Path, mounts: str) -> str | None:
    """Return the mount point that contains a folder, or None if the folder is on the root file
    system.

    `mounts` is the content of /proc/self/mountinfo. A file at any depth below a mount point exists
    as long as the volume does. The container's root file system is lost with each restart.
    """
    path = os.path.realpath(folder)
    points = (_unescape_path(line.split()[4]) for line in mounts.splitlines() if line.strip())
    above = [point for point in points if path == point or path.startswith(point.rstrip("/") + "/")]
    found = max(above, key=len, default="/")
    return None if found == "/" else found


def describe_run(config: Any, create_config: Any, seed: Any, env: Mapping[str, str]) -> Any:
    """Return the record of a run: its job, its rank, and a digest of its configuration."""
    text = "\n".join([*_flatten("main", config), *_flatten("create", create_config), repr(seed)])
    return {
        "job": f"{env.get('DI_JOB_NAMESPACE', '')}/{env.get('DI_JOB_NAME', '')}",
        "rank": env.get("DI_RANK", ""),
        "config": hashlib.sha256(ADDRESS.sub("", text).encode("utf-8", "replace")).hexdigest(),
    }


def find_folder(name: str, record: Any, any_record: bool) -> str | None:
    """Return an experiment's newest folder that has this record and that no other process is
    using. If `any_record` is true, the folder with the experiment's own name needs no record.
    """
    name = name.rstrip("/")
    path = Path(name)
    versions = sorted(
        each
        for each in path.parent.glob(f"{glob.escape(path.name)}_*")
        if TIMESTAMP.fullmatch(each.name[len(path.name) :])
    )
    for each in reversed([path, *versions]):
        matches = read_record(each) == record or (any_record and each == path and each.is_dir())
        if matches and lock_folder(each):
            return name + each.name[len(path.name) :]
    return None


def read_record(folder: Path) -> Any:
    """Return the record in a folder, or None if the folder has no readable one."""
    try:
        return json.loads((folder / RECORD).read_text())
    except (OSError, ValueError, RecursionError):
        return None


def write_record(folder: Path, record: Any) -> None:
    """Write the record of a run into its folder, unless the folder already has it.

    If the volume is full, the folder keeps its previous record. Raises OSError.
    """
    if read_record(folder) == record:
        return
    new = folder / f"{RECORD}.new"
    try:
        new.write_text(json.dumps(record) + "\n")
        os.replace(new, folder / RECORD)
    except OSError:
        with suppress(OSError):
            new.unlink()
        raise


def lock_folder(folder: Path) -> bool:
    """Reserve a folder for this process. Return False if a process of this pod has already reserved
    it.

    The lock files are in the pod and not on the volume, because a storage server keeps the locks of
    a lost node for minutes.
    """
    key = hashlib.sha256(os.path.realpath(folder).encode()).hexdigest()[:16]
    if key in _locks:
        return False
    directory = FOLDER if os.access(FOLDER, os.W_OK) else Path(tempfile.gettempdir())
    try:
        descriptor = os.open(directory / f"resume-{key}", os.O_RDWR | os.O_CREAT, 0o666)
    except OSError:  # for example, another user has created the file
        return True
    try:
        # Unlike a flock() lock, this lock is not inherited by child processes.
        fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        return False
    _locks[key] = descriptor
    return True


def list_checkpoints(folder: str) -> list[Path]:
    """Return the checkpoints in a folder, the newest first."""

    def age(path: Path) -> tuple[int, int]:
        number = re.search(r"iteration_(\d{1,15})", path.name)
        return path.stat().st_mtime_ns, int(number[1]) if number else -1

    # The target of a link may no longer exist.
    found = [path for path in Path(folder).glob(CHECKPOINTS) if path.is_file()]
    return sorted(found, key=age, reverse=True)


def _flatten(path: str, value: Any) -> Iterator[str]:
    """Yield a line for each setting that must stay the same, sorted by name."""
    if isinstance(value, Mapping):
        for key in sorted(value, key=str):
            if key not in MAY_CHANGE:
                yield from _flatten(f"{path}.{key}", value[key])
    else:
        yield f"{path}={value!r}"


def _unescape_path(text: str) -> str:
    r"""Return a path of mountinfo with its escapes decoded; for example, \040 is a space."""
    return re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), text)
