"""Changes that the API server accepted and that something reverts: a webhook in the same call, or a
controller afterwards. Each would be made again in the next pass, several times a second, so such a
change counts as rejected: it is made ever more rarely, and the job's message says what happens.
"""

from collections.abc import Collection
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from dijob.core.actions import Action, PublishAddresses
from dijob.core.decide import changes
from dijob.core.observed import refusals
from dijob.core.observed.views import Refusal


@dataclass
class Reverted:
    """What was written for one job, and what of it was reverted, as refusals by `changes.key`.

    `published` maps a pod's uid to the number of the newest list that was written on it; `written`
    has the last change of each other object.
    """

    refusals: dict[str, Refusal] = field(default_factory=dict)
    published: dict[str, int] = field(default_factory=dict)
    written: dict[str, Action] = field(default_factory=dict)

    def wrote_list(self, action: PublishAddresses, what: str, now: datetime) -> None:
        """Note that a pod has been given its list. If it had been given that before, something has
        changed `what` there, its labels or annotations, and may do so again.
        """
        number = action.copy.address_list.number
        again = self.published.get(action.uid) == number
        self._note(changes.key(action), refusals.of_pods(what) if again else "", now)
        self.published[action.uid] = number

    def wrote(self, action: Action, now: datetime) -> None:
        """Note another change. If the last one was the same, it has been reverted since."""
        key = changes.key(action)
        again = self.written.get(key) == action
        self._note(key, refusals.REVERTED if again else "", now)
        self.written[key] = action

    def new_list(self) -> None:
        """Forget what happened to former lists: no pod waits for a new one because of it."""
        self.refusals = {key: no for key, no in self.refusals.items() if not changes.pod_uid(key)}

    def saw_pods(self, uids: Collection[str]) -> None:
        """Forget pods that are gone."""
        kept = {"", *uids}
        self.refusals = {k: no for k, no in self.refusals.items() if changes.pod_uid(k) in kept}
        self.written = {k: one for k, one in self.written.items() if changes.pod_uid(k) in kept}
        self.published = {uid: n for uid, n in self.published.items() if uid in kept}

    def move(self, by: timedelta) -> None:
        """Move all remembered times."""
        for key, no in self.refusals.items():
            since = no.since and no.since + by
            self.refusals[key] = replace(no, retry_at=no.retry_at + by, since=since)

    def _note(self, key: str, message: str, now: datetime) -> None:
        if message:
            self.refusals[key] = refusals.reverted(message, self.refusals.get(key), now)
        else:
            self.refusals.pop(key, None)
