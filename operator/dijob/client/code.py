"""Reads a folder or a file of code, and packs it into the ConfigMaps of a job.

Files of up to 1 MiB in total become the entries of one ConfigMap, and the image needs no program to
unpack them. A larger amount of code becomes a compressed archive in several ConfigMaps, and an init
container unpacks the archive. In both cases, a replacement pod gets the code without access to the
user's machine (docs/decisions/067).
"""

import base64
import gzip
import io
import os
import re
import tarfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Final

from dijob import names
from dijob.client.errors import BadFile

Body = dict[str, Any]

# The working directory of a job with code. It is writable, and contains the code.
WORK: Final = "/work"
WORK_VOLUME: Final = "work"
CODE_VOLUME: Final = "code"
# The init container that unpacks an archive, and the path at which the archive is mounted in it.
UNPACKER: Final = "code"
_ARCHIVE_FOLDER: Final = "/code"
# tar's option `o` makes the container's user the owner of the files.
_UNPACK: Final = f"cat {_ARCHIVE_FOLDER}/part-* | tar xzof - -C {WORK}"
# The apiserver accepts 1 MiB of keys and values. The rest of the object needs space in etcd too.
MOST_BYTES: Final = 2**20 - 2**14
_MOST_FILES: Final = 1000
# The limits of an archive. Kubelets and the apiserver keep ConfigMaps in memory.
MOST_PARTS: Final = 16
MOST_UNPACKED: Final = 2**26
# Folders and files that a program does not need.
IGNORED: Final = ("__pycache__", ".git", ".venv", "venv", "node_modules", ".ipynb_checkpoints")
_IGNORED_SUFFIXES: Final = (".pyc", ".pyo", ".so.dbg")
# All files in an archive get this modification time, so that the same code gives the same
# ConfigMaps.
_EPOCH: Final = 1_700_000_000


@dataclass(frozen=True)
class CodeFile:
    """A file of the code. `path` is relative to the folder, and uses slashes as separators."""

    path: str
    content: bytes
    executable: bool = False

    @property
    def key(self) -> str:
        """The file's key in the ConfigMap. Keys may contain only letters, digits, "-", "_" and
        ".".
        """
        # If characters of the path are replaced, a digest is appended, so that a/b and a__b have
        # different keys.
        plain = re.sub(r"[^-._a-zA-Z0-9]", "_", self.path.replace("/", "__"))
        return plain if plain == self.path else f"{plain[-200:]}.{_hash_text(self.path)}"


@dataclass(frozen=True)
class Code:
    """The files of the code, ordered by path."""

    files: Sequence[CodeFile]

    @property
    def entries(self) -> list[str]:
        """The files and folders at the top level."""
        return list(dict.fromkeys(file.path.split("/")[0] for file in self.files))

    @cached_property
    def parts(self) -> Sequence[bytes]:
        """The parts of the archive. There are none if the files fit into one ConfigMap."""
        # The keys count towards the limit as well, and are about as long as the paths.
        total = sum(len(file.content) + 2 * len(file.path) for file in self.files)
        if total <= MOST_BYTES and len(self.files) <= _MOST_FILES:
            return ()
        packed = _pack_files(self.files)
        return [packed[at : at + MOST_BYTES] for at in range(0, len(packed), MOST_BYTES)]

    def config_maps(self, job: str) -> list[Body]:
        """Return the ConfigMaps of a job. Text files are stored as readable text."""
        if self.parts:
            return [
                _config_map(code_name(job, at), {}, {f"part-{at:02}": part})
                for at, part in enumerate(self.parts)
            ]
        texts, others = dict[str, str](), dict[str, bytes]()
        for file in self.files:
            try:
                texts[file.key] = file.content.decode()
            except UnicodeDecodeError:
                others[file.key] = file.content
        return [_config_map(code_name(job), texts, others)]

    def put_into(self, pod: Body, job: str) -> None:
        """Add the code to a pod's spec, and remove any earlier code. Raises BadFile if the pod has
        its own volumes with the same names.
        """
        main = next(
            (one for one in pod["containers"] if one.get("name") == names.MAIN_CONTAINER),
            pod["containers"][0],
        )
        _remove_code(pod, main, job)
        work: Body = {"name": WORK_VOLUME, "mountPath": WORK}
        mounts, source = [work], self._source(job)
        if self.parts:
            pod.setdefault("initContainers", []).insert(0, _unpacker(main, work))
        else:
            # A ConfigMap volume is read-only, but programs write into their working directory. So
            # the directory is an emptyDir, and only the entries come from the ConfigMap.
            mounts += [
                {"name": CODE_VOLUME, "mountPath": f"{WORK}/{entry}", "subPath": entry}
                | {"readOnly": True}
                for entry in self.entries
            ]
        main["workingDir"] = WORK
        main["volumeMounts"] = mounts + main.get("volumeMounts", [])
        volumes = [{"name": WORK_VOLUME, "emptyDir": {}}, {"name": CODE_VOLUME, **source}]
        pod["volumes"] = volumes + pod.get("volumes", [])

    def _source(self, job: str) -> Body:
        """Return the source of the volume that contains the ConfigMaps."""
        if self.parts:
            parts = [{"configMap": {"name": code_name(job, at)}} for at in range(len(self.parts))]
            return {"projected": {"sources": parts}}
        # Files of a ConfigMap are not executable by default.
        items = [
            {"key": file.key, "path": file.path} | ({"mode": 0o755} if file.executable else {})
            for file in self.files
        ]
        return {"configMap": {"name": code_name(job), "items": items}}


def code_name(job: str, part: int = 0) -> str:
    """Return the name of a ConfigMap with a job's code."""
    return f"{job}-code-{part}" if part else f"{job}-code"


def is_code_name(name: str, job: str) -> bool:
    """Return whether a ConfigMap of this name contains a job's code."""
    return bool(re.fullmatch(rf"{re.escape(job)}-code(-\d+)?", name))


def config_maps_of(volume: Mapping[str, Any]) -> Iterator[str]:
    """Yield the names of the ConfigMaps that a volume contains."""
    sources = (volume.get("projected") or {}).get("sources") or ()
    for holder in (volume, *sources):
        if name := (holder.get("configMap") or {}).get("name"):
            yield str(name)


def read_code(place: str | Path) -> Code:
    """Read the code at a local path. Raises BadFile if it is missing or too large."""
    root = Path(place)
    try:
        found = [(root.name, root)] if root.is_file() else sorted(_walk_files(root))
        if not found:
            raise BadFile(f"the code {place}: the folder contains no files")
        # The sizes are checked first: a folder may contain gigabytes of data.
        sizes = {path: file.stat().st_size for path, file in found}
        if (total := sum(sizes.values())) > MOST_UNPACKED:
            raise _too_large(place, sizes, f"{total >> 20} MiB in {len(sizes)} files")
        code = Code([CodeFile(path, f.read_bytes(), os.access(f, os.X_OK)) for path, f in found])
    except OSError as error:
        why = (error.strerror or str(error)).lower()
        raise BadFile(f"the code {place}: {why}") from error
    if len(code.parts) > MOST_PARTS:
        raise _too_large(place, sizes, f"more than {MOST_PARTS} MiB when compressed")
    return code


def _walk_files(root: Path) -> Iterator[tuple[str, Path]]:
    """Yield the files of a folder with their relative paths. Links to folders are not followed."""
    if not root.is_dir():
        raise FileNotFoundError(2, "No such file or directory")
    for folder, folders, files in os.walk(root):
        # os.walk descends only into the folders that are left in its list.
        folders[:] = [name for name in folders if name not in IGNORED]
        for name in files:
            path = Path(folder, name)
            if not name.endswith(_IGNORED_SUFFIXES) and path.is_file():
                yield path.relative_to(root).as_posix(), path


def _too_large(place: str | Path, sizes: Mapping[str, int], why: str) -> BadFile:
    largest = sorted(sizes, key=lambda path: -sizes[path])[:3]
    shown = ", ".join(f"{path} ({sizes[path] / 2**20:.1f} MiB)" for path in largest)
    return BadFile(
        f"the code {place} is too large ({why}); the largest files are {shown}. Move data to"
        " another folder, and mount it from a volume (examples/volume.yaml)"
    )


def _pack_files(files: Sequence[CodeFile]) -> bytes:
    """Return a compressed archive. Equal files give equal archives."""
    stream = io.BytesIO()
    # busybox's tar does not support all of the newer pax format.
    with tarfile.open(fileobj=stream, mode="w", format=tarfile.GNU_FORMAT) as archive:
        for file in files:
            info = tarfile.TarInfo(file.path)
            info.size, info.mtime = len(file.content), _EPOCH
            info.mode = 0o755 if file.executable else 0o644
            archive.addfile(info, io.BytesIO(file.content))
    return gzip.compress(stream.getvalue(), mtime=0)


def _config_map(name: str, texts: Mapping[str, str], others: Mapping[str, bytes]) -> Body:
    body: Body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}}
    encoded = {key: base64.b64encode(content).decode() for key, content in others.items()}
    body |= {"data": dict(texts)} if texts else {}
    return body | ({"binaryData": encoded} if encoded else {})


def _unpacker(main: Mapping[str, Any], work: Body) -> Body:
    """Return the init container that unpacks the archive. It uses the image of the main container.

    It needs no additional resources, because init containers run before the others.
    """
    kept = ("image", "imagePullPolicy", "resources", "securityContext")
    code = {"name": CODE_VOLUME, "mountPath": _ARCHIVE_FOLDER, "readOnly": True}
    return {
        "name": UNPACKER,
        **{key: main[key] for key in kept if key in main},
        "command": ["sh", "-c", _UNPACK],
        "volumeMounts": [work, code],
    }


def _remove_code(pod: Body, main: Body, job: str) -> None:
    own = (WORK_VOLUME, CODE_VOLUME)
    for volume in pod.get("volumes") or ():
        ours = "emptyDir" in volume or any(is_code_name(n, job) for n in config_maps_of(volume))
        if volume["name"] in own and not ours:
            raise BadFile(
                f"the job {job} has its own volume named {volume['name']}, so `run` cannot replace"
                f" its code: edit the job's file, and run `kubectl dijob restart {job} -f FILE`"
            )
    inits = pod.pop("initContainers", None) or ()
    if others := [one for one in inits if one["name"] != UNPACKER]:
        pod["initContainers"] = others
    pod["volumes"] = [one for one in pod.get("volumes") or () if one["name"] not in own]
    main["volumeMounts"] = [one for one in main.get("volumeMounts") or () if one["name"] not in own]


def _hash_text(text: str) -> str:
    import hashlib

    return hashlib.sha256(text.encode()).hexdigest()[:8]
