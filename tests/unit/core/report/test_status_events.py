"""Changes to a status: the events for them, and how soon they are written."""

import pytest
from dijob.api.status import Renewal, Status
from dijob.core.actions import Event
from dijob.core.facts import Fact
from dijob.core.report.summary import Pressure, events, write_pressure
from dijob.reasons import (
    AddressesReady,
    Failed,
    Invalid,
    LauncherBypassed,
    PeersReady,
    PodsCreated,
    Running,
    ServiceReady,
    Succeeded,
)
from samples.summaries import having


def told(before: tuple[Fact, ...], after: tuple[Fact, ...]) -> tuple[Event, ...]:
    old = having(*before)
    return events(old, having(*after, before=old, seconds=1))


EVENTS: dict[str, tuple[tuple[Fact, ...], tuple[Fact, ...], tuple[Event, ...]]] = {
    "running": (
        (Fact(Running.Starting),),
        (Fact(Running.Begun, "all run"),),
        (Event("Running", "all run, after 1 s", False),),
    ),
    "succeeded": (
        (),
        (Fact(Succeeded.AllRanksSucceeded, "all 0"),),
        (Event("Succeeded", "all 0", False),),
    ),
    "failed": (
        (),
        (Fact(Failed.BackoffLimitExceeded, "4"),),
        (Event("BackoffLimitExceeded", "4"),),
    ),
    "invalid": ((), (Fact(Invalid.SpecInvalid, "x"),), (Event("SpecInvalid", "x"),)),
    "valid again": ((Fact(Invalid.SpecInvalid),), (Fact(Invalid.Valid),), ()),
    "bypassed": (
        (),
        (Fact(LauncherBypassed.LauncherBypassed, "x"),),
        (Event("LauncherBypassed", "x"),),
    ),
    "a rejected pod": (
        (Fact(PodsCreated.Creating),),
        (Fact(PodsCreated.PodRejected, "x"),),
        (Event("PodRejected", "x"),),
    ),
    "a list becomes stale": (
        (Fact(AddressesReady.Published),),
        (Fact(AddressesReady.PodLost, "x"),),
        (Event("PodLost", "x"),),
    ),
    "service name taken": (
        (),
        (Fact(ServiceReady.ServiceNameTaken, "x"),),
        (Event("ServiceNameTaken", "x"),),
    ),
    "pods created": ((Fact(PodsCreated.Creating),), (Fact(PodsCreated.AllCreated),), ()),
    "only the message differs": (
        (Fact(PodsCreated.PodRejected, "a"),),
        (Fact(PodsCreated.PodRejected, "b"),),
        (),
    ),
    "no longer running": ((Fact(Running.Begun),), (Fact(Running.Finished),), ()),
    **{
        f"quiet: {reason}": ((), (Fact(reason),), ())
        for reason in (
            PodsCreated.Creating,
            PodsCreated.WaitingForOldPod,
            AddressesReady.Gathering,
            AddressesReady.BrokerNotReady,
            AddressesReady.Scaled,
            Running.Starting,
            Running.Renewing,
            PeersReady.Starting,
        )
    },
}


@pytest.mark.parametrize(("before", "after", "expected"), EVENTS.values(), ids=EVENTS)
def test_which_changes_have_an_event(
    before: tuple[Fact, ...], after: tuple[Fact, ...], expected: tuple[Event, ...]
) -> None:
    assert told(before, after) == expected
    assert told(after, after) == ()


def test_a_reason_that_recurs_has_an_event_again() -> None:
    assert len(told((Fact(Running.Renewing),), (Fact(Running.Begun),))) == 1


SEEN = having(Fact(Running.Starting))
ONE_RANK = having(Fact(AddressesReady.AddressMissing, "rank 0: waits"), before=SEEN)
BOTH_RANKS = having(Fact(AddressesReady.AddressMissing, "ranks 0-1: waits"), before=ONE_RANK)


@pytest.mark.parametrize(
    ("old", "new", "soon"),
    [
        (Status(), SEEN, Pressure.SOON),
        (Status(), having(Fact(PodsCreated.PodRejected)), Pressure.AT_ONCE),
        (Status(), having(Fact(PodsCreated.WaitingForOldPod)), Pressure.AT_ONCE),
        (SEEN, SEEN.model_copy(update={"ready_replicas": 2}), Pressure.RARELY),
        (SEEN, having(Fact(AddressesReady.Published), before=SEEN), Pressure.RARELY),
        (SEEN, SEEN.model_copy(update={"succeeded_ranks": "0"}), Pressure.SOON),
        (SEEN, having(Fact(PeersReady.AllRanksReady), before=SEEN), Pressure.SOON),
        (SEEN, having(Fact(AddressesReady.AddressMissing), before=SEEN), Pressure.SOON),
        (ONE_RANK, SEEN, Pressure.SOON),
        (ONE_RANK, BOTH_RANKS, Pressure.SOON),
        (
            SEEN,
            SEEN.model_copy(update={"last_renewal": Renewal(list_number=1)}),
            Pressure.AT_ONCE,
        ),
        (SEEN, having(Fact(Running.Begun), before=SEEN), Pressure.AT_ONCE),
        (SEEN, having(Fact(Succeeded.AllRanksSucceeded), before=SEEN), Pressure.AT_ONCE),
        (SEEN, having(Fact(Failed.BackoffLimitExceeded), before=SEEN), Pressure.AT_ONCE),
    ],
    ids=[
        "first-sight",
        "first-sight-of-a-problem",
        "applied-while-the-old-one-ends",
        "count",
        "step-on-the-way",
        "success",
        "together-again",
        "problem",
        "problem-that-is-over",
        "problem-of-one-rank-more",
        "list-died",
        "running",
        "succeeded",
        "failed",
    ],
)
def test_how_soon_a_change_is_written(old: Status, new: Status, soon: Pressure) -> None:
    assert write_pressure(old, new) is soon
