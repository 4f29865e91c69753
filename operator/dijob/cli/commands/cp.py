"""`kubectl dijob cp`: parses the arguments. dijob.cli.copying does the copying."""

import posixpath
from pathlib import Path
from typing import TYPE_CHECKING

import click

from dijob.cli import options
from dijob.cli.calling import Where, call_client, client_errors
from dijob.cli.printing import echo

if TYPE_CHECKING:
    from dijob.cli.copying.places import RankPath


@click.command()
@click.argument("source", metavar="FROM")
@click.argument("target", metavar="TO")
@options.cluster_options
def cp_command(where: Where, source: str, target: str) -> None:
    """Copy a file or folder to or from a rank, even if the rank is not running.

    Either FROM or TO is a path in a job, written NAME:[RANK:]PATH; the rank defaults to 0. The
    other argument is a local path. If the target is an existing folder or ends with /, the copy
    is placed in that folder, under the source's name. Symbolic links are followed.

    If the rank is running, tar runs in the rank's container through exec, so the image needs tar.
    If the rank is not running, a temporary pod with the job's image mounts the volume that contains
    the path, and is deleted afterwards. The job's template must define this volume. It must be a
    volume that outlives the pods, such as a PersistentVolumeClaim.

    \b
    Example:
      kubectl dijob cp train:/out/ckpt ./ckpt
      kubectl dijob cp train:2:/tmp/trace.json .
      kubectl dijob cp ./data train:/data/
    """
    with client_errors():
        from dijob.cli.copying.places import RankPath, parse_ends
    # As with `kubectl cp`, the argument that names a job determines the direction.
    first, second = parse_ends(source, target)
    if isinstance(first, RankPath):
        _copy_from(where, first, str(second))
    elif isinstance(second, RankPath):
        _copy_to(where, first, second)


def _copy_from(where: Where, source: "RankPath", local: str) -> None:
    from dijob.cli.copying.copy import copy_from_rank
    from dijob.cli.copying.unpacking import local_target

    to = local_target(local, posixpath.basename(source.path.rstrip("/")))
    done = call_client(where, lambda client: copy_from_rank(client, source, to))
    _print_result(done.files, done.size, str(to))


def _copy_to(where: Where, local: str, to: "RankPath") -> None:
    from dijob.cli.copying.send import copy_to_rank

    done = call_client(where, lambda client: copy_to_rank(client, Path(local), to))
    _print_result(done.files, done.size, done.where)


def _print_result(count: int, size: int, where: str) -> None:
    from dijob.cli.copying.progress import format_size as in_words

    files = "1 file" if count == 1 else f"{count} files"
    echo(f"{files}, {in_words(size)}: {where}")
