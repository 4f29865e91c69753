"""The Lease of several operators: one acts, never two, whatever happens to their requests."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, cast

import pytest
from click.testing import CliRunner
from dijob.__main__ import main
from dijob.shell.api import Api, ApiError
from dijob.shell.connection import Call
from dijob.shell.lease import (
    ACT_SECONDS,
    LEASE_SECONDS,
    LOOK_SECONDS,
    PAUSE_SECONDS,
    RENEW_SECONDS,
    TIMEOUT_SECONDS,
    Lease,
    LeaseName,
)
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from unit.virtual import VirtualClock, VirtualLoop

Body = dict[str, Any]
PATH = "/apis/coordination.k8s.io/v1/namespaces/home/leases/dijob"
# From the end of an operator that frees nothing: it has renewed just before, the other one has
# seen that one look later, and looks again.
TAKE_OVER_SECONDS = LEASE_SECONDS + 2 * LOOK_SECONDS


@dataclass
class Server:
    """Keeps one Lease as the apiserver does: a write is for the version that it names."""

    lease: Body | None = field(default_factory=dict)
    version: int = 1
    writers: list[str] = field(default_factory=list)

    def read(self) -> Body:
        if self.lease is None:
            raise ApiError(404, "NotFound", "there is none")
        version = {"resourceVersion": str(self.version)}
        return {"metadata": version, "spec": dict(self.lease)}

    def write(self, version: str, spec: Body) -> Body:
        if version != (str(self.version) if self.lease is not None else ""):
            raise ApiError(409, "Conflict", "it has changed")
        self.lease = {**(self.lease or {}), **spec}
        self.version += 1
        self.writers.append(str(self.lease["holderIdentity"]))
        return self.read()


@dataclass
class Wire:
    """One operator's way to the server: it takes so many seconds there, and so many back; while it
    is cut, a request arrives when it is whole again.
    """

    server: Server
    there: float = 0.0
    back: float = 0.0
    refuses: int = 0
    whole: asyncio.Event = field(default_factory=asyncio.Event)

    def __post_init__(self) -> None:
        self.whole.set()

    async def _sent(self, act: Callable[[], Body]) -> Body:
        await asyncio.sleep(self.there)
        if self.refuses:
            raise ApiError(self.refuses, "InternalError", "etcdserver: request timed out")
        await self.whole.wait()
        answer = act()
        await asyncio.sleep(self.back)
        return answer

    async def call(self, call: Call) -> Body:
        """What has been sent arrives, although nobody may wait for the answer any more."""
        if call.method == "GET":
            assert call.path == PATH
            return await self._sent(self.server.read)
        assert call.body is not None
        meta, spec = call.body["metadata"], call.body["spec"]
        name = meta.get("name") or call.path.rpartition("/")[2]
        assert (call.method == "POST", name) == ("resourceVersion" not in meta, "dijob")
        version = meta.get("resourceVersion", "")
        late = self._sent(lambda: self.server.write(version, spec))
        return await asyncio.shield(asyncio.ensure_future(late))


class Operator:
    """One operator: it waits for the lease, acts, and waits no more once another one has it."""

    def __init__(self, server: Server, identity: str) -> None:
        self.wire = Wire(server)
        self.identity = identity
        self.ended = False
        self.lease: Lease
        self._task: asyncio.Task[None]

    def start(self) -> "Operator":
        """Also again, after `kill`: a new process in the same pod."""
        loop = asyncio.get_running_loop()
        name = LeaseName("home", "dijob", self.identity)
        self.lease = Lease(cast(Api, self.wire), name, VirtualClock(loop))
        self.ended = False
        self._task = loop.create_task(self._run())
        return self

    async def _run(self) -> None:
        await self.lease.acquire()
        await self.lease.keep()
        self.ended = True

    @property
    def acts(self) -> bool:
        return not self._task.cancelled() and self.lease.may_act

    async def kill(self) -> None:
        """kill -9: it does nothing any more."""
        self._task.cancel()
        await asyncio.sleep(0)

    async def end(self) -> None:
        """SIGTERM."""
        await self.kill()
        await self.lease.release()


async def until(condition: Callable[[], bool], seconds: float) -> float:
    """How long it takes; it fails after so many seconds."""
    loop = asyncio.get_running_loop()
    began = loop.time()
    while not condition():
        assert loop.time() - began <= seconds, f"not within {seconds} s"
        await asyncio.sleep(0.01)
    return loop.time() - began


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


@st.composite
def stories(draw: st.DrawFn) -> list[tuple[str, int, float]]:
    """What happens to which operator (3: to all of them), and how long until the next."""
    faults = ["cut", "slow there", "slow back", "refused", "whole", "delete", "empty"]
    ends = ["kill", "end"]
    step = st.tuples(st.sampled_from(faults + ends), st.integers(0, 3), st.floats(0.05, 9.0))
    story = draw(st.lists(step, min_size=1, max_size=14))
    # Once: an operator that has never seen any holder cannot know of one.
    hand = [what for what, _, _ in story if what in ("delete", "empty")]
    assume(len(hand) <= 1)
    return story


async def befall(one: Operator, what: str, seconds: float) -> None:
    """A fault stays until the operator's way is whole again."""
    wire = one.wire
    match what:
        case "cut":
            wire.whole.clear()
        case "slow there":
            wire.there = seconds
        case "slow back":
            wire.back = seconds
        case "refused":
            wire.refuses = 500
        case "kill" | "end":
            await (one.kill() if what == "kill" else one.end())
            one.start()  # as the kubelet does
        case "whole":
            wire.whole.set()
            wire.refuses, wire.there, wire.back = 0, 0.0, 0.0
        case "delete":
            wire.server.lease = None
        case "empty" if wire.server.lease is not None:
            wire.server.write(str(wire.server.version), {"holderIdentity": ""})


async def lived(story: list[tuple[str, int, float]]) -> None:
    """Three operators through a story: never two act, and in the end one does."""
    server = Server()
    all_ = [Operator(server, name).start() for name in "abc"]

    async def watched(seconds: float) -> None:
        end = asyncio.get_running_loop().time() + seconds
        while asyncio.get_running_loop().time() < end:
            assert sum(one.acts for one in all_) <= 1
            for one in all_:
                if one.ended:
                    one.start()
            await asyncio.sleep(0.02)

    for what, number, seconds in story:
        for one in all_ if number == len(all_) else [all_[number]]:
            await befall(one, what, seconds)
        await watched(seconds)
    for one in all_:
        await befall(one, "whole", 0)
    await watched(2 * TAKE_OVER_SECONDS + 3 * TIMEOUT_SECONDS)
    assert sum(one.acts for one in all_) == 1
    for one in all_:
        await one.kill()


@settings(max_examples=60)
@given(stories())
def test_never_two_act_whatever_happens(story: list[tuple[str, int, float]]) -> None:
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        runner.run(lived(story))


def test_a_lease_is_named_with_its_namespace() -> None:
    result = CliRunner().invoke(main, ["--lease", "dijob"])
    assert result.exit_code == 2
    assert "--lease 'dijob' must be NAMESPACE/NAME" in result.output
