"""How the operator and its cluster are made to go on: round by round, to a fault, to rest."""

from dataclasses import dataclass

from dijob.core.decide.requeue import RESYNC_SECONDS
from dijob.core.report.summary import ended
from unit.invariants import Watched
from unit.operating import Operator

ROUNDS = 150
ROUND_SECONDS = 0.5
QUIET_SECONDS = RESYNC_SECONDS + 10
PLENTY = 1_000_000


@dataclass(frozen=True)
class Faults:
    """What goes wrong while the operator goes on: after how many writes it is killed, or waits for the apiserver while
    other things happen, and how many of its first writes come after the others."""

    writes: int = PLENTY
    kills: bool = True
    turn: int = 0


class Driven(Watched):
    """The operator runs for as long as it is told to; pods do what they do only when they are told to."""

    # Of nothing happening that are rest: longer than anything waits.
    patience = QUIET_SECONDS

    def goes_on(self, faults: Faults, seconds: float) -> None:
        """The operator runs for so long, or until it is killed: then another one begins in its place."""
        self.line.go_on()
        if faults.writes < PLENTY:
            self.line.fuse, self.line.kills = faults.writes, faults.kills
        self.line.later = faults.turn
        self.time_passes(seconds)
        if self.operator.wire.dead:
            self.restart()
        if faults.writes < PLENTY:
            self.line.fuse = PLENTY

    def time_passes(self, seconds: float) -> None:
        """With an operator that runs, and kubelets that do nothing."""
        loop, suspended = self.cluster.loop, self.job.status.suspend_time
        begin = loop.time()
        loop.run_for(seconds)
        self.active += 0 if suspended and self.job.status.suspend_time else loop.time() - begin
        if self.line.problems:
            raise self.line.problems[0]

    def restart(self) -> None:
        self.line.go_on()
        self.cluster.loop.run_until_complete(self.operator.stop())
        self.operator = Operator(self.cluster, self.line)
        self.operator.start()

    def hears(self, everything: bool) -> None:
        self.cluster.watches.held = not everything
        if everything:
            self.cluster.watches.release()

    def close(self) -> None:
        loop = self.cluster.loop
        loop.run_until_complete(self.operator.stop())
        loop.run_until_complete(loop.shutdown_asyncgens())
        loop.close()

    def ends_right(self) -> None:
        self.rests()
        self.succeeds()

    def rests(self) -> None:
        self.calm()
        if self.job.spec.suspend and not self.cluster.gone():
            self.cluster.edit(suspend=False)
            self.calm()

    def succeeds(self) -> None:
        """Every rank exits 0."""
        for pod in self.pods():
            if pod.process is not None and not ended(self.job.status):
                pod.end(pod.main, 0)
                self.cluster.report(pod)
        self.calm()
        assert ended(self.job.status), self.job.status

    def calm(self) -> None:
        """Until nothing happens any more, which must come soon and must be the right end."""
        self.line.faults.clear()
        self.cluster.quota, self.nodes.room = False, 4
        self.strangers_leave()
        self.hears(True)
        quiet, seconds, passes = 0.0, ROUND_SECONDS, self.operator.passes
        for _ in range(ROUNDS):
            before, since = (self.cluster.server.version, self.operator), self.cluster.loop.time()
            self.nodes.work()
            self.goes_on(Faults(), seconds)
            self.check_everything()
            rests = (self.cluster.server.version, self.operator) == before
            quiet = quiet + self.cluster.loop.time() - since if rests else 0.0
            seconds = min(seconds * 2, RESYNC_SECONDS / 2) if rests else ROUND_SECONDS
            passes = passes if rests else self.operator.passes
            if quiet > self.patience:
                break
        assert quiet > self.patience, f"no rest after {ROUNDS} rounds: {self.line.calls[-5:]}"
        self.operator.check_known()
        self.hears_old_news()
        self.check_rare(passes)
        if ended(self.job.status):
            self.check_cleaned()
        elif self.job.spec.suspend:
            self.check_suspended()
        else:
            self.check_running()

    def hears_old_news(self) -> None:
        """They change nothing."""
        version = self.cluster.server.version
        for back in (3, 2):
            self.cluster.watches.repeat(back)
        self.goes_on(Faults(), ROUND_SECONDS)
        assert self.cluster.server.version == version
        self.operator.check_known()

    def strangers_leave(self) -> None:
        for pod in self.strangers():
            self.cluster.bury(pod)
