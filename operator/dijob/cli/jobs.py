"""The DIJob in a file, as the operator would read it."""

from dijob.api.model import DIJob
from dijob.cli.calling import client_errors
from dijob.cli.files import File

# What the apiserver will give the job: it is not known before.
UNKNOWN_UID = "<uid of the job>"


def job_of(file: File, namespace: str = "", uid: str = UNKNOWN_UID) -> DIJob:
    """The job. `namespace` holds where the file names none. CliError (USAGE) with every problem of
    it."""
    meta = {"namespace": namespace or "default", **file.job["metadata"], "uid": uid}
    with client_errors():
        from dijob.client.documents import parsed

        return parsed({**file.job, "metadata": meta, "status": {}}, file.name)
