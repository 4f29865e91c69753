"""Unpacks a tar stream into a local folder.

The stream is written by the tar program of a tenant's container, and may contain anything. No
member is written outside the folder, no link is created, and every file is either complete or not
written.
"""

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
    """The number of files that were written, and their size."""

    files: int
    size: int
    """The total size in bytes."""


class _Member(tarfile.TarInfo):
    """An archive member that rejects a truncated or damaged header.

    tarfile treats such a header as the end of the archive, unless it is the first one. A truncated
    copy would then look complete.
    """

    @classmethod
    def fromtarfile(cls, archive: tarfile.TarFile) -> Self:
        try:
            return super().fromtarfile(archive)
        except tarfile.EOFHeaderError:  # type: ignore[attr-defined]  # typeshed lacks it
            raise
        except tarfile.HeaderError as error:
            raise tarfile.ReadError(str(error)) from error


def local_target(local: str, name: str) -> Path:
    """Return the local path of a copy.

    As with cp, the copy is put into `local` if `local` is a folder, and is called `local`
    otherwise.
    """
    path = Path(local)
    return path / name if path.is_dir() or local.endswith("/") else path


def unpack_tar(stream: IO[bytes], to: Path, name: str) -> Unpacked:
    """Extract the folder or file `name` to the path `to`, and read the stream to its end.

    Raises CliError if the archive is incomplete, or if a file or folder cannot be written. Also
    raises CliError if a member is outside `name`, or is neither a file nor a folder.

    tarfile's own extraction filters are not used, because Debian 12's Python 3.11 lacks them.
    """
    members = files = size = 0
    try:
        with tarfile.open(fileobj=stream, mode="r|", tarinfo=_Member) as archive:
            for member in archive:
                _write_member(archive, member, to, name)
                members += 1
                files += not member.isdir()
                size += member.size
        # Also read the padding that follows the archive, so that the sender does not block or fail.
        while stream.read(_PIECE):
            pass
    except (tarfile.TarError, ValueError, OverflowError) as error:
        raise CliError(
            f"the container sent an incomplete or invalid tar archive: {error}"
        ) from error
    except RecursionError as error:
        raise CliError("the container sent folders that are nested too deeply") from error
    except FileExistsError as error:
        raise CliError(f"the local path {error.filename} is a file, not a folder") from error
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise CliError(f"cannot write {error.filename or to}: {reason}") from error
    if not members:
        raise CliError(f"the container sent an empty tar archive, without {name}")
    return Unpacked(files, size)


def _write_member(archive: tarfile.TarFile, member: tarfile.TarInfo, to: Path, name: str) -> None:
    path = _local_path(member.name, to, name)
    if member.isdir():
        path.mkdir(parents=True, exist_ok=True)
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    # If a file has several names, tar sends the content once, and a hard link for each of the other
    # names. Each hard link is replaced by a copy.
    if member.islnk():
        linked = _local_path(member.linkname, to, name)
        if not _is_regular(linked):
            raise CliError(
                f"the container sent {member.name}, a hard link to a file that it did not send"
            )
        with linked.open("rb") as content:
            _store_file(content, path, member)
        return
    content_sent = archive.extractfile(member) if member.isreg() else None
    if content_sent is None:
        raise CliError(f"the container sent {member.name}, which is neither a file nor a folder")
    _store_file(content_sent, path, member)


def _store_file(content: IO[bytes], path: Path, member: tarfile.TarInfo) -> None:
    """Write a file under a temporary name, and rename it.

    If the stream breaks, an existing file stays unchanged. An existing link is replaced, not
    followed.
    """
    if os.path.lexists(path) and not (path.is_symlink() or _is_regular(path)):
        kind = "a folder" if path.is_dir() else "a device, a pipe or a socket"
        raise CliError(f"cannot write {path}: it is {kind}")
    with NamedTemporaryFile(dir=path.parent, prefix=".dijob-cp-", delete=False) as file:
        try:
            shutil.copyfileobj(content, file, _PIECE)
            file.flush()
            # setuid bits and write access for others are not copied from the container.
            os.chmod(file.name, 0o600 | member.mode & 0o755)
            # A modification time that this system cannot represent must not make the copy fail.
            with suppress(OverflowError, ValueError, OSError):
                os.utime(file.name, (member.mtime, member.mtime))
            os.replace(file.name, path)
        except BaseException:
            os.unlink(file.name)
            raise


def _is_regular(path: Path) -> bool:
    return not path.is_symlink() and path.exists() and stat.S_ISREG(path.lstat().st_mode)


def _local_path(sent: str, to: Path, name: str) -> Path:
    """Return the local path of a member. Raises CliError if this path is outside `to`."""
    parts = PurePosixPath(sent).parts
    if parts[:1] != (name,) or ".." in parts:
        raise CliError(f"the container sent {sent}, which was not requested")
    path = to.joinpath(*parts[1:])
    # An existing link in the folder could lead to a place outside the folder. `resolve` follows all
    # links, so the check detects such a place.
    inside = path == to or path.parent.resolve().is_relative_to(to.resolve())
    if not inside:
        raise CliError(f"{path} would be written outside {to}: remove the link in its path")
    return path
