"""One run: waves of faults, and then the final checks. After each wave there is a quiet point, at
which the jobs, the nodes and leftover processes are checked.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from threading import Event

from cluster.process import log_tail
from cluster.waiting import NotWithin, until
from diary import Diary
from space import Space

from faults.real_pods import leftovers, node_acts, operator_acts, pod_acts, story
from faults.real_pods.bodies import all_bodies, bodies
from faults.real_pods.charges import Done, charges
from faults.real_pods.healing import healed
from faults.real_pods.judge import CHECKS
from faults.real_pods.observer import Observer, State
from faults.real_pods.plan import Fault
from faults.real_pods.ranks import violations
from faults.real_pods.scene import Act, Missed, Scene
from faults.real_pods.shapes import Shape
from faults.real_pods.table import Result

ACTS: dict[str, Act] = {**pod_acts.ACTS, **node_acts.ACTS, **operator_acts.ACTS}
# Importing DI-engine and torch in four programs at the same time takes minutes on two busy cores.
START_SECONDS, QUIET_SECONDS, GONE_SECONDS = 300, 180, 150
AT_ONCE = "each rank has at most one program"


@dataclass
class Run:
    """A run: its targets, its observations, and its results."""

    scene: Scene
    story: story.Story
    observer: Observer
    diary: Diary
    result: Result
    dones: list[Done] = field(default_factory=list)
    charged: dict[str, int] = field(default_factory=dict)

    def start(self) -> None:
        """Start all jobs, and wait until they run."""
        self.scene.space.apply(*all_bodies(self.scene.shapes))
        self._until_settled("all jobs are healthy", START_SECONDS)
        self.charged = {name: self._restarts(name) for name in self._shapes}

    def wave(self, number: int, faults: Sequence[Fault]) -> None:
        """Inject the overlapping faults of a wave, and check the quiet point after them."""
        self.story.tell(story.WAVE, **story.wave(number, faults))
        begin = self.observer.now
        # A thread for each fault, because their durations overlap.
        with ThreadPoolExecutor(len(faults)) as pool:
            dones = list(pool.map(partial(self._carry_out, number, begin), faults))
        self.dones += dones
        self.result.waves += 1
        self._quiet(number, dones)

    def _carry_out(self, number: int, begin: float, fault: Fault) -> Done:
        self._wait_until(begin + fault.at)
        began = self.observer.now
        try:
            # A fault may have no target, for example because another fault has just removed it.
            done = ACTS[fault.kind](self.scene, fault.target)
        except Missed as missed:
            done, why = None, str(missed)
        said = {"kind": fault.kind, "target": fault.target, "seconds": fault.seconds}
        if done is None:
            self.story.tell(story.FAULT, **said, missed=why)
            return Done(number, fault, began, began, missed=why)
        said |= {"alone": True} if done.alone else {}
        self.story.tell(story.FAULT, **said, hit=done.hit)
        if fault.seconds:
            self._wait_until(began + fault.seconds)
            # The stopped process may have ended meanwhile because its node was lost.
            with suppress(Missed):
                done.undo()
        return Done(number, fault, began, self.observer.now, done.hit, alone=done.alone)

    def _wait_until(self, moment: float) -> None:
        Event().wait(max(0.0, moment - self.observer.now))

    def _quiet(self, number: int, dones: Sequence[Done]) -> None:
        try:
            self._until_settled(f"all jobs are healthy after wave {number}", QUIET_SECONDS)
        except NotWithin as late:
            # The run continues, so that the other waves are tested too. The table shows the
            # violation.
            print(f"{late}\n{self._nodes()}\n{self.scene.space.evidence()}", flush=True)
        state = self._state
        found = [healed(self.scene.shapes, done, self.observer.looks) for done in dones]
        self.result.heard(found)
        for one in found:
            if not one.done.missed:
                fault = one.done.fault
                after = {"kind": fault.kind, "target": fault.target, "seconds": one.seconds}
                self.story.tell(story.HEALED, **after, jobs=" ".join(one.jobs))
        self._check(state, dones)
        self._begin_anew(state)

    def _nodes(self) -> str:
        """Return the last kubelet and containerd log lines of each node that is not Ready."""
        cluster = self.scene.space.cluster
        lost = sorted(set(cluster.nodes) - cluster.ready_nodes())
        programs = (f"{node}-{part}" for node in lost for part in ("kubelet", "containerd"))
        return "\n".join(f"{name}:\n{log_tail(cluster.state, name, 25)}" for name in programs)

    @property
    def _state(self) -> State:
        return self.observer.state or self.observer.look()

    @property
    def _shapes(self) -> dict[str, Shape]:
        return {shape.name: shape for shape in self.scene.shapes}

    def _restarts(self, job: str) -> int:
        return int(self._state.jobs[job].status.get("restarts") or 0)

    def _until_settled(self, what: str, seconds: float) -> None:
        """Wait for two consecutive observations, begun after this call, without any violation."""
        since, nodes = self.observer.now, set(self.scene.space.cluster.nodes)

        def missing() -> str:
            if self.observer.error:
                raise self.observer.error
            looks = [look for look in self.observer.looks[-2:] if look.at >= since]
            # Two observations, because a single one may have been made just before a delayed
            # effect.
            if len(looks) < 2 or any(look.whole != frozenset(self._shapes) for look in looks):
                found = (str(p) for each in self._state.missing.values() for p in each)
                return "; ".join(found) or "no observation yet"
            if lost := nodes - self.scene.space.cluster.ready_nodes():
                return f"{sorted(lost)} not Ready"
            return "; ".join(leftovers.processes(self.scene.space))

        until(what, missing, seconds, pause=0.5)

    def _check(self, state: State, dones: Sequence[Done]) -> None:
        """Write the findings of each check to the result and to the story."""
        for name in CHECKS:
            wrong = [str(p) for each in state.missing.values() for p in each if p.check == name]
            self.result.checked(f"quiet points: {name}", wrong, len(state.jobs))
        unsaid = [str(p) for each in state.missing.values() for p in each if p.check not in CHECKS]
        failed = [name for name, job in state.jobs.items() if job.failed]
        self.result.checked(
            "jobs that failed because of backoffLimit and report this", unsaid, len(failed)
        )
        lost = sorted(set(self.scene.space.cluster.nodes) - self.scene.space.cluster.ready_nodes())
        self.result.checked("quiet points: nodes Ready", lost)
        left = leftovers.processes(self.scene.space)
        self.result.checked("quiet points: processes of deleted pods", left)
        charged = {name: self._restarts(name) for name in self._shapes}
        costs = [self._cost(name, charged[name], dones) for name in self._shapes]
        self.result.checked("failures are counted as documented", filter(None, costs), len(costs))
        self.charged = charged
        missing = {name: list(map(str, each)) for name, each in state.missing.items() if each}
        at = {name: _numbers(job.status) for name, job in state.jobs.items()}
        self.story.tell(
            story.QUIET,
            jobs=at,
            failed=failed,
            missing=missing,
            left=left,
            charges=list(filter(None, costs)),
        )

    def _cost(self, job: str, now: int, dones: Sequence[Done]) -> str:
        # The expected number of counted failures is a range, because failures may coincide with
        # other faults.
        fewest, most = charges(self.scene.shapes, dones, job)
        new = now - self.charged[job]
        # A job that has already failed counts no further failures.
        fewest = 0 if self._state.jobs[job].failed else fewest
        right = fewest <= new <= most
        return "" if right else f"{job}: {new} counted failures, not {fewest} to {most}"

    def _begin_anew(self, state: State) -> None:
        """Re-create jobs that have failed or are not healthy, so that the next wave can hit
        them.
        """
        over = [n for n, job in state.jobs.items() if job.failed or state.missing[n]]
        if not over:
            return
        space = self.scene.space
        space.kubectl("delete", "dijob", *over)
        space.apply(*(body for name in over for body in bodies(self._shapes[name])))
        with suppress(NotWithin):
            self._until_settled(f"{over} run again", START_SECONDS)
        self.charged |= {name: self._restarts(name) for name in over}

    def finish(self, left: Callable[[Space], list[str]] = leftovers.known) -> None:
        """Run the checks that apply to the whole run, delete the jobs, and check that nothing is
        left.
        """
        self._ranks()
        space = self.scene.space
        space.kubectl("delete", "dijobs", "--all")
        try:
            until("everything is deleted", lambda: "; ".join(left(space)), GONE_SECONDS)
            stays: Iterable[str] = ()
        except NotWithin as late:
            stays = [str(late)]
        self.result.checked("leftovers after the deletion of the jobs", stays, len(self._shapes))

    def _ranks(self) -> None:
        # The watch has recorded the whole run, including the time between two observations.
        sizes = {shape.name: len(shape.pods) for shape in self.scene.shapes}
        wrong = violations(self.diary.entries, sizes)
        self.result.checked(
            "pod events: each rank has at most one pod", wrong, len(self.diary.entries)
        )
        unexcused = [f"{at:.1f} s: {text}" for at, text in self.observer.twice if self._alone(at)]
        self.result.checked(AT_ONCE, unexcused, len(self.observer.looks))

    def _alone(self, at: float) -> bool:
        """Return False if a fault of the wave allows an old program to run next to the new one."""
        wave = [done for done in self.dones if done.began <= at and not done.missed]
        latest = max((done.wave for done in wave), default=0)
        return not any(done.wave == latest and done.fault.is_a.two_at_once for done in wave)


def _numbers(status: Mapping[str, object]) -> dict[str, object]:
    names = ("phase", "listNumber", "renewals", "restarts", "firstFailure")
    return {name: status[name] for name in names if status.get(name)}
