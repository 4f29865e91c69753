"""A tar stream into a folder of this machine: no member of it can get out of that folder."""

import os
import shutil
import stat
import tarfile
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from tempfile import NamedTemporaryFile
from typing import IO, Final, Self

from dijob.cli.errors import CliError

_PIECE: Final = 2**20


@dataclass(frozen=True)
class Unpacked:
    """What was written."""

    files: int
    size: int
    """In bytes."""


class _Member(tarfile.TarInfo):
    """A member whose header must be whole. tarfile takes a header that is cut off or damaged for
    the end of the archive, except that of the first member.
    """

    @classmethod
    def fromtarfile(cls, archive: tarfile.TarFile) -> Self:
        try:
            return super().fromtarfile(archive)
        except tarfile.EOFHeaderError:  # type: ignore[attr-defined]  # typeshed lacks it
            raise
        except tarfile.HeaderError as error:
            raise tarfile.ReadError(str(error)) from error


def target(local: str, name: str) -> Path:
    """Where a file or folder of this name goes: into a folder that is there, else under the name
    that is given, as cp does it.
    """
    path = Path(local)
    return path / name if path.is_dir() or local.endswith("/") else path


def unpack(stream: IO[bytes], to: Path, name: str) -> Unpacked:
    """Write what the stream has below `name` to `to`, and read the stream to its end. Raises
    CliError if it is not a whole tar archive, if a member would be written elsewhere or is neither
    a file nor a folder, or if it cannot be written here. A file is there in whole or not at all.

    By hand: tarfile's own filters are not in all Pythons 3.11 (Debian 12's has none).
    """
    members = files = size = 0
    try:
        with tarfile.open(fileobj=stream, mode="r|", tarinfo=_Member) as archive:
            for member in archive:
                _write(archive, member, to, name)
                members += 1
                files += not member.isdir()
                size += member.size
        # What follows the end of the archive is padding.
        while stream.read(_PIECE):
            pass
    except (tarfile.TarError, ValueError, OverflowError) as error:
        raise CliError(f"the container did not send a whole tar archive: {error}") from error
    except RecursionError as error:
        raise CliError("the container sent folders that are nested too deeply") from error
    except FileExistsError as error:
        raise CliError(f"{error.filename} is a file here, and must be a folder") from error
    except OSError as error:
        said = (error.strerror or str(error)).lower()
        raise CliError(f"{error.filename or to} cannot be written: {said}") from error
    if not members:
        raise CliError(f"the container sent an empty tar archive, without {name}")
    return Unpacked(files, size)


def _write(archive: tarfile.TarFile, member: tarfile.TarInfo, to: Path, name: str) -> None:
    path = _placed(member.name, to, name)
    if member.isdir():
        path.mkdir(parents=True, exist_ok=True)
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    if member.islnk():
        linked = _placed(member.linkname, to, name)
        if not _is_regular(linked):
            raise CliError(f"the container sent {member.name}, a link to what it has not sent")
        with linked.open("rb") as content:
            _store(content, path, member)
        return
    content_sent = archive.extractfile(member) if member.isreg() else None
    if content_sent is None:
        raise CliError(f"the container sent {member.name}, which is neither a file nor a folder")
    _store(content_sent, path, member)


def _store(content: IO[bytes], path: Path, member: tarfile.TarInfo) -> None:
    """Write a file under another name and move it into its place: if the stream breaks, the file
    that was there before stays. A link that is there is replaced, not followed.
    """
    if os.path.lexists(path) and not (path.is_symlink() or _is_regular(path)):
        kind = "a folder" if path.is_dir() else "a device, a pipe or a socket"
        raise CliError(f"{path} cannot be written: it is {kind} here")
    with NamedTemporaryFile(dir=path.parent, prefix=".dijob-cp-", delete=False) as file:
        try:
            shutil.copyfileobj(content, file, _PIECE)
            file.flush()
            os.chmod(file.name, 0o600 | member.mode & 0o755)
            # A time that this machine does not know is no reason to refuse the file.
            with suppress(OverflowError, ValueError, OSError):
                os.utime(file.name, (member.mtime, member.mtime))
            os.replace(file.name, path)
        except BaseException:
            os.unlink(file.name)
            raise


def _is_regular(path: Path) -> bool:
    return not path.is_symlink() and path.exists() and stat.S_ISREG(path.lstat().st_mode)


def _placed(sent: str, to: Path, name: str) -> Path:
    """Where a member goes. Raises CliError where that is not in `to`, be it by a link that is there
    already.
    """
    parts = PurePosixPath(sent).parts
    if parts[:1] != (name,) or ".." in parts:
        raise CliError(f"the container sent {sent}, which was not asked for")
    path = to.joinpath(*parts[1:])
    inside = path == to or path.parent.resolve().is_relative_to(to.resolve())
    if not inside:
        raise CliError(f"{path} would be written outside of {to}: remove the link there")
    return path
