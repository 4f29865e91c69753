"""Replaces the volumes of a rank's pod with folders of this machine, and translates paths.

To mount a volume at its own path, this program would need root or an overlay, and the mount point
would have to exist. So paths below a mount are replaced in the command and the variables instead
(docs/decisions/033).
"""

import posixpath
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any, Final

from dijob.cli.errors import CliError, Exit
from dijob.cli.files import JobFile
from dijob.core.render.fields import as_mapping, objects_in

Body = Mapping[str, Any]

# A mount at one of these paths is ignored: the machine's own directory is used.
_SHARED: Final = ("/dev/shm",)


@dataclass(frozen=True)
class Mount:
    """A mount of the main container: the path that the program expects, and the volume."""

    path: str
    volume: Body
    below: str = ""


@dataclass(frozen=True)
class Paths:
    """The mounted folders of a rank on this machine. `root` contains the tree of mounts."""

    root: Path
    mounts: tuple[str, ...] = ()
    found: Mapping[str, Path] = field(default_factory=dict)

    def translated(self, text: str) -> str:
        """Return the text with each path below a mount replaced by the path on this machine."""
        if not self.mounts:
            return text
        # Replace all paths in one pass, because a new path may contain the path of another mount.
        known = "|".join(map(re.escape, sorted(self.mounts, key=len, reverse=True)))
        # The mount /data must not be found inside /database or my/data.
        pattern = rf"(?<![\w./-])(?:{known})(?![\w.-])"
        return re.sub(pattern, lambda found: str(self.found[found[0]]), text)

    def folder(self, path: str) -> Path | None:
        """Return the local folder that replaces a working directory, or None if there is no such
        folder.
        """
        here = self.translated(path)
        if here != path or Path(path).is_dir():
            return Path(here)
        below = self.root / PurePosixPath(path).relative_to("/")
        return below if below.is_dir() else None


def list_mounts(pod: Body, main: Body, more: list[Body]) -> Iterator[Mount]:
    """Yield the main container's mounts. `more` are the volumes of spec.volumes."""
    by_name = {str(v.get("name")): v for v in [*objects_in(pod.get("volumes")), *more]}
    for mount in objects_in(main.get("volumeMounts")):
        path, name = _normalize_path(str(mount.get("mountPath", ""))), str(mount.get("name"))
        if path == "/" or not path.startswith("/") or path in _SHARED:
            continue
        volume = by_name.get(name)
        if volume is None:
            raise CliError(f"the mount at {path} names a missing volume: {name}", Exit.USAGE)
        yield Mount(path, volume, str(mount.get("subPath") or ""))


def _normalize_path(path: str) -> str:
    """Return a path without `..` or redundant slashes."""
    # normpath keeps two slashes at the beginning, which POSIX treats specially.
    return posixpath.normpath(re.sub("^/+", "/", path))


def prepare_folders(
    root: Path, wanted: list[Mount], file: JobFile, given: Mapping[str, Path]
) -> Paths:
    """Create the folders of the mounts.

    An emptyDir becomes an empty folder, and a ConfigMap or Secret in the job's file becomes a
    folder of files. `given` contains folders for volumes that only a cluster provides. Raises
    CliError (USAGE) for any other volume, and for two mounts at one path.

    A mount inside another mount gets a separate folder, and the command's paths lead there. No
    symbolic link is created in the outer mount, because that mount may be the user's folder, and
    the link could remain there after the run.
    """
    found: dict[str, Path] = {}
    volumes: dict[str, Path] = {}
    # Shorter paths come first, because another mount may be inside them.
    for mount in sorted(wanted, key=lambda one: len(one.path)):
        name = str(mount.volume.get("name"))
        if mount.path in found:
            raise CliError(f"two mounts have the path {mount.path}: change one", Exit.USAGE)
        if name not in volumes:
            volumes[name] = _prepare_folder(root / "volumes" / name, mount.volume, file, given)
        inside = any(f"{mount.path}/".startswith(f"{outer}/") for outer in found)
        tree = root / "inner" / str(len(found)) if inside else root / "root"
        place = tree / mount.path.lstrip("/")
        place.parent.mkdir(parents=True, exist_ok=True)
        source = volumes[name] / mount.below if mount.below else volumes[name]
        if mount.below and not source.exists():
            source.mkdir(parents=True)
        place.symlink_to(source.absolute())
        found[mount.path] = place
    return Paths(root / "root", tuple(found), found)


def _prepare_folder(path: Path, volume: Body, file: JobFile, given: Mapping[str, Path]) -> Path:
    name = str(volume.get("name"))
    if name in given:
        return given[name]
    kinds = [kind for kind in volume if kind != "name"]
    kind = kinds[0] if kinds else "emptyDir"
    if kind not in ("emptyDir", "configMap", "secret"):
        raise CliError(
            f"volume {name} has the type {kind}, which needs a cluster: provide a local folder with"
            f" --volume {name}=DIR",
            Exit.USAGE,
        )
    path.mkdir(parents=True)
    if kind != "emptyDir":
        for key, text in _selected_files(as_mapping(volume.get(kind)), kind, file):
            target = path / key
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(text)
            target.chmod(_file_mode(volume, kind))
    return path


def _selected_files(source: Body, kind: str, file: JobFile) -> Iterator[tuple[str, bytes]]:
    """Yield the files of a ConfigMap or a Secret: all keys, or those selected by `items`."""
    of_kind = {"configMap": "ConfigMap", "secret": "Secret"}[kind]
    name = str(source.get("name") or source.get("secretName"))
    body = file.of_kind(of_kind).get(name)
    if body is None:
        if source.get("optional"):
            return
        raise CliError(
            f"{file.name} does not contain {of_kind} {name}: add it to the file, after a"
            " `---` line",
            Exit.USAGE,
        )
    keys = decode_contents(body)
    items = objects_in(source.get("items")) or [{"key": key, "path": key} for key in keys]
    for item in items:
        # Kubernetes rejects `..` in a path. Here, it could lead outside the temporary folder.
        if str(item.get("key")) in keys and ".." not in PurePosixPath(str(item.get("path"))).parts:
            yield str(item.get("path")).lstrip("/"), keys[str(item.get("key"))]


def decode_contents(body: Body) -> dict[str, bytes]:
    """Return the content of a ConfigMap or a Secret by key."""
    from base64 import b64decode

    plain = {**as_mapping(body.get("data"))} if body.get("kind") == "ConfigMap" else {}
    coded = as_mapping(body.get("binaryData" if body.get("kind") == "ConfigMap" else "data"))
    return {
        **{key: b64decode(str(value)) for key, value in coded.items()},
        **{key: str(value).encode() for key, value in plain.items()},
        **{k: str(v).encode() for k, v in as_mapping(body.get("stringData")).items()},
    }


def _file_mode(volume: Body, kind: str) -> int:
    # 0644 is the default of Kubernetes.
    mode = as_mapping(volume.get(kind)).get("defaultMode")
    return mode if isinstance(mode, int) else 0o644
