"""Reads a file's DIJob and the other objects in the file, for `explain`, `local` and `apply`."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dijob.api.model import DIJob
from dijob.cli.calling import client_errors

Body = dict[str, Any]


@dataclass(frozen=True)
class JobFile:
    """A DIJob and the other objects of its file. `name` is the file's name, for messages."""

    name: str
    job: Body
    others: tuple[Body, ...] = ()

    def of_kind(self, kind: str) -> Mapping[str, Body]:
        """Return the other objects of the given kind, keyed by name."""
        return {one["metadata"]["name"]: one for one in self.others if one["kind"] == kind}

    def has(self, kind: str, name: str) -> bool:
        """Return whether one of the other objects has this kind and name."""
        return name in self.of_kind(kind)


def read_file(path: str | Path) -> JobFile:
    """Read a file ("-" for standard input) that contains exactly one DIJob.

    Raises CliError (USAGE) if it cannot be read, is not YAML, or does not contain exactly one
    DIJob.
    """
    # `apply` uses the same client function to read files, so all commands accept the same files.
    with client_errors():
        from dijob.client.documents import format_path, read_text

        return parse_file(format_path(path), read_text(path))


def parse_file(name: str, text: str) -> JobFile:
    """Parse the text of a file with exactly one DIJob. Raises CliError as read_file does."""
    with client_errors():
        from dijob.client.documents import loads, the_job

        objects = tuple(loads(text, name))
        job = the_job(objects, name)
    return JobFile(name, job, tuple(one for one in objects if one is not job))


# A placeholder: the API server assigns the uid when the job is created.
UNKNOWN_UID = "<uid of the job>"


def job_of(file: JobFile, namespace: str = "", uid: str = UNKNOWN_UID) -> DIJob:
    """Return the job. `namespace` is used if the file names no namespace.

    Raises CliError (USAGE) with all validation problems.
    """
    meta = {"namespace": namespace or "default", **file.job["metadata"]}
    with client_errors():
        from dijob.client.documents import parse_body

        # The checks are more lenient for a job with a uid, because such a job comes from the
        # apiserver. So the uid is set only after the checks.
        job = parse_body({**file.job, "metadata": meta, "status": {}}, file.name)
    return job.model_copy(update={"metadata": job.metadata.model_copy(update={"uid": uid})})
