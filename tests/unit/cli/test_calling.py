"""The errors of the client as errors of the command line."""

import pytest
from dijob.cli.calling import client_errors
from dijob.cli.errors import CliError, Exit
from dijob.client import NotFound
from dijob.client.waiting import explain_not_found

REASONS = {
    "NotFound": (
        "there is no DIJob test in namespace rl; if it has been deleted, see: kubectl dijob history"
        " test"
    ),
    "NoSuchKind": "install the operator",
}


@pytest.mark.parametrize(("reason", "said"), REASONS.items(), ids=REASONS)
def test_only_a_job_that_may_have_been_deleted_can_be_in_the_history(
    reason: str, said: str
) -> None:
    error = NotFound(404, reason, "install the operator")
    with pytest.raises(CliError) as raised, client_errors():
        raise explain_not_found(error, "rl", "test")
    assert (str(raised.value), raised.value.code) == (said, Exit.NOT_FOUND)
