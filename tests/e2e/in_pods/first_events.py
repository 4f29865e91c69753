"""Sends a first event in each pod of a job, and records who receives it (test_first_events.py).

    first_events.py MODE:RUNS ...

Each run is a process, forked from one that has imported DI-engine, which takes seconds. It sends
"hello" as its first event, and subscribes a moment later. All ranks synchronize before the next
run. Each prints a line of JSON for every run.

task      sends with DI-engine's task, which one rank then finishes: all must receive the end
bare      sends with Parallel, and never calls task.run
listener  as task, but rank 1 sends nothing
late      as task, but the last rank starts LATE seconds after the others
lost      a single run: sends, replies to ranks that come back, and runs until it is ended
"""

from __future__ import annotations

import gc
import json
import os
import random
import socket
import sys
import time
import traceback
from collections import Counter
from collections.abc import Callable
from typing import Any

import ding.framework.middleware  # noqa: F401 (Parallel does it in each run, for seconds)
from ding.framework import Parallel, task
from ding.framework.context import Context

RANK, SIZE = int(os.environ["DI_RANK"]), int(os.environ["DI_WORLD_SIZE"])
MEETING_PORT = 40000
LATE = 30.0
PATIENCE = float(os.environ["PATIENCE"])  # events that have not arrived by then are missing
LOOK = 0.05

# Node ids with the number of received events, and whether the end was received.
Heard = tuple["Counter[int]", bool]


def speakers(mode: str) -> set[int]:
    """Return the nodes from which this process should receive events. Node ids are ranks here."""
    everybody = set(range(SIZE)) - {RANK}
    star = os.environ.get("DI_TOPOLOGY") == "star" and os.environ.get("DI_MQ_TYPE") != "redis"
    heard = {0} if star and RANK else everybody
    return heard - {1} if mode == "listener" else heard


def until(true: Callable[[], bool], seconds: float) -> None:
    end = time.monotonic() + seconds
    while not true() and time.monotonic() < end:
        time.sleep(LOOK)


class Spoken:
    """One run with DI-engine's task: short steps until all ranks have received all events."""

    def __init__(self, mode: str, number: int) -> None:
        self.mode = mode
        self.heard: Counter[int] = Counter()
        self.done: set[int] = set()
        self.over = False
        self.deaf = False
        self.silent = mode == "listener" and RANK == 1
        self.ends = number % 2 * (SIZE - 1) == RANK
        self.patience = time.monotonic() + PATIENCE

    def step(self, _: Any) -> None:
        time.sleep(LOOK)
        now = time.monotonic()
        if set(self.heard) >= speakers(self.mode) and not self.silent:
            self.done.add(RANK)
            task.emit("done", RANK, only_remote=True)
        # Rank 0 receives all events in each topology. A listener cannot report that it is done.
        all_done = len(self.done) == SIZE - (self.mode == "listener")
        if RANK == 0 and (all_done or now > self.patience):
            self.over = True
            task.emit("over", only_remote=True)
        if self.over and self.ends:
            time.sleep(0.5 if self.mode == "listener" else 0.0)
            task.finish = True
        elif now > self.patience + 2 * PATIENCE:
            self.deaf = True
            task.finish = True

    def hear_over(self) -> None:
        self.over = True


def by_task(mode: str, number: int, dice: random.Random) -> Heard:
    run = Spoken(mode, number)
    with task.start(ctx=Context()):
        if not run.silent:
            task.emit("hello", RANK, only_remote=True)
        time.sleep(dice.random() / 2)
        task.on("hello", lambda node: run.heard.update([node]))
        task.on("done", run.done.add)
        task.on("over", run.hear_over)
        task.use(run.step)
        task.run()
    return run.heard, not run.deaf


def bare(mode: str, number: int, dice: random.Random) -> Heard:
    heard: Counter[int] = Counter()
    router = Parallel()
    router.emit("hello", RANK)
    time.sleep(dice.random() / 2)
    router.on("hello", lambda node: heard.update([node]))
    until(lambda: set(heard) >= speakers(mode), PATIENCE)
    time.sleep(1.0)  # slower ranks can still receive the event from this process
    return heard, True


def lost(mode: str, number: int, dice: random.Random) -> Heard:
    """Reply to ranks that come later."""
    heard: Counter[int] = Counter()
    router, me = Parallel(), dice.random()
    router.emit("hello", RANK, me)

    def on_hello(node: int, start: float) -> None:
        heard.update([node])
        router.emit("answer", RANK, node, start)

    def on_answer(node: int, to: int, start: float) -> None:
        if (to, start) == (RANK, me):
            heard.update([node])

    router.on("hello", on_hello)
    router.on("answer", on_answer)
    until(lambda: set(heard) >= speakers(mode), PATIENCE)
    report(mode, number, heard, finished=True)
    while True:
        time.sleep(1)


def report(mode: str, number: int, heard: Counter[int], **more: Any) -> None:
    line = {
        "mode": mode,
        "run": number,
        "rank": RANK,
        "missing": sorted(speakers(mode) - set(heard)),
        "twice": sorted(node for node, count in heard.items() if count > 1),
        **more,
    }
    sys.stdout.write(json.dumps(line) + "\n")
    sys.stdout.flush()


def one(mode: str, number: int) -> None:
    dice = random.Random() if mode == "lost" else random.Random(f"{number} {RANK}")
    time.sleep(LATE if mode == "late" and RANK == SIZE - 1 else dice.random())
    found: dict[str, Any] = {}

    def main() -> None:
        found["began"] = time.monotonic()
        act = {"bare": bare, "lost": lost}.get(mode, by_task)
        found["heard"] = act(mode, number, dice)
        found["ended"] = time.monotonic()

    begin = time.monotonic()
    Parallel.runner(n_parallel_workers=1)(main)
    heard, finished = found["heard"]
    report(
        mode,
        number,
        heard,
        finished=finished,
        hold=round(found["began"] - begin, 2),
        main=round(found["ended"] - found["began"], 2),
        end=round(time.monotonic() - found["ended"], 2),
    )


def links() -> list[socket.socket]:
    """Open sockets for synchronization: from rank 0 to each other rank."""
    if RANK == 0:
        with socket.create_server(("", MEETING_PORT)) as server:
            return [server.accept()[0] for _ in range(SIZE - 1)]
    while True:
        try:
            first = os.environ["DI_NODES"].split(",")[0]
            return [socket.create_connection((first, MEETING_PORT))]
        except OSError:
            time.sleep(LOOK)


def meet(met: list[socket.socket]) -> None:
    """Wait until all ranks have called this."""
    for sends in (False, True) if RANK == 0 else (True, False):
        for link in met:
            if not (link.send(b".") if sends else link.recv(1)):
                raise SystemExit("a rank has gone")


def in_a_process_of_its_own(job: str, mode: str, number: int) -> None:
    child = os.fork()
    if child:
        if os.waitpid(child, 0)[1]:
            raise SystemExit(f"run {number} of {mode} has failed")
        return
    gc.disable()  # a collection would copy the memory that is shared with the parent process
    # Each run is another job, because Redis might still know processes of the previous run.
    os.environ["DI_JOB_ID"] = f"{job}-{mode}-{number}"
    code = 1
    try:
        one(mode, number)
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(code)


def main(words: list[str]) -> None:
    if words == ["lost:1"]:
        one("lost", 0)
    met, job = links(), os.environ["DI_JOB_ID"]
    gc.freeze()
    for word in words:
        mode, _, runs = word.partition(":")
        for number in range(int(runs)):
            meet(met)
            in_a_process_of_its_own(job, mode, number)
    meet(met)  # no pod ends before all ranks are done


if __name__ == "__main__":
    main(sys.argv[1:])
