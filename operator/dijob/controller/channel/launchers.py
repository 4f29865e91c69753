"""The launchers of the pods that have a channel: their reports, and the peer lists to send them.

All of this is in memory. After a restart of the operator, the launchers connect again and report
the state of their programs and the lists that they have.
"""

import asyncio
import logging
import secrets
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Protocol

from dijob import names
from dijob.api.status import format_time
from dijob.controller.cache.store import Store
from dijob.core.addresses import NO_LIST, ListCopy
from dijob.core.membership.stalls import ROUNDING_SECONDS
from dijob.core.observed.parse import list_copy
from dijob.core.observed.progress import ProgressReport, RankProgress
from dijob.core.observed.reports import LauncherReport, LauncherState, with_report
from dijob.core.observed.views import Pod
from dijob.process.clock import SYSTEM, Clock

log = logging.getLogger(__name__)

Annotations = Mapping[str, str]

# A launcher that runs for this long without a connection gets its peer lists as annotations. A
# launcher's attempts to connect are at most a second apart (the launcher's channel/channel.go).
PATIENCE_SECONDS = 2.0
# After the operator starts, it waits up to this long for a job's launchers to reconnect before it
# reconciles the job. RETURN_SECONDS is longer than PATIENCE_SECONDS, because the Service may still
# route to the operator's previous pod.
RETURN_SECONDS = 5.0

NOTHING = ListCopy()


class Connection(Protocol):
    """A launcher's connection, with at most one request that has no response yet."""

    def answer(self, said: Annotations) -> bool:
        """Send a response with these annotations. Return False if no request is waiting for a
        response.
        """

    def close(self) -> None:
        """Close the connection."""


@dataclass
class _Launcher:
    """What is known about one launcher.

    `report` is the launcher's newest report. `has` is the peer list that the launcher is known to
    have. `said` is the newest message to the launcher, and `copy` is the peer list in that message.
    `sent` is the peer list in the last response. `missing_since` is the time (monotonic seconds)
    when the operator noticed that the launcher is running without a connection.

    `progress` is the newest progress of the launcher's program, and `moved` is the time (monotonic
    seconds) when the program last made progress. `asked` identifies the newest request for the
    stack of the program's main thread; "" if there was none since the program last made progress.
    `told` identifies the newest request that was sent. `stack` is the answer. If `awaited` is true,
    the program's first progress must trigger `on_change`.
    """

    report: LauncherReport | None = None
    has: ListCopy = NOTHING
    said: Annotations | None = None
    copy: ListCopy = NOTHING
    sent: ListCopy = NOTHING
    connection: Connection | None = None
    missing_since: float | None = None
    progress: ProgressReport | None = None
    moved: float | None = None
    asked: str = ""
    awaited: bool = False
    told: str = ""
    stack: str | None = None


@dataclass
class Launchers:
    """The launchers by the uid of their pod.

    `on_change` is called with the owner of a pod when there is news about the pod's launcher.
    `on_progress` is called with the progress in a report. If `enabled` is false, this operator has
    no channel, and no launcher connects.
    """

    pods: Store[Pod]
    clock: Clock = SYSTEM
    on_change: Callable[[str], None] = lambda owner: None
    on_progress: Callable[[str, ProgressReport], None] = lambda owner, report: None
    enabled: bool = True
    known: dict[str, _Launcher] = field(default_factory=dict, init=False)
    _blocked: set[str] = field(default_factory=set)
    _since: float | None = None
    _open_since: float | None = None
    _began: str = ""

    def __post_init__(self) -> None:
        self.pods.on_drop = self._forget

    def serve(self) -> None:
        """Begin to accept reports. Called when this replica becomes the leader."""
        self._since, self._began = self.clock.monotonic(), format_time(self.clock.now())

    def listen(self) -> None:
        """Record that launchers can connect from now on."""
        self._open_since = self.clock.monotonic()

    @property
    def serving(self) -> bool:
        """Whether this replica is the leader."""
        return self._since is not None

    def find_pod(self, owner: str, name: str) -> Pod | None:
        """Return the pod of this name if the job with this key owns it."""
        return next((pod for pod in self.pods.of(owner) if pod.name == name), None)

    def awaits(self, pod: Pod) -> bool:
        """Whether the launcher of a pod is about to connect for the first time."""
        if not (self.enabled and pod.made.channel_key) or pod.deleting or pod.complaint:
            return False
        known = self.known.get(pod.uid)
        unheard = known is None or known.report is None
        return unheard and not pod.containers.ended and _namespace(pod) not in self._blocked

    def receive(
        self,
        pod: Pod,
        connection: Connection,
        state: LauncherState,
        ip: str,
        has: Annotations | None,
    ) -> None:
        """Record a report. `has` contains the annotations that the launcher has. In later reports
        on the same connection, `has` is None: the launcher has received the last response.
        """
        known = self._of(pod)
        before = known.report, known.has
        known.has = known.sent = known.sent if has is None else list_copy(has)
        if known.said is None and has:
            known.said, known.copy = has, known.has
        if known.connection is not connection:
            if known.connection is not None:
                known.connection.close()
            known.connection = connection
            self._note_way(pod, blocked=False)
        at = ""
        if state is not LauncherState.WAITING:
            at = (known.report.at if known.report else "") or format_time(self.clock.now())
        known.report = LauncherReport(state, ip, at)
        known.missing_since = None
        _deliver(known)
        if before != (known.report, known.has):
            self.on_change(pod.owner)

    def note_progress(self, pod: Pod, report: ProgressReport | None, stack: str | None) -> None:
        """Record what a launcher reports: its program's progress, and the stack of the program's
        main thread. The stack is recorded only if the operator has asked for it. If it has
        asked, call `on_change` when the stack or new progress arrives.
        """
        known = self._of(pod)
        was, asked = known.moved, known.asked
        known.progress = report
        if report is None:
            known.moved = None
        else:
            moved = self.clock.monotonic() - (report.idle_seconds or 0)
            known.moved = moved if was is None or moved > was + ROUNDING_SECONDS else was
        if known.moved != was:
            known.asked, known.stack = "", None
        elif asked and known.stack is None:
            known.stack = stack
        first = known.awaited and known.moved is not None
        if first or (asked and (known.moved != was or known.stack is not None)):
            known.awaited = False
            self.on_change(pod.owner)

    def ask_stack(self, pod: Pod) -> None:
        """Ask a launcher for the stack of its program's main thread."""
        known = self._of(pod)
        known.asked = secrets.token_hex(4)
        known.said = {**(known.said or {}), names.ANNOTATION_STACKS: known.asked}
        _deliver(known)

    def await_progress(self, pods: Iterable[Pod]) -> None:
        """Call `on_change` at the first progress of each program that has made none so far."""
        for pod in pods:
            known = self._of(pod)
            known.awaited = known.moved is None

    def progress_of(self, pod: Pod, now: datetime) -> RankProgress:
        """Return what a launcher has reported about the progress of its program."""
        known, report = self.known.get(pod.uid, _Launcher()), ProgressReport()
        moved = None
        if known.moved is not None:
            report = known.progress or report
            moved = now - timedelta(seconds=self.clock.monotonic() - known.moved)
        return RankProgress(
            connected=known.connection is not None,
            moved=moved,
            iteration=report.iteration,
            waiting_percent=report.waiting_percent,
            asked=bool(known.asked),
            stack=known.stack,
        )

    def leave(self, pod: Pod, connection: Connection) -> None:
        """Record that a connection has been closed."""
        known = self.known.get(pod.uid)
        if known is not None and known.connection is connection:
            known.connection = None
            self.on_change(pod.owner)

    def reaches(self, pod: Pod) -> bool:
        """Whether a pod can get its peer list through the channel: its launcher is connected, or
        still has time to connect.
        """
        return bool(pod.made.channel_key) and not self._is_silent(pod, self._of(pod))

    def send(self, pod: Pod, annotations: Mapping[str, str | None]) -> None:
        """Send a peer list to a launcher, or keep the list until the launcher connects.

        If a launcher connects too late, its list is already in the pod's annotations. The launcher
        still gets the list here, because a kubelet may take a minute to publish an annotation.
        """
        known = self._of(pod)
        # The annotations of a list do not include the number of counted failures, so keep it.
        counted = (known.said or {}).get(names.ANNOTATION_ENDS)
        said = {names.ANNOTATION_ENDS: counted, **annotations}
        known.said = {key: text for key, text in said.items() if text is not None}
        known.copy = list_copy(known.said)
        _deliver(known)

    def confirm(self, pod: Pod, ends: int) -> bool:
        """Tell a launcher how many failures were counted. Return False if the launcher is not
        connected.
        """
        known = self.known.get(pod.uid)
        if known is None or known.connection is None:
            return False
        known.said = {**(known.said or {}), names.ANNOTATION_ENDS: str(ends)}
        known.copy = list_copy(known.said)
        _deliver(known)
        return True

    def seconds_to_wait(self, pods: Iterable[Pod]) -> float:
        """Return the seconds to wait before a job is reconciled; 0 or less if the job can be
        reconciled now. A job must wait if the operator has just started and launchers of the job's
        pods may still connect.
        """
        if self._since is None or not self.enabled:
            return 0.0
        now = self.clock.monotonic()
        left = max(self._since, self._open_since or now) + RETURN_SECONDS - now
        return left if left > 0 and any(map(self._is_orphan, pods)) else 0.0

    def views(self, pods: Iterable[Pod]) -> list[Pod]:
        """Return these pods, updated with what their launchers have reported."""
        return [self._view(pod) if pod.made.channel_key else pod for pod in pods]

    def _view(self, pod: Pod) -> Pod:
        known = self._of(pod)
        silent = self._is_silent(pod, known)
        report = known.report
        if report is not None and known.connection is None:
            report = replace(report, connected=False)
        copy = known.has if silent or known.said is None else known.copy
        # The readiness probe succeeds only if the program has started.
        assumed = self._is_orphan(pod) or (silent and pod.ready)
        return with_report(pod, report, copy, assumed=assumed)

    def _is_orphan(self, pod: Pod) -> bool:
        """Whether the launcher started before this operator, and both its list and the state of its
        program are still unknown.
        """
        known = self.known.get(pod.uid)
        if not pod.made.channel_key or (known is not None and known.report is not None):
            return False
        began, listed = pod.containers.started, pod.copy.address_list != NO_LIST
        return bool(began) and began < self._began and not listed

    def _is_silent(self, pod: Pod, known: _Launcher) -> bool:
        """Whether the launcher has run without a connection for too long. If it still has time to
        connect, the job is reconciled again when that time is over.
        """
        if known.connection is not None or not pod.containers.started or pod.deleting:
            known.missing_since = None
            return False
        if not self.enabled:
            return True
        if self._open_since is None:
            return False
        now = self.clock.monotonic()
        if known.missing_since is None:
            known.missing_since = now
            asyncio.get_running_loop().call_later(PATIENCE_SECONDS, self.on_change, pod.owner)
        if now - known.missing_since >= PATIENCE_SECONDS:
            self._note_way(pod, blocked=True)
        return _namespace(pod) in self._blocked

    def _note_way(self, pod: Pod, *, blocked: bool) -> None:
        """Record whether launchers in the namespace of this pod can connect. If they cannot,
        further pods in the namespace get their lists as annotations at once, not after
        PATIENCE_SECONDS.
        """
        namespace = _namespace(pod)
        if blocked and namespace not in self._blocked:
            self._blocked.add(namespace)
            log.warning(
                "%s: the launcher of pod %s has not connected to the operator within %.0f s."
                " Until a launcher in this namespace connects, pods without a connection get their"
                " peer lists as annotations. Check whether a NetworkPolicy blocks the connection",
                pod.owner,
                pod.name,
                PATIENCE_SECONDS,
            )
        elif not blocked:
            self._blocked.discard(namespace)

    def _of(self, pod: Pod) -> _Launcher:
        """Return what is known about a pod's launcher, or an empty record if the pod is gone."""
        if self.pods.find(pod.uid) is None:
            return _Launcher()
        return self.known.setdefault(pod.uid, _Launcher())

    def _forget(self, uid: str) -> None:
        """Forget the launcher of a pod that is gone, and close its connection."""
        gone = self.known.pop(uid, None)
        if gone is not None and gone.connection is not None:
            gone.connection.close()


def _namespace(pod: Pod) -> str:
    return pod.owner.partition("/")[0]


def _deliver(known: _Launcher) -> None:
    """If the launcher lacks the list or must be asked for a stack, respond to its pending request.
    If none is pending, respond to the next one.
    """
    asked = known.asked not in ("", known.told)
    if known.connection is None or known.said is None or (known.copy == known.sent and not asked):
        return
    if known.connection.answer(known.said):
        known.sent, known.told = known.copy, known.asked
