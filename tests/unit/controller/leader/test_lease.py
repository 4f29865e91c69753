"""Leader election: there is never more than one leader, whatever happens to requests."""

import asyncio

import pytest
from click.testing import CliRunner
from dijob.__main__ import main
from dijob.controller.leader.lease import (
    ACT_SECONDS,
    LEASE_SECONDS,
    LOOK_SECONDS,
    PAUSE_SECONDS,
    RENEW_SECONDS,
    TIMEOUT_SECONDS,
)
from dijob.kube.api import RequestError
from simulator.leader_election import TAKE_OVER_SECONDS, Operator, Server, until


@pytest.fixture
def two() -> tuple[Operator, Operator]:
    server = Server()
    return Operator(server, "a"), Operator(server, "b")


async def one_leads(two: tuple[Operator, Operator]) -> None:
    """Make the first operator the leader and the second a standby."""
    two[0].start()
    await until(lambda: two[0].leads, 0.1)
    two[1].start()
    await asyncio.sleep(20)
    assert [one.leads for one in two] == [True, False]


@pytest.mark.virtual_time
async def test_the_first_replica_leads_at_once_and_the_other_is_a_standby(
    two: tuple[Operator, Operator],
) -> None:
    await one_leads(two)
    assert set(two[0].wire.server.writers) == {"a"}


@pytest.mark.virtual_time
async def test_after_kill_9_the_standby_leads_when_the_lease_has_expired(
    two: tuple[Operator, Operator],
) -> None:
    await one_leads(two)
    await two[0].kill()
    assert await until(lambda: two[1].leads, TAKE_OVER_SECONDS) > ACT_SECONDS
    assert two[1].wire.server.lease is not None
    assert two[1].wire.server.lease["leaseTransitions"] == 2


@pytest.mark.virtual_time
async def test_a_shutdown_releases_the_lease(two: tuple[Operator, Operator]) -> None:
    await one_leads(two)
    await two[0].end()
    assert not two[0].lease.may_act
    await until(lambda: two[1].leads, LOOK_SECONDS + 0.1)


@pytest.mark.virtual_time
async def test_a_container_that_restarts_in_its_pod_leads_at_once(
    two: tuple[Operator, Operator],
) -> None:
    await one_leads(two)
    await two[0].kill()
    two[0].start()
    await until(lambda: two[0].leads, 0.1)
    await asyncio.sleep(20)
    assert not two[1].leads


@pytest.mark.virtual_time
async def test_a_leader_that_is_cut_off_stops_before_the_standby_leads(
    two: tuple[Operator, Operator],
) -> None:
    """The old leader's delayed renewals are rejected when they arrive. Then it ends."""
    await one_leads(two)
    two[0].wire.whole.clear()
    stopped = await until(lambda: not two[0].leads, ACT_SECONDS + 0.1)
    begun = stopped + await until(lambda: two[1].leads, TAKE_OVER_SECONDS)
    assert begun - stopped >= LEASE_SECONDS - ACT_SECONDS - 0.02
    two[0].wire.whole.set()
    await until(lambda: two[0].ended, TIMEOUT_SECONDS + RENEW_SECONDS + 0.1)
    assert [one.leads for one in two] == [False, True]


@pytest.mark.virtual_time
async def test_leadership_counts_from_the_start_of_a_renewal(
    two: tuple[Operator, Operator],
) -> None:
    """The standby may have observed the renewal long before the response arrives."""
    await one_leads(two)
    version = two[0].wire.server.version
    two[0].wire.back = TIMEOUT_SECONDS - 0.1
    await until(lambda: two[0].wire.server.version > version, RENEW_SECONDS + 0.1)
    two[0].wire.whole.clear()
    await until(lambda: two[1].leads, TAKE_OVER_SECONDS)
    assert not two[0].leads


@pytest.mark.virtual_time
@pytest.mark.parametrize("later", [0.0, 0.5, 2.0])
async def test_after_an_outage_of_the_apiserver_the_same_leader_continues(
    two: tuple[Operator, Operator], later: float
) -> None:
    """An outage causes no takeover, even if the standby is the first to get a response."""
    await one_leads(two)
    await asyncio.sleep(RENEW_SECONDS / 2)  # both have observed the last renewal
    for one in two:
        one.wire.refuses = 500
    await asyncio.sleep(60)
    assert [one.leads for one in two] == [False, False]
    waits = asyncio.ensure_future(two[0].lease.permission())
    await asyncio.sleep(2 * PAUSE_SECONDS)
    assert not waits.done()
    two[1].wire.refuses = 0
    await asyncio.sleep(later)
    two[0].wire.refuses = 0
    with pytest.raises(RequestError, match="could not renew"):  # the write must be planned again
        await asyncio.wait_for(waits, RENEW_SECONDS + 0.1)
    await two[0].lease.permission()
    await asyncio.sleep(20)
    assert [one.leads for one in two] == [True, False]
    assert not two[0].ended


@pytest.mark.virtual_time
async def test_a_renewal_whose_response_is_lost_does_not_end_leadership(
    two: tuple[Operator, Operator],
) -> None:
    """The next renewal conflicts with the leader's own write."""
    await one_leads(two)
    two[0].wire.back = TIMEOUT_SECONDS + 0.1
    await asyncio.sleep(TIMEOUT_SECONDS)
    two[0].wire.back = 0.0
    await until(lambda: two[0].leads, RENEW_SECONDS * 2)
    await asyncio.sleep(20)
    assert [one.leads for one in two] == [True, False]
    assert set(two[0].wire.server.writers) == {"a"}


@pytest.mark.virtual_time
@pytest.mark.parametrize("what", ["deleted", "emptied"])
async def test_the_leader_survives_a_deleted_or_emptied_lease(
    two: tuple[Operator, Operator], what: str
) -> None:
    await one_leads(two)
    server = two[0].wire.server
    if what == "deleted":
        server.lease = None
    else:
        server.write(str(server.version), {"holderIdentity": ""})
    await asyncio.sleep(20)
    assert [one.leads for one in two] == [True, False]
    assert server.lease is not None
    assert server.lease["holderIdentity"] == "a"


@pytest.mark.virtual_time
async def test_a_missing_lease_is_created_after_a_while(
    two: tuple[Operator, Operator],
) -> None:
    """A new operator cannot know whether a Lease that was in use has been deleted."""
    two[0].wire.server.lease = None
    two[0].start()
    assert await until(lambda: two[0].leads, TAKE_OVER_SECONDS) >= LEASE_SECONDS


@pytest.mark.virtual_time
async def test_a_shutdown_during_a_renewal_releases_the_lease(
    two: tuple[Operator, Operator],
) -> None:
    """The Lease then has a newer version than the operator knows."""
    await one_leads(two)
    version = two[0].wire.server.version
    two[0].wire.back = 0.2
    await until(lambda: two[0].wire.server.version > version, RENEW_SECONDS + 0.1)
    await two[0].end()
    await until(lambda: two[1].leads, LOOK_SECONDS + 0.1)


@pytest.mark.virtual_time
async def test_a_response_that_is_not_a_lease_does_not_end_the_operator(
    two: tuple[Operator, Operator],
) -> None:
    await one_leads(two)
    read, write = two[0].wire.server.read, two[0].wire.server.write
    two[0].wire.server.read = dict  # type: ignore[method-assign]
    two[0].wire.server.write = lambda version, spec: {}  # type: ignore[method-assign]
    await asyncio.sleep(20)
    two[0].wire.server.read, two[0].wire.server.write = read, write  # type: ignore[method-assign]
    await asyncio.sleep(20)
    assert [one.leads for one in two] == [True, False]


def test_the_option_lease_requires_a_namespace() -> None:
    result = CliRunner().invoke(main, ["--lease", "dijob"])
    assert result.exit_code == 2
    assert "--lease 'dijob' must be NAMESPACE/NAME" in result.output
