"""Random stories of three operators and a Lease: never two leaders, and one at the end."""

import asyncio

from dijob.controller.leader.lease import TIMEOUT_SECONDS
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from simulator.leader_election import TAKE_OVER_SECONDS, Operator, Server
from simulator.virtual import VirtualLoop


@st.composite
def stories(draw: st.DrawFn) -> list[tuple[str, int, float]]:
    """Draw faults: what happens, to which operator (3: to all), and the time until the next."""
    faults = ["cut", "slow there", "slow back", "refused", "repaired", "delete", "empty"]
    ends = ["kill", "end"]
    step = st.tuples(st.sampled_from(faults + ends), st.integers(0, 3), st.floats(0.05, 9.0))
    story = draw(st.lists(step, min_size=1, max_size=14))
    # At most once: an operator that has never observed a holder cannot know that there is one.
    hand = [what for what, _, _ in story if what in ("delete", "empty")]
    assume(len(hand) <= 1)
    return story


async def inject(one: Operator, what: str, seconds: float) -> None:
    """Apply a fault, which lasts until the operator's connection is repaired."""
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
        case "repaired":
            wire.whole.set()
            wire.refuses, wire.there, wire.back = 0, 0.0, 0.0
        case "delete":
            wire.server.lease = None
        case "empty" if wire.server.lease is not None:
            wire.server.write(str(wire.server.version), {"holderIdentity": ""})


async def lived(story: list[tuple[str, int, float]]) -> None:
    """Run three operators through a story and check that there are never two leaders."""
    server = Server()
    all_ = [Operator(server, name).start() for name in "abc"]

    async def watched(seconds: float) -> None:
        end = asyncio.get_running_loop().time() + seconds
        while asyncio.get_running_loop().time() < end:
            assert sum(one.leads for one in all_) <= 1
            for one in all_:
                if one.ended:
                    one.start()
            await asyncio.sleep(0.02)

    for what, number, seconds in story:
        for one in all_ if number == len(all_) else [all_[number]]:
            await inject(one, what, seconds)
        await watched(seconds)
    for one in all_:
        await inject(one, "repaired", 0)
    await watched(2 * TAKE_OVER_SECONDS + 3 * TIMEOUT_SECONDS)
    assert sum(one.leads for one in all_) == 1
    for one in all_:
        await one.kill()


@settings(max_examples=60)
@given(stories())
def test_there_are_never_two_leaders(story: list[tuple[str, int, float]]) -> None:
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        runner.run(lived(story))
