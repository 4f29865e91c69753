"""Observes all jobs repeatedly while faults happen, and records the observations."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from threading import Event, Thread

from faults.real_pods import looks
from faults.real_pods.healing import Look
from faults.real_pods.judge import Job, Problem, problems, said
from faults.real_pods.looks import View
from faults.real_pods.ranks import two_at_once
from faults.real_pods.scene import Scene
from faults.real_pods.shapes import Shape

# Short compared with the recovery times, and long enough not to load the machine.
PAUSE_SECONDS = 0.5


@dataclass(frozen=True)
class State:
    """One observation: when it began, the jobs, each job's violations, the last renewal of the
    Lease, and the ranks that run twice.
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
    """The observing thread. `looks` has all observations, `state` is the newest one, and `error` is
    the exception that ended the thread, if any.
    """

    scene: Scene
    began: float
    looks: list[Look] = field(default_factory=list)
    twice: list[tuple[float, str]] = field(default_factory=list)
    state: State | None = None
    error: BaseException | None = None

    @property
    def now(self) -> float:
        """Return the seconds since the run began."""
        return time.monotonic() - self.began

    def look(self) -> State:
        """Make one observation of everything."""
        # The time is taken first, so no observed state is older than this time.
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
        """Observe in a separate thread until the context ends."""
        enough = Event()
        # A daemon, so that a hanging observation cannot keep the process alive.
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
        except BaseException as error:  # `watching` raises it when it ends
            self.error = error


def _missing(shape: Shape, job: Job) -> list[Problem]:
    """Return a job's violations or, if it has failed, what is wrong with its report."""
    if not job.failed:
        return problems(shape, job)
    wrong = said(shape, job)
    return [Problem("failed without a correct report", wrong)] if wrong else []
