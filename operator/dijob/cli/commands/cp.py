"""`kubectl dijob cp`."""

import posixpath
from typing import TYPE_CHECKING

import click

from dijob.cli import options
from dijob.cli.calling import Where, call, client_errors

if TYPE_CHECKING:
    from dijob.cli.copying.unpacking import Unpacked
    from dijob.client import AsyncClient


@click.command()
@click.argument("source", metavar="NAME:[RANK:]PATH")
@click.argument("local", metavar="LOCAL", type=click.Path())
@options.cluster
def command(where: Where, source: str, local: str) -> None:
    """Copy a file or folder out of a rank, or out of a volume of a job that has ended.

    Without a rank it is rank 0. A rank that runs is asked by exec, with tar, which its image must
    have. When it has ended and the path is on a volume of the job's template that outlives the
    pods, such as a PersistentVolumeClaim, a pod with the job's image reads it, and is deleted
    afterwards.

    \b
    Example:
      kubectl dijob cp train:/out/ckpt ./ckpt
      kubectl dijob cp train:2:/tmp/trace.json .
    """
    with client_errors():
        from dijob.cli.copying.places import Source
        from dijob.cli.copying.unpacking import target

    asked = Source.of(source)
    to = target(local, posixpath.basename(asked.path.rstrip("/")))

    async def act(client: "AsyncClient") -> "Unpacked":
        from dijob.cli.copying.copy import copy

        return await copy(client, asked, to)

    done = call(where, act)
    files = "1 file" if done.files == 1 else f"{done.files} files"
    click.echo(f"{files}, {_size(done.size)}: {to}")


def _size(count: int) -> str:
    for unit, factor in (("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10)):
        if count >= factor:
            return f"{count / factor:.1f} {unit}"
    return f"{count} bytes"
