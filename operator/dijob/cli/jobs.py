"""Parses the DIJob of a file with the operator's own model."""

from dijob.api.model import DIJob
from dijob.cli.calling import client_errors
from dijob.cli.files import JobFile

# A placeholder: the API server assigns the uid when the job is created.
UNKNOWN_UID = "<uid of the job>"


def job_of(file: JobFile, namespace: str = "", uid: str = UNKNOWN_UID) -> DIJob:
    """Return the job. `namespace` is used if the file names none.

    Raises CliError (USAGE) with all validation problems.
    """
    meta = {"namespace": namespace or "default", **file.job["metadata"], "uid": uid}
    with client_errors():
        from dijob.client.documents import parse_body

        return parse_body({**file.job, "metadata": meta, "status": {}}, file.name)
