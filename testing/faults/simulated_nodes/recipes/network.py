"""Recipes about the connection to the apiserver: it breaks, is slow, or delivers errors or wrong
data.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial

from faults.lab.exchange import Asked, Fault
from faults.lab.lane import Lane
from faults.lab.proxy import Proxy
from faults.simulated_nodes.life import Lived, Trouble, end, live
from faults.simulated_nodes.mischief import (
    StaleLists,
    always,
    doubled,
    lost,
    reordered,
    replayed,
    sometimes,
)
from faults.simulated_nodes.rows import Outcome, Recipe
from faults.simulated_nodes.stage import Stage

GONE = {"kind": "Status", "code": 410, "reason": "Expired", "message": "too old"}
BROKEN = {"kind": "Status", "code": 500, "reason": "InternalError", "message": "etcd"}
FIRST = "seconds to a new job's first pod"
FIRST_AFTER = f"{FIRST}, from the end of the fault"
WRITES = "writes relative to the run without faults"
DIFFERENCES = "differences from the run without faults"


@asynccontextmanager
async def answered(fault: Fault, lane: Lane) -> AsyncIterator[None]:
    """Every request gets this response, and watches are cut."""
    lane.proxy.answer = always(fault)
    lane.proxy.cut_watches()
    yield
    lane.proxy.answer = lambda asked: None


@asynccontextmanager
async def cut(lane: Lane) -> AsyncIterator[None]:
    assert lane.proxy.cut_watches() >= 3
    yield


@asynccontextmanager
async def told(error: dict[str, object], rejections: int, lane: Lane) -> AsyncIterator[None]:
    """End all watches with this error. Then reject the next `rejections` watch requests with the
    same error. Streaming lists are not rejected.
    """
    left = rejections

    def first(asked: Asked) -> Fault | None:
        nonlocal left
        if asked.watch and not asked.initial and left > 0:
            left -= 1
            return Fault(int(str(error["code"])), reason=str(error["reason"]))
        return None

    lane.proxy.answer = first
    assert await lane.proxy.tell_watches({"type": "ERROR", "object": error}) >= 3
    yield


@asynccontextmanager
async def stalled(lane: Lane) -> AsyncIterator[None]:
    lane.proxy.stall()
    yield


@asynccontextmanager
async def writes_refused(lane: Lane) -> AsyncIterator[None]:
    lane.proxy.answer = lambda asked: Fault(429, 1, "TooManyRequests") if asked.write else None
    yield
    lane.proxy.answer = lambda asked: None


@asynccontextmanager
async def slow(seconds: float, lane: Lane) -> AsyncIterator[None]:
    lane.proxy.delay = lambda asked: seconds
    yield


def hooked(stage: Stage, name: str, hook: Callable[[Proxy, Stage], None]) -> Trouble:
    """Return a fault that lasts until the end. `hook` sets an attribute of the proxy, such as
    `retell`, to a function that changes the proxy's behavior.
    """

    @asynccontextmanager
    async def trouble(lane: Lane) -> AsyncIterator[None]:
        hook(lane.proxy, stage)
        # The function applies only to new watches.
        lane.proxy.cut_watches()
        yield

    return trouble


async def first_of(trouble: Trouble, seconds: float | None, stage: Stage) -> Outcome:
    lived = await live(stage, trouble, seconds)
    return lived.outcome(lived.first)


async def dies_of(trouble: Trouble, stage: Stage) -> Outcome:
    """Like `first_of`, but the fault must make the operator exit. It is then restarted."""
    lived = await live(stage, trouble)
    outcome = lived.outcome(lived.first)
    # An exit code of 0 would mean that the operator took the fault for a normal end.
    if lived.codes and all(lived.codes):
        return outcome
    return Outcome(outcome.figure, outcome.seen, (*outcome.wrong, f"exit codes {lived.codes}"))


async def refused_per_second(seconds: float, stage: Stage) -> Outcome:
    lived = await live(stage, writes_refused, seconds)
    return lived.outcome(lived.faults / seconds)


async def writes_of(trouble: Callable[[Stage], Trouble], stage: Stage) -> Outcome:
    """Return the number of writes relative to the run without faults."""
    lived = await live(stage, trouble(stage))
    # The number of writes of the run without a fault. All recipes share this run.
    usual = (await stage.once("end", lambda: end(stage))).writes
    outcome = lived.outcome(lived.writes / usual)
    return Outcome(
        outcome.figure, f"{outcome.seen}; false responses: {lived.faults}", outcome.wrong
    )


async def differences_of(trouble: Callable[[Stage], Trouble], stage: Stage) -> Outcome:
    lived = await live(stage, trouble(stage))
    return _counted(lived)


def _counted(lived: Lived) -> Outcome:
    return lived.outcome(len(lived.wrong))


def percent(status: int) -> Callable[[Stage], Trouble]:
    def hook(proxy: Proxy, stage: Stage) -> None:
        proxy.answer = sometimes(stage.dice(f"percent {status}"), 0.05, Fault(status))

    return lambda stage: hooked(stage, f"{status}", hook)


def slowly(seconds: float) -> Callable[[Stage], Trouble]:
    return lambda stage: partial(slow, seconds)


def retold(name: str, stage: Stage) -> Trouble:
    """Return a watch fault: events arrive twice, out of order, or again after later events."""
    dice = stage.dice(name)
    retell = {
        "doubled": doubled(dice, 0.5),
        "reordered": reordered(dice),
        "replayed": replayed(dice, 0.5),
    }[name]

    def hook(proxy: Proxy, stage: Stage) -> None:
        proxy.retell = retell

    return hooked(stage, name, hook)


def dropped(stage: Stage) -> Trouble:
    """Events are lost until the apiserver ends the watch with 410 (too old)."""

    @asynccontextmanager
    async def trouble(lane: Lane) -> AsyncIterator[None]:
        lane.proxy.retell = lost(stage.dice("dropped"), 0.5)

        async def ends() -> None:
            await asyncio.sleep(10)
            # After the 410, the operator lists the objects again, and so learns what it has missed.
            lane.proxy.retell = lambda watch, line: [line]
            await lane.proxy.tell_watches({"type": "ERROR", "object": GONE})

        task = asyncio.create_task(ends())
        yield
        await task

    return trouble


def behind(stage: Stage) -> Trouble:
    """The operator is killed. The next operator gets outdated lists, which lack the last writes of
    the killed one.
    """

    @asynccontextmanager
    async def trouble(lane: Lane) -> AsyncIterator[None]:
        lists = StaleLists()
        lane.proxy.answer, lane.proxy.change = lists.no_stream, lists.remember
        await lane.operator.kill()  # `live` restarts it
        await lane.watching()
        await lane.reconciled(3)
        lists.behind = True

        async def dies() -> None:
            await asyncio.sleep(1)
            lane.operator.end()

        task = asyncio.create_task(dies())
        yield
        await task
        # Otherwise the fault had no effect, and the recipe would test nothing.
        assert lists.answered >= 3, f"{lists.answered} lists were answered from memory"

    return trouble


def _row(number: str, name: str, done: str, bound: float, trouble: Trouble) -> Recipe:
    return Recipe(number, name, done, FIRST, bound, partial(first_of, trouble, None))


def _for(number: str, name: str, done: str, seconds: float, fault: Fault) -> Recipe:
    trouble = partial(answered, fault)
    measured = partial(first_of, trouble, seconds)
    return Recipe(
        # After a 401 response, the operator exits and is restarted with a back-off. This takes
        # longer than a retry.
        number,
        name,
        done,
        FIRST_AFTER,
        20 if fault.status in (401, 403) else 10,
        measured,
    )


def _same(name: str, done: str, trouble: Callable[[Stage], Trouble], alone: bool = False) -> Recipe:
    measured = partial(differences_of, trouble)
    return Recipe("T11", name, done, DIFFERENCES, 0, measured, alone)


def _cost(name: str, done: str, trouble: Callable[[Stage], Trouble]) -> Recipe:
    return Recipe("T10", name, done, WRITES, 1.5, partial(writes_of, trouble))


UNAVAILABLE = Fault(503, reason="ServiceUnavailable")
RECIPES = (
    _row("T2", "cut", "all watches are cut (RST)", 3, cut),
    _row(
        "T3",
        "gone",
        "all watches end with ERROR 410, and the next three watch requests get HTTP 410",
        5,
        partial(told, GONE, 3),
    ),
    Recipe(
        "T4",
        "broken",
        "all watches end with ERROR 500: the process exits and is restarted",
        FIRST,
        20,
        partial(dies_of, partial(told, BROKEN, 0)),
    ),
    _for("T5", "503-20", "503 to all requests for 20 s", 20, UNAVAILABLE),
    _for("T5", "503-70", "503 to all requests for 70 s", 70, UNAVAILABLE),
    Recipe(
        "T6",
        "429",
        "429 with `Retry-After: 1` to all writes for 80 s",
        "rejected writes per second",
        3,
        partial(refused_per_second, 80),
    ),
    _for("T7", "403", "403 to all requests for 70 s", 70, Fault(403, reason="Forbidden")),
    _for("T7", "401", "401 to all requests for 20 s", 20, Fault(401, reason="Unauthorized")),
    _for("T8", "resets", "each request's connection is reset (RST) for 70 s", 70, Fault(0)),
    _row(
        "T9",
        "stall",
        "all open connections stall: no data arrives, and no connection is closed",
        75,
        stalled,
    ),
    _cost("slow", "each request takes 0.5 s longer", slowly(0.5)),
    _cost("slower", "each request takes 2 s longer", slowly(2)),
    _cost("409", "5 % of the requests, at random, are answered with 409", percent(409)),
    _cost("500", "5 % of the requests, at random, are answered with 500", percent(500)),
    _same("doubled", "half of the watch events arrive twice", partial(retold, "doubled")),
    _same("reordered", "watch events arrive in another order", partial(retold, "reordered")),
    _same(
        "replayed",
        "half of the watch events are followed by a copy of the first event of their object",
        partial(retold, "replayed"),
    ),
    _same("dropped", "half of the watch events are lost for 10 s, then ERROR 410", dropped),
    # This recipe does not run together with others, because their changes would push the old
    # versions out of the apiserver's watch cache.
    _same(
        "behind",
        "kill -9; the next operator gets lists that are older than its own writes",
        behind,
        alone=True,
    ),
)
