"""A simulated launcher: its connection to the operator, as in the launcher's channel/channel.go."""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from dijob import names
from dijob.controller.channel.launchers import Launchers
from dijob.core.observed.progress import ProgressReport
from dijob.core.observed.reports import LauncherState
from dijob.core.observed.views import Pod

Annotations = Mapping[str, str]


@dataclass(eq=False)
class SimConnection:
    """A connection of one launcher process. `said` is the operator's newest response. `idle`
    returns how many seconds ago the program last made progress (None: it has not).
    """

    operator: Launchers
    loop: asyncio.AbstractEventLoop
    pod: Pod
    ip: str
    said: Annotations
    idle: Callable[[], float | None]
    state: LauncherState | None = None
    open: bool = True
    asks: bool = False  # a request is waiting for a response
    stack: str | None = None  # the stack, if it was requested after the last progress

    def report(self, state: LauncherState) -> None:
        """Report a state that has not been reported yet."""
        if self.open and state is not self.state:
            first, self.state = self.state is None, state
            has = dict(self.said) if first else None
            self.loop.call_soon(self._send, state, has)

    def report_progress(self) -> None:
        """Report that the program has made progress."""
        self.stack = None
        if self.open and self.state is not None:
            self.loop.call_soon(self._send, self.state, None)

    def answer(self, said: Annotations) -> bool:
        """Receive a response, and confirm it with the next request."""
        if not (self.open and self.asks):
            return False
        if said.get(names.ANNOTATION_STACKS) != self.said.get(names.ANNOTATION_STACKS):
            self.stack = 'File "main.py", line 3 in train'
        self.said, self.asks = said, False
        if self.state is not None:
            self.loop.call_soon(self._send, self.state, None)
        return True

    def _send(self, state: LauncherState, has: Annotations | None) -> None:
        if self.open:
            self.asks = True
            self.operator.receive(self.pod, self, state, self.ip, has)
            idle = self.idle()
            known = None if idle is None else ProgressReport(iteration=7, idle_seconds=int(idle))
            self.operator.note_progress(self.pod, known, self.stack)
            if known is not None:
                self.operator.on_progress(self.pod.owner, known)

    def close(self) -> None:
        """Close the connection, from either side."""
        if self.open:
            self.open = False
            self.loop.call_soon(self.operator.leave, self.pod, self)
