"""The DIJob in a file, as the operator would read it."""

from dijob.api.model import DIJob
from dijob.api.parse import parse_job
from dijob.api.problems import SpecError
from dijob.cli.errors import CliError, Exit
from dijob.cli.files import File

# What the apiserver will give the job: it is not known before.
UNKNOWN_UID = "<uid of the job>"


def job_of(file: File, namespace: str = "", uid: str = UNKNOWN_UID) -> DIJob:
    """The job. `namespace` holds where the file names none. CliError (USAGE) with every problem of
    it."""
    given = file.job.get("metadata") or {}
    meta = {"namespace": namespace or "default", **given, "uid": uid}
    if not given.get("name"):
        raise CliError(f"{file.name}: metadata.name is missing; add it.", Exit.USAGE)
    try:
        return parse_job({**file.job, "metadata": meta, "status": {}})
    except SpecError as error:
        raise CliError(f"{file.name}: {error}.", Exit.USAGE) from None
