"""The Lease of several operators: one acts, never two, whatever happens to their requests."""

import asyncio

import pytest
from click.testing import CliRunner
from dijob.__main__ import main
from dijob.shell.api import ApiError
from dijob.shell.lease import (
    ACT_SECONDS,
    LEASE_SECONDS,
    LOOK_SECONDS,
    PAUSE_SECONDS,
    RENEW_SECONDS,
    TIMEOUT_SECONDS,
)
from unit.leasing import TAKE_OVER_SECONDS, Operator, Server, until


@pytest.fixture
def two() -> tuple[Operator, Operator]:
    server = Server()
    return Operator(server, "a"), Operator(server, "b")


async def one_acts(two: tuple[Operator, Operator]) -> None:
    """The first one has the lease, the other one waits."""
    two[0].start()
    await until(lambda: two[0].acts, 0.1)
    two[1].start()
    await asyncio.sleep(20)
    assert [one.acts for one in two] == [True, False]


@pytest.mark.virtual_time
async def test_the_first_one_acts_at_once_and_the_other_waits(
    two: tuple[Operator, Operator],
) -> None:
    await one_acts(two)
    assert set(two[0].wire.server.writers) == {"a"}


@pytest.mark.virtual_time
async def test_after_kill_9_the_other_one_acts_once_the_lease_is_over(
    two: tuple[Operator, Operator],
) -> None:
    await one_acts(two)
    await two[0].kill()
    assert await until(lambda: two[1].acts, TAKE_OVER_SECONDS) > ACT_SECONDS
    assert two[1].wire.server.lease is not None
    assert two[1].wire.server.lease["leaseTransitions"] == 2


@pytest.mark.virtual_time
async def test_who_ends_frees_the_lease(two: tuple[Operator, Operator]) -> None:
    await one_acts(two)
    await two[0].end()
    assert not two[0].lease.may_act
    await until(lambda: two[1].acts, LOOK_SECONDS + 0.1)


@pytest.mark.virtual_time
async def test_a_process_that_is_started_again_in_its_pod_goes_on_at_once(
    two: tuple[Operator, Operator],
) -> None:
    await one_acts(two)
    await two[0].kill()
    two[0].start()
    await until(lambda: two[0].acts, 0.1)
    await asyncio.sleep(20)
    assert not two[1].acts


@pytest.mark.virtual_time
async def test_who_is_cut_off_stops_before_the_other_one_begins(
    two: tuple[Operator, Operator],
) -> None:
    """What it has sent meanwhile arrives later, and changes nothing; then it ends."""
    await one_acts(two)
    two[0].wire.whole.clear()
    stopped = await until(lambda: not two[0].acts, ACT_SECONDS + 0.1)
    begun = stopped + await until(lambda: two[1].acts, TAKE_OVER_SECONDS)
    assert begun - stopped >= LEASE_SECONDS - ACT_SECONDS - 0.02
    two[0].wire.whole.set()
    await until(lambda: two[0].ended, TIMEOUT_SECONDS + RENEW_SECONDS + 0.1)
    assert [one.acts for one in two] == [False, True]


@pytest.mark.virtual_time
async def test_the_time_to_act_counts_from_the_beginning_of_a_renewal(
    two: tuple[Operator, Operator],
) -> None:
    """The other one has seen it long before its answer comes."""
    await one_acts(two)
    version = two[0].wire.server.version
    two[0].wire.back = TIMEOUT_SECONDS - 0.1
    await until(lambda: two[0].wire.server.version > version, RENEW_SECONDS + 0.1)
    two[0].wire.whole.clear()
    await until(lambda: two[1].acts, TAKE_OVER_SECONDS)
    assert not two[0].acts


@pytest.mark.virtual_time
@pytest.mark.parametrize("later", [0.0, 0.5, 2.0])
async def test_while_nobody_is_answered_nobody_acts_and_then_the_same_one_goes_on(
    two: tuple[Operator, Operator], later: float
) -> None:
    """An apiserver that is away is no reason to begin anew, even if the one that waits is answered
    first.
    """
    await one_acts(two)
    await asyncio.sleep(RENEW_SECONDS / 2)  # both have seen the last renewal
    for one in two:
        one.wire.refuses = 500
    await asyncio.sleep(60)
    assert [one.acts for one in two] == [False, False]
    waits = asyncio.ensure_future(two[0].lease.permission())
    await asyncio.sleep(2 * PAUSE_SECONDS)
    assert not waits.done()
    two[1].wire.refuses = 0
    await asyncio.sleep(later)
    two[0].wire.refuses = 0
    with pytest.raises(ApiError, match="could not renew"):  # after so long it decides anew
        await asyncio.wait_for(waits, RENEW_SECONDS + 0.1)
    await two[0].lease.permission()
    await asyncio.sleep(20)
    assert [one.acts for one in two] == [True, False]
    assert not two[0].ended


@pytest.mark.virtual_time
async def test_a_write_whose_answer_is_lost_costs_nothing(two: tuple[Operator, Operator]) -> None:
    """The next one is a conflict with its own."""
    await one_acts(two)
    two[0].wire.back = TIMEOUT_SECONDS + 0.1
    await asyncio.sleep(TIMEOUT_SECONDS)
    two[0].wire.back = 0.0
    await until(lambda: two[0].acts, RENEW_SECONDS * 2)
    await asyncio.sleep(20)
    assert [one.acts for one in two] == [True, False]
    assert set(two[0].wire.server.writers) == {"a"}


@pytest.mark.virtual_time
@pytest.mark.parametrize("what", ["deleted", "emptied"])
async def test_who_acts_goes_on_where_somebody_takes_the_lease_away(
    two: tuple[Operator, Operator], what: str
) -> None:
    await one_acts(two)
    server = two[0].wire.server
    if what == "deleted":
        server.lease = None
    else:
        server.write(str(server.version), {"holderIdentity": ""})
    await asyncio.sleep(20)
    assert [one.acts for one in two] == [True, False]
    assert server.lease is not None
    assert server.lease["holderIdentity"] == "a"


@pytest.mark.virtual_time
async def test_a_lease_that_is_not_there_is_made_after_a_while(
    two: tuple[Operator, Operator],
) -> None:
    """Who has just started does not know whether somebody has deleted one that is in use."""
    two[0].wire.server.lease = None
    two[0].start()
    assert await until(lambda: two[0].acts, TAKE_OVER_SECONDS) >= LEASE_SECONDS


@pytest.mark.virtual_time
async def test_who_ends_in_the_middle_of_a_renewal_frees_the_lease(
    two: tuple[Operator, Operator],
) -> None:
    """The version of the lease is then not the one that it knows."""
    await one_acts(two)
    version = two[0].wire.server.version
    two[0].wire.back = 0.2
    await until(lambda: two[0].wire.server.version > version, RENEW_SECONDS + 0.1)
    await two[0].end()
    await until(lambda: two[1].acts, LOOK_SECONDS + 0.1)


@pytest.mark.virtual_time
async def test_an_answer_that_is_no_lease_is_no_end(two: tuple[Operator, Operator]) -> None:
    await one_acts(two)
    read, write = two[0].wire.server.read, two[0].wire.server.write
    two[0].wire.server.read = dict  # type: ignore[method-assign]
    two[0].wire.server.write = lambda version, spec: {}  # type: ignore[method-assign]
    await asyncio.sleep(20)
    two[0].wire.server.read, two[0].wire.server.write = read, write  # type: ignore[method-assign]
    await asyncio.sleep(20)
    assert [one.acts for one in two] == [True, False]


def test_a_lease_is_named_with_its_namespace() -> None:
    result = CliRunner().invoke(main, ["--lease", "dijob"])
    assert result.exit_code == 2
    assert "--lease 'dijob' must be NAMESPACE/NAME" in result.output
