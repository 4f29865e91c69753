"""Advances the operator and its cluster: for a given time, until a fault occurs, or until both are
idle.
"""

from collections.abc import Callable
from dataclasses import dataclass

from dijob.core.decide.requeue import RESYNC_SECONDS

from simulator.cluster import Cluster
from simulator.connection import Request
from simulator.invariants import Watched
from simulator.operator_process import Operator

ROUNDS = 150
ROUND_SECONDS = 0.5
# Idle time in seconds: longer than ttlSecondsAfterFinished of the jobs in these tests.
LONG_ROUND_SECONDS = 120.0
QUIET_SECONDS = RESYNC_SECONDS + 10
PLENTY = 1_000_000
# The maximum number of reconciliations in a period: PASSES, plus one for every PASS_SECONDS. If
# nothing is reported about a pod, its events are read every 10 s. A rejected creation is
# retried at least every minute. Each of these causes one or two reconciliations.
PASSES = 20
PASS_SECONDS = 7.0


@dataclass(frozen=True)
class Faults:
    """Faults while the operator runs.

    `writes` is the number of writes that may pass. If `kills` is true, the operator is killed at
    the next write. Otherwise, that write and all later ones are held back while other things
    happen. `turn` is how many writes are delayed at the beginning, so that the writes that follow
    them arrive first.
    """

    writes: int = PLENTY
    kills: bool = True
    turn: int = 0


class Driven(Watched):
    """The operator runs for a given time only, and pods change only when the test says so."""

    # The system is at rest when nothing has changed for more than this many seconds. The default is
    # longer than any wait of the operator.
    patience = QUIET_SECONDS
    # How many seconds of the period were left when the operator was killed.
    left = 0.0
    # Called before each write of the operator.
    about_to_write: Callable[[], None] | None = None

    def watch(self, cluster: Cluster) -> None:
        super().watch(cluster)
        cluster.server.told.append(lambda change: cluster.loop.cut(ROUND_SECONDS))

    def check_write(self, request: Request) -> None:
        if self.about_to_write and request.writes:
            self.about_to_write()
        super().check_write(request)

    def killed(self, twin: "Driven") -> None:
        """Copy this world to `twin`, and kill the operator in the copy.

        The operator's memory is lost, so only the cluster is copied.
        """
        twin.options = self.options
        twin.watch(self.cluster.copy())
        twin.operator.wire.dead = True
        twin.line.calls = self.line.calls[:-1]
        twin.nodes.room, twin.nodes.ips = self.nodes.room, self.nodes.ips
        if self.kueue is not None and twin.kueue is not None:
            twin.kueue.quota, twin.kueue.dies = self.kueue.quota, self.kueue.dies
        twin.patience, twin.most = self.patience, self.most
        twin.exact, twin.before = self.exact, self.before
        twin.lists, twin.charged, twin.met = dict(self.lists), dict(self.charged), dict(self.met)
        twin.active, twin.since = self.active, self.since
        twin.left = self.cluster.loop.left

    def goes_on(self, faults: Faults, seconds: float) -> None:
        """Run the operator for some seconds. If it is killed, start another one."""
        self.line.go_on()
        if faults.writes < PLENTY:
            self.line.fuse, self.line.kills = faults.writes, faults.kills
        self.line.later = faults.turn
        self.time_passes(seconds)
        self.recovers()
        if faults.writes < PLENTY:
            self.line.fuse = PLENTY

    def time_passes(self, seconds: float) -> None:
        """Let time pass with a running operator and idle kubelets."""
        self.since = self.cluster.loop.time(), bool(self.job.status.suspend_time)
        self.time_goes_on(seconds)

    def time_goes_on(self, seconds: float) -> None:
        """Let time pass, and check the number of reconciliations. An operator in a busy loop makes
        hundreds in a minute; a correct one made 9 at most.
        """
        loop, (begin, suspended) = self.cluster.loop, self.since
        passes = self.operator.passes
        loop.run_for(seconds)
        passes = self.operator.passes - passes
        assert passes <= PASSES + seconds / PASS_SECONDS, f"{passes} reconciliations in {seconds} s"
        self.active += 0 if suspended and self.job.status.suspend_time else loop.time() - begin
        if self.line.problems:
            raise self.line.problems[0]

    def recovers(self) -> None:
        """If the operator was killed, start another one."""
        if self.operator.wire.dead:
            self.restart()

    def restart(self) -> None:
        self.line.go_on()
        self.cluster.loop.run_until_complete(self.operator.stop())
        self.operator = Operator(self.cluster, self.line, options=self.options)
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
        """Make every rank exit 0."""
        for pod in self.pods():
            if pod.process is not None and not self.job.status.ended:
                pod.end(pod.main, 0)
                self.cluster.report(pod)
        self.comes_to_its_end()

    def comes_to_its_end(self) -> None:
        self.calm()
        assert self.job.status.ended, self.job.status

    def calm(self) -> None:
        """Run until everything is idle, and check the end state. This must not take long."""
        self.line.faults.clear()
        self.cluster.quota, self.nodes.room = False, 4
        self.strangers_leave()
        self.hears(True)
        quiet, seconds, passes = 0.0, ROUND_SECONDS, self.operator.passes
        for _ in range(ROUNDS):
            if self.kueue is not None:
                self.kueue.recover()
            before, since = (self.cluster.server.version, self.operator), self.cluster.loop.time()
            self.nodes.work()
            self.goes_on(Faults(), seconds)
            self.check_everything()
            rests = (self.cluster.server.version, self.operator) == before
            quiet = quiet + self.cluster.loop.time() - since if rests else 0.0
            seconds = min(seconds * 16, LONG_ROUND_SECONDS) if rests else ROUND_SECONDS
            passes = passes if rests else self.operator.passes
            if quiet > self.patience:
                break
        assert quiet > self.patience, f"not idle after {ROUNDS} rounds: {self.line.calls[-5:]}"
        self.operator.check_known()
        self.hears_old_news()
        self.check_rare(passes)
        if self.job.status.ended:
            self.check_cleaned()
        elif self.job.spec.suspend:
            self.check_suspended()
        else:
            self.check_running()

    def hears_old_news(self) -> None:
        """Deliver old watch events again, and check that they change nothing."""
        version = self.cluster.server.version
        for back in (3, 2):
            self.cluster.watches.repeat(back)
        self.goes_on(Faults(), ROUND_SECONDS)
        assert self.cluster.server.version == version
        self.operator.check_known()

    def strangers_leave(self) -> None:
        for pod in self.unranked():
            self.cluster.bury(pod)
