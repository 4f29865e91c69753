"""The volumes of a rank's pod as folders of this machine, and what its words then say."""

import posixpath
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any, Final

from dijob.cli.errors import CliError, Exit
from dijob.cli.files import File
from dijob.core.render.fields import mapping, objects

Body = Mapping[str, Any]

# The machine's own is as good.
_SHARED: Final = ("/dev/shm",)


@dataclass(frozen=True)
class Mount:
    """A mount of the main container: where the program expects it, and its volume."""

    path: str
    volume: Body
    below: str = ""


@dataclass(frozen=True)
class Paths:
    """Where the mounted folders of a rank are on this machine: `root` has a tree of them."""

    root: Path
    mounts: tuple[str, ...] = ()
    found: Mapping[str, Path] = field(default_factory=dict)

    def translated(self, text: str) -> str:
        """The text with each path below a mount replaced by that of this machine."""
        if not self.mounts:
            return text
        # All at once: a path of this machine may look like another mount.
        known = "|".join(map(re.escape, sorted(self.mounts, key=len, reverse=True)))
        pattern = rf"(?<![\w./-])(?:{known})(?![\w.-])"
        return re.sub(pattern, lambda found: str(self.found[found[0]]), text)

    def folder(self, path: str) -> Path | None:
        """The folder that a working directory is here; None for one that neither the machine nor a
        mount has."""
        here = self.translated(path)
        if here != path or Path(path).is_dir():
            return Path(here)
        below = self.root / PurePosixPath(path).relative_to("/")
        return below if below.is_dir() else None


def mounts(pod: Body, main: Body, more: list[Body]) -> Iterator[Mount]:
    """The main container's mounts with their volumes; `more` are those that every pod has."""
    by_name = {str(v.get("name")): v for v in [*objects(pod.get("volumes")), *more]}
    for mount in objects(main.get("volumeMounts")):
        path, name = _normal(str(mount.get("mountPath", ""))), str(mount.get("name"))
        if path == "/" or not path.startswith("/") or path in _SHARED:
            continue
        volume = by_name.get(name)
        if volume is None:
            raise CliError(f"the mount at {path} names no volume: {name}.", Exit.USAGE)
        yield Mount(path, volume, str(mount.get("subPath") or ""))


def _normal(path: str) -> str:
    """A path without `..` and needless slashes; normpath keeps two slashes at its beginning."""
    return posixpath.normpath(re.sub("^/+", "/", path))


def prepared(root: Path, wanted: list[Mount], file: File, given: Mapping[str, Path]) -> Paths:
    """Make the folders: one that is empty for an emptyDir, the files of a ConfigMap or Secret of
    the same file, and `given` folders for volumes that only a cluster has. CliError (USAGE) for any
    other, and for two mounts at one path.

    A mount inside another one has a place of its own, to which the words of the command lead: a
    link to it in the outer folder would be left in a folder of the user's."""
    found: dict[str, Path] = {}
    volumes: dict[str, Path] = {}
    # The shorter path first: it may be mounted into.
    for mount in sorted(wanted, key=lambda one: len(one.path)):
        name = str(mount.volume.get("name"))
        if mount.path in found:
            raise CliError(f"two mounts have the path {mount.path}: change one.", Exit.USAGE)
        if name not in volumes:
            volumes[name] = _folder(root / "volumes" / name, mount.volume, file, given)
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


def _folder(path: Path, volume: Body, file: File, given: Mapping[str, Path]) -> Path:
    name = str(volume.get("name"))
    if name in given:
        return given[name]
    kinds = [kind for kind in volume if kind != "name"]
    kind = kinds[0] if kinds else "emptyDir"
    if kind not in ("emptyDir", "configMap", "secret"):
        raise CliError(
            f"volume {name} is of type {kind}, which this machine does not have: give it a folder"
            f" with --volume {name}=FOLDER.",
            Exit.USAGE,
        )
    path.mkdir(parents=True)
    if kind != "emptyDir":
        for key, text in _files(mapping(volume.get(kind)), kind, file):
            target = path / key
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(text)
            target.chmod(_mode(volume, kind))
    return path


def _files(source: Body, kind: str, file: File) -> Iterator[tuple[str, bytes]]:
    """The files of a ConfigMap or a Secret: all keys, or those that are chosen by `items`."""
    of_kind = {"configMap": "ConfigMap", "secret": "Secret"}[kind]
    name = str(source.get("name") or source.get("secretName"))
    body = file.of_kind(of_kind).get(name)
    if body is None:
        if source.get("optional"):
            return
        raise CliError(
            f"{of_kind} {name} is not in {file.name}: put it into the file, behind a line ---.",
            Exit.USAGE,
        )
    keys = contents(body)
    items = objects(source.get("items")) or [{"key": key, "path": key} for key in keys]
    for item in items:
        if str(item.get("key")) in keys and ".." not in PurePosixPath(str(item.get("path"))).parts:
            yield str(item.get("path")).lstrip("/"), keys[str(item.get("key"))]


def contents(body: Body) -> dict[str, bytes]:
    """What a ConfigMap or a Secret holds, by its keys."""
    from base64 import b64decode

    plain = {**mapping(body.get("data"))} if body.get("kind") == "ConfigMap" else {}
    coded = mapping(body.get("binaryData" if body.get("kind") == "ConfigMap" else "data"))
    return {
        **{key: b64decode(str(value)) for key, value in coded.items()},
        **{key: str(value).encode() for key, value in plain.items()},
        **{k: str(v).encode() for k, v in mapping(body.get("stringData")).items()},
    }


def _mode(volume: Body, kind: str) -> int:
    mode = mapping(volume.get(kind)).get("defaultMode")
    return mode if isinstance(mode, int) else 0o644
