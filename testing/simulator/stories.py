"""Stories of a job. Each story is also replayed with the operator killed before each of its
writes.
"""

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from functools import partial
from typing import Any

from dijob.names import CleanPodPolicy, ServicePolicy

from simulator.driving import ROUND_SECONDS, Faults
from simulator.state_machine import (
    ACTIVATE,
    DEACTIVATE,
    EVICT,
    QUOTA,
    TIMEOUT,
    UNQUEUE,
    Chaos,
)

# Rounds until a job runs. In the first one, its pods and Service are created. In the next ones, the
# pods are scheduled and get lists, then they start, and then they become Ready and the status shows
# this.
TO_RUN = 4
# Everything must happen within this time, without waiting for the next resync.
REST_SECONDS = 70.0
# (rounds without faults, the name of the action that follows, and the index of the pod among the
# pods to which the action applies)
Step = tuple[int, str, int]
# (a function that plays a whole part of a story, and a function that plays the rest of this part if
# the operator was killed in the middle of it)
Part = tuple[Callable[[Chaos], None], Callable[[Chaos], None]]
LOOK = "the operator looks"
SCALE = "is scaled to"
SUSPEND, RESUME, TIME = "is suspended", "is resumed", "seconds pass"
SERVER = "loses its Redis server"
ASKS = "changes its budget"
# Ranks above the minimum are added one after the other.
ELASTIC_TO_RUN = TO_RUN + 2
# Before the pods of a job with a queue are created, Kueue must admit the job.
QUEUED_TO_RUN = TO_RUN + 3
STORIES: dict[str, tuple[Step, ...]] = {
    "starts": (),
    "pod deleted by hand": ((TO_RUN, "is deleted by hand", 1),),
    "pod deleted before the first list": ((1, "places it", 0), (0, "is deleted by hand", 0)),
    "pod fails before the first list": ((1, "places it", 0), (0, "fails for good", 0)),
    "pod evicted": ((TO_RUN, "is evicted", 0),),
    "node lost": ((TO_RUN, "loses its node", 2),),
    "sandbox lost": ((TO_RUN, "loses its sandbox", 1), (0, LOOK, 0)),
    "crashes until it fails": (
        (TO_RUN, "main crashes", 1),
        (2, "main crashes", 1),
        (2, "main crashes", 1),
    ),
    "one succeeds, another is lost": ((TO_RUN, "succeeds", 0), (0, "is deleted by hand", 1)),
    "all succeed": ((TO_RUN, "succeeds", 0), (0, "succeeds", 0), (0, "succeeds", 0)),
    "lost twice": ((TO_RUN, "is deleted by hand", 1), (2, "is deleted by hand", 0)),
    "lower rank lost during a re-rendezvous": (
        (TO_RUN, "is deleted by hand", 2),
        (1, "is deleted by hand", 1),
    ),
    "crashes while it is lost": ((TO_RUN, "main crashes", 0), (0, "is deleted by hand", 1)),
    "grows": ((ELASTIC_TO_RUN, SCALE, 4),),
    "shrinks": ((ELASTIC_TO_RUN, SCALE, 2),),
    "up and down and up": ((ELASTIC_TO_RUN, SCALE, 4), (1, SCALE, 2), (1, SCALE, 4)),
    "loses a rank while it grows": ((ELASTIC_TO_RUN, SCALE, 4), (1, "is deleted by hand", 1)),
    "loses a rank while it shrinks": ((ELASTIC_TO_RUN, "is deleted by hand", 0), (0, SCALE, 2)),
    "crashes while it shrinks": ((ELASTIC_TO_RUN, "main crashes", 2), (0, SCALE, 2)),
    "its list is forged": ((1, "places it", 0), (0, "its list is forged", 0)),
    "its list is forged while it runs": ((TO_RUN, "its list is forged", 0),),
    "its list is forged, and another is lost": (
        (TO_RUN, "its list is forged", 0),
        (0, "is deleted by hand", 1),
    ),
    "its renewal is forged": ((TO_RUN, "its renewal is forged", 1), (0, LOOK, 0)),
    "its label is taken off": ((TO_RUN, "its label is taken off", 1), (0, LOOK, 0)),
    "succeeds and is scaled down": ((ELASTIC_TO_RUN, "succeeds", 2), (0, SCALE, 2), (2, SCALE, 4)),
}


# (additional features of the job, the steps)
LIVES: dict[str, tuple[str, tuple[Step, ...]]] = {
    "suspended and resumed": ("nothing", ((TO_RUN, SUSPEND, 0), (3, RESUME, 0))),
    "suspended before the first list": ("nothing", ((1, SUSPEND, 0), (2, RESUME, 0))),
    "resumed at once": ("nothing", ((TO_RUN, SUSPEND, 0), (1, RESUME, 0))),
    "crashes while it is suspended": ("nothing", ((TO_RUN, "main crashes", 1), (0, SUSPEND, 0))),
    "a rank has succeeded before": (
        "nothing",
        ((TO_RUN, "succeeds", 1), (0, SUSPEND, 0), (3, RESUME, 0)),
    ),
    "suspended during a re-rendezvous": (
        "nothing",
        ((TO_RUN, "is deleted by hand", 1), (2, SUSPEND, 0), (2, RESUME, 0)),
    ),
    "a deadline does not count a suspension": (
        "a deadline",
        ((TO_RUN, SUSPEND, 0), (2, TIME, 5000), (0, RESUME, 0)),
    ),
    "a deadline ends it": ("a deadline", ((TO_RUN, TIME, 901), (0, LOOK, 0))),
    "the learner succeeds": ("tasks", ((TO_RUN, "succeeds", 0),)),
    "tasks are suspended": ("tasks", ((TO_RUN, SUSPEND, 0), (3, RESUME, 0))),
    "a learner of a group is lost": ("learners", ((TO_RUN, "is deleted by hand", 1),)),
    "a collector beside a group is lost": (
        "learners",
        ((TO_RUN, "succeeds", 0), (1, "is deleted by hand", 2)),
    ),
    "a learner of a group crashes after a success": (
        "learners",
        ((TO_RUN, "succeeds", 0), (0, "main crashes", 1)),
    ),
    "a learner exits 0 while another is lost": (
        "learners",
        ((TO_RUN, "is deleted by hand", 1), (0, LOOK, 0), (0, "succeeds", 0)),
    ),
    "a group is suspended after a success": (
        "learners",
        ((TO_RUN, "succeeds", 1), (0, SUSPEND, 0), (3, RESUME, 0)),
    ),
    "two losses, one of them in a group": (
        "trainers",
        ((TO_RUN, "succeeds", 2), (0, "is deleted by hand", 0), (1, "is deleted by hand", 1)),
    ),
    "a group grows while another rank is lost": (
        "trainers",
        ((ELASTIC_TO_RUN, "is deleted by hand", 0), (1, SCALE, 4)),
    ),
    "the last task is scaled and edited": (
        "tasks",
        ((ELASTIC_TO_RUN, SCALE, 4), (1, SCALE, 2), (1, SCALE, 4)),
    ),
    "the last task is edited while a collector is lost": (
        "tasks",
        ((ELASTIC_TO_RUN, "is deleted by hand", 2), (0, SCALE, 2)),
    ),
    "rank 0 succeeds": ("success of rank 0", ((TO_RUN, "succeeds", 0),)),
    "a failure ends it": ("failures end it", ((TO_RUN, "main crashes", 1),)),
    "a failure restarts all ranks": ("failures renew all", ((TO_RUN, "main crashes", 2),)),
    "a failure does not count": (
        "failures cost nothing",
        ((TO_RUN, "main crashes", 1), (2, "main crashes", 2)),
    ),
    "an eviction counts": ("disruptions cost", ((TO_RUN, "is evicted", 1),)),
    "an eviction before the first list counts": (
        "disruptions cost",
        ((1, "places it", 0), (0, "is evicted", 0)),
    ),
    "its Redis server is suspended with it": ("redis", ((TO_RUN, SUSPEND, 0), (3, RESUME, 0))),
    "its Redis server is lost": ("redis", ((TO_RUN, SERVER, 0), (1, "is deleted by hand", 1))),
    "its Redis server crashes": ("redis", ((TO_RUN, SERVER, 2), (1, "is deleted by hand", 1))),
    "its Redis server is lost before the first list": ("redis", ((1, SERVER, 0), (0, SERVER, 1))),
    "a succeeded rank restarts with a lost one": (
        "torch",
        ((TO_RUN, "succeeds", 0), (1, "is deleted by hand", 1)),
    ),
    "a succeeded rank restarts with a crashed one": (
        "torch",
        ((TO_RUN, "succeeds", 0), (0, "main crashes", 1)),
    ),
    "a succeeded rank without a pod restarts": (
        "torch",
        (
            (TO_RUN, "succeeds", 0),
            (1, TIME, 5),
            (0, "is deleted by hand", 0),
            (1, "main crashes", 0),
        ),
    ),
    "a rank exits 0 while another is lost": (
        "torch",
        ((TO_RUN, "is deleted by hand", 1), (0, LOOK, 0), (0, "succeeds", 0)),
    ),
    "a succeeded rank restarts after an ignored failure": (
        "torch, failures cost nothing",
        ((TO_RUN, "succeeds", 0), (1, TIME, 5), (0, "main crashes", 1)),
    ),
    "a succeeded rank restarts when the job is resumed": (
        "torch",
        ((TO_RUN, "succeeds", 1), (0, SUSPEND, 0), (3, RESUME, 0)),
    ),
    "the job does not grow after a success": (
        "torch",
        ((ELASTIC_TO_RUN, "succeeds", 0), (1, SCALE, 4)),
    ),
    "the job shrinks after a success": (
        "torch",
        ((ELASTIC_TO_RUN, "succeeds", 0), (1, SCALE, 2)),
    ),
    "a gang starts": ("gang", ()),
    "a gang loses a rank": ("gang", ((TO_RUN, "is deleted by hand", 1),)),
    "a gang loses a rank after a success": (
        "gang",
        ((TO_RUN, "succeeds", 0), (0, "is deleted by hand", 1)),
    ),
    "a gang loses all ranks after a success": (
        "torch gang",
        ((TO_RUN, "succeeds", 0), (0, "main crashes", 1), (1, "is deleted by hand", 1)),
    ),
    "a gang is suspended and resumed": ("gang", ((TO_RUN, SUSPEND, 0), (3, RESUME, 0))),
    "a gang is resumed at once": ("gang", ((TO_RUN, SUSPEND, 0), (1, RESUME, 0))),
    "a gang grows": ("gang", ((ELASTIC_TO_RUN, SCALE, 4),)),
    "a gang shrinks and loses a rank": (
        "gang",
        ((ELASTIC_TO_RUN, SCALE, 2), (1, "is deleted by hand", 0)),
    ),
    "a queued job starts": ("queue", ()),
    "a queued job loses a rank": ("queue", ((QUEUED_TO_RUN, "is deleted by hand", 1),)),
    "a queued job is evicted": ("queue", ((QUEUED_TO_RUN, EVICT, 0),)),
    "a queued job is evicted for a while": ("queue", ((QUEUED_TO_RUN, TIMEOUT, 0),)),
    "a queued job is evicted before its first list": ("queue", ((3, EVICT, 0),)),
    "a queued job is evicted after a success": (
        "queue",
        ((QUEUED_TO_RUN, "succeeds", 1), (1, TIME, 5), (0, EVICT, 0)),
    ),
    "a queued job crashes while it is evicted": (
        "queue",
        ((QUEUED_TO_RUN, "main crashes", 1), (0, EVICT, 0)),
    ),
    "a queued torch job is evicted after a success": (
        "torch queue",
        ((QUEUED_TO_RUN, "succeeds", 1), (1, EVICT, 0)),
    ),
    "a queued torch job loses a rank": (
        "torch queue",
        ((QUEUED_TO_RUN, "succeeds", 0), (1, TIME, 5), (0, "is deleted by hand", 1)),
    ),
    "a queued job is deactivated": (
        "queue",
        ((QUEUED_TO_RUN, DEACTIVATE, 0), (3, ACTIVATE, 0)),
    ),
    "a queued job loses its Workload": ("queue", ((QUEUED_TO_RUN, UNQUEUE, 0),)),
    "a queued job is suspended and resumed": (
        "queue",
        ((QUEUED_TO_RUN, SUSPEND, 0), (3, RESUME, 0)),
    ),
    "a queued job is suspended while it is evicted": (
        "queue",
        ((QUEUED_TO_RUN, EVICT, 0), (1, SUSPEND, 0), (2, RESUME, 0)),
    ),
    "a queued job shrinks": ("queue", ((QUEUED_TO_RUN + 2, SCALE, 2),)),
    "a queued job grows": ("queue", ((QUEUED_TO_RUN + 2, SCALE, 4),)),
    "a queued job waits for quota and grows": (
        "queue",
        ((QUEUED_TO_RUN + 2, QUOTA, 3), (0, SCALE, 4), (4, QUOTA, 4)),
    ),
    "a queued job shrinks and grows back": (
        "queue",
        ((QUEUED_TO_RUN + 2, SCALE, 2), (4, SCALE, 3)),
    ),
    "a queued job is evicted while it waits to grow": (
        "queue",
        ((QUEUED_TO_RUN + 2, QUOTA, 3), (0, SCALE, 4), (3, EVICT, 0), (0, QUOTA, 4)),
    ),
    "a queued job is scaled while it waits to grow": (
        "queue",
        ((QUEUED_TO_RUN + 2, QUOTA, 3), (0, SCALE, 4), (3, SCALE, 2)),
    ),
    "a queued job with tasks starts": ("queued tasks", ()),
    "a queued job with tasks is evicted after a success": (
        "queued tasks",
        ((QUEUED_TO_RUN, "succeeds", 2), (1, TIME, 5), (0, EVICT, 0)),
    ),
    "a queued job with tasks waits for quota and grows": (
        "queued tasks",
        ((QUEUED_TO_RUN + 2, QUOTA, 3), (0, SCALE, 4), (4, QUOTA, 4)),
    ),
    "a queued job with tasks shrinks and grows back": (
        "queued tasks",
        ((QUEUED_TO_RUN + 2, SCALE, 2), (4, SCALE, 3)),
    ),
    "a budget counts no succeeded rank": ("budget", ((TO_RUN, "succeeds", 0),)),
    "a budget outlives a lost rank": ("budget", ((TO_RUN, "is deleted by hand", 1),)),
    "a budget is suspended and resumed": ("budget", ((TO_RUN, SUSPEND, 0), (3, RESUME, 0))),
    "a budget is resumed at once": ("budget", ((TO_RUN, SUSPEND, 0), (1, RESUME, 0))),
    "a budget grows": ("budget", ((ELASTIC_TO_RUN, SCALE, 4),)),
    "a budget shrinks": ("budget", ((ELASTIC_TO_RUN, SCALE, 2),)),
    "a budget becomes smaller": ("budget", ((TO_RUN, ASKS, 0),)),
    "a budget is removed": ("budget", ((TO_RUN, ASKS, -1),)),
    "a budget is removed and comes back": ("budget", ((TO_RUN, ASKS, -1), (1, ASKS, 2))),
    "a job with a budget ends": (
        "budget",
        ((TO_RUN, "succeeds", 0), (0, "succeeds", 0), (0, "succeeds", 0)),
    ),
    "the time to live ends": (
        "a time to live",
        ((TO_RUN, "succeeds", 0), (0, "succeeds", 0), (0, "succeeds", 0)),
    ),
}


RENEWALS: dict[str, tuple[Step, ...]] = {
    "crashes before it has the request": (
        (TO_RUN, "is deleted by hand", 1),
        (3, "main crashes", 1),
    ),
    "crashes after its restart": ((TO_RUN, "is deleted by hand", 1), (6, "main crashes", 2)),
    "never sees the request": ((TO_RUN, "hears of no renewal", 2), (0, "is deleted by hand", 1)),
    "is lost before it has the request": (
        (TO_RUN, "is deleted by hand", 0),
        (3, "is deleted by hand", 1),
    ),
    "loses its sandbox": ((TO_RUN, "is deleted by hand", 0), (1, "loses its sandbox", 1)),
    "succeeds before it has the request": ((TO_RUN, "is deleted by hand", 1), (2, "succeeds", 1)),
    "is scaled down": ((ELASTIC_TO_RUN, "is deleted by hand", 0), (2, SCALE, 2)),
    "ends without a record": (
        (TO_RUN, "is deleted by hand", 1),
        (1, TIME, 5),
        (3, "launcher renews it", 0),
        (0, "starts it", 1),
        (0, "collects its record", 0),
    ),
}

# A training run that makes no progress, and what happens to it in the meantime. Rank 0 restarts
# once.
STALLS: dict[str, tuple[Step, ...]] = {
    "stalls": ((TO_RUN, "makes progress", 0), (0, TIME, 12)),
    "stalls again": ((TO_RUN, "makes progress", 0), (0, TIME, 12), (4, "makes progress", 0)),
    "is lost while it stalls": (
        (TO_RUN, "makes progress", 0),
        (0, TIME, 10),
        (0, "is deleted by hand", 1),
    ),
    "crashes while it stalls": (
        (TO_RUN, "makes progress", 0),
        (0, TIME, 11),
        (0, "main crashes", 0),
    ),
    "goes on after its stall was noticed": (
        (TO_RUN, "makes progress", 0),
        (0, TIME, 10),
        (0, "makes progress", 0),
    ),
}

# The shape of a job whose pods have a channel in place of a gate.
CHANNEL: dict[str, Any] = {
    "channel": True,
    "sidecar": False,
    "service": ServicePolicy.AUTO,
}


def begun(steps: Sequence[Step], **shape: Any) -> Chaos:
    chaos = Chaos()
    elastic = any(deed == SCALE for _, deed, _ in steps)
    usual = {"never": False, "sidecar": True, "limit": 2, "least": 1 if elastic else 4}
    chaos.begin(3, CleanPodPolicy.RUNNING, **usual | shape)
    chaos.patience = REST_SECONDS
    return chaos


def parts_of(steps: Sequence[Step]) -> list[Part]:
    """Return the parts of a story from its beginning until everything is idle.

    A story without events continues to the job's end. Each part is a pair of functions. The first
    plays the whole part. If the operator was killed during the part, the second plays the rest.
    """
    parts: list[Part] = []
    for rounds, deed, index in steps:
        parts += [(a_round, end_of_round)] * rounds
        parts.append(
            (partial(step, deed=deed, index=index), end_of_step if deed != TIME else nothing_more)
        )
    parts.append((Chaos.rests, rests_again))
    return parts if steps else [*parts, (Chaos.succeeds, ends_again)]


def a_round(chaos: Chaos) -> None:
    chaos.it_goes_on_until_a_fault(0, Faults())
    chaos.check_everything()


def end_of_round(chaos: Chaos) -> None:
    chaos.recovers()
    chaos.hears(False)
    chaos.check_everything()


def end_of_step(chaos: Chaos) -> None:
    chaos.recovers()


def nothing_more(chaos: Chaos) -> None:
    """Do nothing more: the operator is restarted later."""


def rests_again(chaos: Chaos) -> None:
    chaos.recovers()
    chaos.check_everything()
    chaos.rests()


def ends_again(chaos: Chaos) -> None:
    chaos.recovers()
    chaos.check_everything()
    chaos.comes_to_its_end()


def step(chaos: Chaos, deed: str, index: int) -> None:
    if deed == LOOK:
        chaos.hears(True)
        chaos.goes_on(Faults(), ROUND_SECONDS)
    elif deed == SCALE:
        chaos.user_scales(index)
    elif deed == QUOTA:
        chaos.quota_changes(index, False)
    elif deed in (EVICT, TIMEOUT, DEACTIVATE, ACTIVATE, UNQUEUE):
        chaos.queue_decides(deed)
    elif deed in (SUSPEND, RESUME):
        chaos.user_suspends(deed == SUSPEND)
    elif deed == SERVER:
        chaos.server_is_lost(("deleted", "evicted", "crashes")[index])
    elif deed == ASKS:
        chaos.user_changes_budget(index if index >= 0 else None)
    elif deed == TIME:
        chaos.time_passes(index)
    else:
        chaos.happens(deed, index)


def play_with_each_kill(story: str, **shape: Any) -> None:
    """Play a story, and each variant in which the operator is killed before one of its writes.

    The variants differ only after the kill, so what comes before it is played only once. The
    operator is not killed before the first event: the story without events covers these kills.
    """
    steps = {
        **STORIES,
        **RENEWALS,
        **STALLS,
        **{name: steps for name, (_, steps) in LIVES.items()},
    }[story]
    parts, kills = parts_of(steps), list[tuple[int, Chaos]]()
    with ExitStack() as worlds:

        def killed(number: int) -> None:
            twin = Chaos()
            chaos.killed(twin)
            worlds.callback(twin.close)
            kills.append((number, twin))

        chaos = begun(steps, **shape)
        worlds.callback(chaos.close)
        for number, (part, _) in enumerate(parts):
            begun_to_happen = not steps or number >= steps[0][0]
            chaos.about_to_write = partial(killed, number) if begun_to_happen else None
            part(chaos)
        chaos.about_to_write = None
        if steps:
            chaos.succeeds()
        assert kills
        for count, (number, twin) in enumerate(kills, 1):
            try:
                twin.time_goes_on(twin.left)
                parts[number][1](twin)
                # With steps, a variant is played only until the system is at rest, because all
                # variants continue in the same way from there.
                for part, _ in parts[number + 1 :]:
                    part(twin)
            except AssertionError as error:
                error.add_note(f"killed before write {count} of {len(kills)}")
                raise
