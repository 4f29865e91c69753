"""Looks at all jobs again and again while faults happen, and keeps what it has seen."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from threading import Event, Thread

from chaos import looks
from chaos.healing import Look
from chaos.judge import Job, Problem, problems, said
from chaos.looks import View
from chaos.ranks import two_at_once
from chaos.scene import Scene
from chaos.shapes import Shape

PAUSE_SECONDS = 0.5


@dataclass(frozen=True)
class State:
    """One look: when it began, the jobs, what is missing of each, who renewed the Lease last, and
    the ranks that run twice.
    """

    at: float
    jobs: dict[str, Job]
    missing: dict[str, list[Problem]]
    renewed: str
    twice: list[str]

    @property
    def whole(self) -> frozenset[str]:
        return frozenset(name for name, found in self.missing.items() if not found)


@dataclass
class Observer:
    """`looks`: all that was seen; `state`: the newest; `error`: what has ended it, if anything."""

    scene: Scene
    began: float
    looks: list[Look] = field(default_factory=list)
    twice: list[tuple[float, str]] = field(default_factory=list)
    state: State | None = None
    error: BaseException | None = None

    @property
    def now(self) -> float:
        """Seconds of the run."""
        return time.monotonic() - self.began

    def look(self) -> State:
        """Look at everything now."""
        at, view = self.now, View.of(self.scene.space)
        jobs = looks.jobs(self.scene.space, self.scene.shapes, view)
        state = State(
            at,
            jobs,
            {shape.name: _missing(shape, jobs[shape.name]) for shape in self.scene.shapes},
            str(self.scene.leader.renewed()),
            two_at_once(looks.running(view)),
        )
        self.looks.append(Look(at, state.whole, state.renewed))
        self.twice += [(at, text) for text in state.twice]
        self.state = state
        return state

    @contextmanager
    def watching(self) -> Iterator[None]:
        """It looks, in a thread of its own, as long as the block lasts."""
        enough = Event()
        thread = Thread(target=self._watch, args=(enough,), daemon=True)
        thread.start()
        try:
            yield
        finally:
            enough.set()
            thread.join()
        if self.error:
            raise self.error

    def _watch(self, enough: Event) -> None:
        try:
            while not enough.wait(PAUSE_SECONDS):
                self.look()
        except BaseException as error:  # it is raised where the block ends
            self.error = error


def _missing(shape: Shape, job: Job) -> list[Problem]:
    """What is missing of a job that runs; of one that has failed, what it does not say."""
    if not job.failed:
        return problems(shape, job)
    wrong = said(shape, job)
    return [Problem("failed without a word", wrong)] if wrong else []
