"""`apply --wait` waits for several jobs concurrently, and prints each outcome."""

import pytest
from dijob.cli.commands.wait import print_outcomes
from dijob.cli.errors import CliError, Exit
from dijob.client import Outcome, TimedOut

GOOD = Outcome("good", "Succeeded", "rank 0 exited 0")
BAD = Outcome("bad", "Failed", "rank 1 exited 1")
SLOW = TimedOut("slow is not finished after 1 s")


@pytest.mark.parametrize(
    ("ends", "code", "error", "errors"),
    [
        ([BAD, SLOW, GOOD], Exit.FAILED, "bad: Failed", "slow is not finished"),
        ([GOOD, SLOW, BAD], Exit.TIMED_OUT, "slow is not finished", "bad: Failed"),
    ],
    ids=["the first has failed", "the first takes too long"],
)
def test_no_end_is_lost_to_another(
    ends: list[Outcome | BaseException],
    code: Exit,
    error: str,
    errors: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(CliError, match=error) as raised:
        print_outcomes(ends)
    assert raised.value.code == code
    said = capsys.readouterr()
    assert said.out == "good: Succeeded: rank 0 exited 0\n"
    assert errors in said.err


def test_other_exceptions_than_those_of_the_client_are_raised() -> None:
    with pytest.raises(ZeroDivisionError):
        print_outcomes([GOOD, ZeroDivisionError()])


def test_all_went_well(capsys: pytest.CaptureFixture[str]) -> None:
    print_outcomes([GOOD])
    assert capsys.readouterr().err == ""
