"""The DIJob in a file and what stands beside it, as explain and local take them."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dijob.cli.calling import client_errors

Body = dict[str, Any]


@dataclass(frozen=True)
class File:
    """A DIJob, and the other objects of its file. `name` is the file's, for messages."""

    name: str
    job: Body
    others: tuple[Body, ...] = ()

    def of_kind(self, kind: str) -> Mapping[str, Body]:
        """The other objects of a kind, by their names."""
        return {one["metadata"]["name"]: one for one in self.others if one["kind"] == kind}


def read(path: str | Path) -> File:
    """The one DIJob in a file ("-": standard input), and what else is there. CliError (USAGE) where
    it cannot be read, is no YAML, or has not exactly one DIJob."""
    with client_errors():
        from dijob.client.documents import called, read_text

        return parsed(called(path), read_text(path))


def parsed(name: str, text: str) -> File:
    """As `read`, from the file's text."""
    with client_errors():
        from dijob.client.documents import loads, the_job

        objects = tuple(loads(text, name))
        job = the_job(objects, name)
    return File(name, job, tuple(one for one in objects if one is not job))
