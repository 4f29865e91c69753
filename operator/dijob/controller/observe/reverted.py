"""Detects accepted changes that are reverted by a webhook in the same request, or by a controller
afterwards.

Without a back-off, the operator would repeat such a change several times a second. So a reverted
change is treated like a rejected one: it is retried with a back-off, and the message of the job
explains the cause.
"""

from collections.abc import Collection
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from dijob.core.actions import Action, PublishAddresses
from dijob.core.decide import changes
from dijob.core.observed import rejections
from dijob.core.observed.views import ApiRejection


@dataclass
class Reverted:
    """The changes that were written for one job.

    `rejections` contains the changes that were reverted. `changes.rejection_key` returns its keys.
    `published` maps a pod's uid to the revision of the newest peer list that was written to it.
    `written` contains the last change to each object, not counting peer lists.
    """

    rejections: dict[str, ApiRejection] = field(default_factory=dict)
    published: dict[str, int] = field(default_factory=dict)
    written: dict[str, Action] = field(default_factory=dict)

    def wrote_list(self, action: PublishAddresses, what: str, now: datetime) -> None:
        """Record that a peer list was written to a pod. If the same list was written before,
        something has since changed `what` (the pod's labels or annotations), and may do so again.
        """
        number = action.copy.address_list.number
        again = self.published.get(action.uid) == number
        self._note(changes.rejection_key(action), rejections.of_pods(what) if again else "", now)
        self.published[action.uid] = number

    def sent_list(self, action: PublishAddresses) -> None:
        """Record that a peer list was sent to a launcher. Nothing can revert that."""
        self.published[action.uid] = action.copy.address_list.number

    def wrote(self, action: Action, now: datetime) -> None:
        """Note a change that does not write a peer list. If the previous change to the object was
        identical, something has reverted that change.
        """
        key = changes.rejection_key(action)
        # The plan asks only for changes that are missing. If the plan asks for the same change
        # again, the change must have been reverted.
        again = self.written.get(key) == action
        self._note(key, rejections.REVERTED if again else "", now)
        self.written[key] = action

    def new_list(self) -> None:
        """Forget reverted writes of older peer lists, so that they do not delay the new list."""
        self.rejections = {
            key: rejection for key, rejection in self.rejections.items() if not changes.pod_uid(key)
        }

    def saw_pods(self, uids: Collection[str]) -> None:
        """Forget pods that are gone."""
        # "" is for changes to the job itself and to its NetworkPolicy, because they belong to no
        # pod.
        kept = {"", *uids}
        self.rejections = {
            k: rejection for k, rejection in self.rejections.items() if changes.pod_uid(k) in kept
        }
        self.written = {k: one for k, one in self.written.items() if changes.pod_uid(k) in kept}
        self.published = {uid: n for uid, n in self.published.items() if uid in kept}

    def move(self, by: timedelta) -> None:
        """After the clock has been set, shift all remembered times."""
        for key, rejection in self.rejections.items():
            since = rejection.since and rejection.since + by
            self.rejections[key] = replace(rejection, retry_at=rejection.retry_at + by, since=since)

    def _note(self, key: str, message: str, now: datetime) -> None:
        if message:
            self.rejections[key] = rejections.reverted(message, self.rejections.get(key), now)
        else:
            self.rejections.pop(key, None)
