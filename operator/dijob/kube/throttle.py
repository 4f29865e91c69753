"""Measures how slow the apiserver is, and limits writes that can be delayed (core/pace.py).

There is one throttle for the whole operator: if writes are slow, the cause is the control plane,
not one of the jobs.
"""

from dijob.core.pace import REFUSED_SECONDS, Budget, Latency
from dijob.process.clock import SYSTEM, Clock


class Throttle:
    """The latency of writes, and the budgets for reminders and intermediate statuses."""

    def __init__(self, clock: Clock = SYSTEM) -> None:
        self._clock = clock
        self._latency = Latency()
        self._reminders = Budget(at=clock.monotonic())
        self._steps = Budget(at=clock.monotonic())

    def wrote(self, status: int, seconds: float) -> None:
        """Record the HTTP status of a write, and its duration in seconds."""
        # A 429 is usually quick, but it means that the apiserver is overloaded. So it is recorded
        # as a slow write.
        now = self._clock.monotonic()
        self._latency = self._latency.after(
            max(seconds, REFUSED_SECONDS) if status == 429 else seconds, now
        )
        self._steps = self._steps.earned(1, now)

    def published(self) -> None:
        """Record that a peer list was published to a pod. Each published list adds a fraction of a
        reminder to the budget.
        """
        self._reminders = self._reminders.earned(1, self._clock.monotonic())

    @property
    def latency(self) -> float:
        """The current latency of writes in seconds."""
        return self._latency.now(self._clock.monotonic())

    @property
    def reminders(self) -> int:
        """The number of reminders that may be sent now."""
        return self._reminders.now(self._clock.monotonic())

    def take_reminder(self) -> bool:
        """Return whether a reminder may be sent now; if so, deduct one from the budget."""
        may = self.reminders > 0
        if may:
            self._reminders = self._reminders.spent(self._clock.monotonic())
        return may

    def take_status_write(self) -> bool:
        """Return whether an intermediate status may be written now; if so, deduct one write from
        the budget.
        """
        now = self._clock.monotonic()
        may = self._steps.now(now) > 0
        if may:
            self._steps = self._steps.spent(now)
        return may
