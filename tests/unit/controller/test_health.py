"""/livez fails if a watch has stopped, but not while the apiserver is unreachable."""

from dataclasses import dataclass

import pytest
from dijob.controller import health
from dijob.controller.cache.children import Children
from dijob.controller.queue.workqueue import WorkQueue
from dijob.controller.reconcile import Reconciler
from dijob.controller.watch.arrivals import Arrivals
from dijob.controller.watch.audit import Audit
from dijob.controller.watch.job_watch import JobWatch
from dijob.core.options import Options
from dijob.kube.availability import Availability
from dijob.process.clock import Clock
from fakes.fake_api import FakeApi

MINUTE = 60.0
DEAD = health.SILENCE_SECONDS + MINUTE


@dataclass
class Steady(Clock):
    seconds: float = 1000.0

    def monotonic(self) -> float:
        return self.seconds


class Lab:
    """The operator's watches and requests, as the watchdog sees them."""

    def __init__(self) -> None:
        self.clock = Steady()
        self.availability = Availability(self.clock.monotonic)
        api = FakeApi().api()
        self.children = Children.of((), self.clock)
        reconciler = Reconciler(api, self.children, Options())
        self.audit = Audit(api, reconciler, WorkQueue(reconciler.reconcile), (), self.clock)
        queue = WorkQueue(reconciler.reconcile)
        self.watch = JobWatch(api, Arrivals(reconciler, queue, self.children), ())
        self.watchdog = health.Watchdog(
            self.children, reconciler.jobs, self.audit, self.availability, self.watch, self.clock
        )
        self.streams()

    def streams(self) -> None:
        for store in self.children.stores.values():
            for reflector in store.reflectors:
                reflector.heard = self.clock.seconds

    def wait(self, seconds: float, answers: bool, streams: bool) -> None:
        """Let time pass, with or without a response and a watch event each minute."""
        while seconds > 0:
            step = min(MINUTE, seconds)
            self.clock.seconds += step
            seconds -= step
            if answers:
                self.availability.beat()
            if streams:
                self.streams()


@pytest.fixture
def lab() -> Lab:
    return Lab()


def test_livez_is_ok_while_all_watches_receive_events(lab: Lab) -> None:
    lab.wait(DEAD, answers=True, streams=True)
    assert lab.watchdog.lives() == (True, "ok")


def test_livez_fails_if_a_watch_is_silent_and_other_requests_succeed(lab: Lab) -> None:
    lab.wait(DEAD, answers=True, streams=False)
    lives, words = lab.watchdog.lives()
    assert not lives
    assert "the watch of pods has received nothing for 240 s" in words


def test_livez_fails_if_the_watch_of_dijobs_delivers_nothing(lab: Lab) -> None:
    lab.audit.behind = lab.clock.seconds
    lab.wait(DEAD, answers=True, streams=True)
    assert lab.watchdog.lives() == (False, "the watch of dijobs has stopped delivering changes")


@pytest.mark.parametrize("behind", [False, True], ids=["streams", "audit too"])
def test_livez_is_ok_while_the_apiserver_is_unreachable(lab: Lab, behind: bool) -> None:
    lab.wait(10 * MINUTE, answers=True, streams=True)
    lab.audit.behind = lab.clock.seconds if behind else None
    for _ in range(60):
        lab.wait(MINUTE, answers=False, streams=False)
        assert lab.watchdog.lives()[0], lab.watchdog.lives()
    assert lab.watchdog.lives() == (True, "ok; no response from the apiserver for 3600 s")


def test_after_an_outage_a_watch_has_the_full_time_to_recover(lab: Lab) -> None:
    lab.wait(60 * MINUTE, answers=False, streams=False)
    lab.wait(health.SILENCE_SECONDS, answers=True, streams=False)
    assert lab.watchdog.lives() == (True, "ok")
    lab.wait(2 * MINUTE, answers=True, streams=False)
    assert not lab.watchdog.lives()[0]


def test_livez_is_ok_if_the_apiserver_has_never_responded(lab: Lab) -> None:
    lab.wait(DEAD, answers=False, streams=False)
    assert lab.watchdog.lives()[0]
    assert lab.watchdog.waits_for()


def test_without_the_crd_the_operator_is_alive_and_not_ready(lab: Lab) -> None:
    """H42."""
    for store in lab.children.stores.values():
        for reflector in store.reflectors:
            reflector.synced.set()
    assert lab.watchdog.lives()[0]
    expected = "the CRD dijobs.diengine.opendilab.org is not installed"
    assert lab.watchdog.waits_for() == expected
    lab.watch.served = True
    assert lab.watchdog.waits_for() == ""
