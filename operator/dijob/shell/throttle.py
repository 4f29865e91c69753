"""What the operator measures of the apiserver by its own writes, and what it still may write that
could wait.
"""

from dijob.core.pace import REFUSED_SECONDS, Budget, Latency
from dijob.shell.clock import SYSTEM, Clock


class Throttle:
    """One for the whole operator: it is the control plane that is slow, not a job."""

    def __init__(self, clock: Clock = SYSTEM) -> None:
        self._clock = clock
        self._latency = Latency()
        self._reminders = Budget(at=clock.monotonic())
        self._steps = Budget(at=clock.monotonic())

    def wrote(self, status: int, seconds: float) -> None:
        """A write has been answered, after so many seconds."""
        now = self._clock.monotonic()
        self._latency = self._latency.after(
            max(seconds, REFUSED_SECONDS) if status == 429 else seconds, now
        )
        self._steps = self._steps.earned(1, now)

    def published(self) -> None:
        """A pod has been given its list."""
        self._reminders = self._reminders.earned(1, self._clock.monotonic())

    @property
    def latency(self) -> float:
        """Seconds that a write takes now."""
        return self._latency.now(self._clock.monotonic())

    @property
    def reminders(self) -> int:
        """How many kubelets may be reminded now."""
        return self._reminders.now(self._clock.monotonic())

    def take_reminder(self) -> bool:
        """Whether one may be reminded now; it is counted as done."""
        may = self.reminders > 0
        if may:
            self._reminders = self._reminders.spent(self._clock.monotonic())
        return may

    def take_status_write(self) -> bool:
        """Whether a step on the way may be written now; it is counted as done."""
        now = self._clock.monotonic()
        may = self._steps.now(now) > 0
        if may:
            self._steps = self._steps.spent(now)
        return may
