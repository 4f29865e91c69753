"""The DIJobs as last seen, by key and by uid."""

from collections import Counter
from collections.abc import Mapping
from typing import Any

from dijob.api.numbers import natural
from dijob.shell.clock import SYSTEM, Clock
from dijob.shell.workqueue import Key

# What has not been heard of for this long is asked after before anything is done about it.
OLD_SECONDS = 10.0


def order(version: str) -> int:
    """Sort key of a resource version: a growing decimal (KEP-5504); anything else is newest."""
    number = natural(version, 20)
    return 2**64 if number is None else number


class WentBackError(Exception):
    """The apiserver shows less than before: its store was restored from a backup, as `etcdutl
    snapshot restore` does. Watches show nothing until its versions are as high again, and what is
    known is of a past that has not been.
    """

    def __init__(self, what: str, version: str, known: int) -> None:
        super().__init__(f"{what}: resource version went back from {known} to {version}")


class Jobs:
    """Raw bodies, since a spec that cannot be parsed must be answered too; the newest wins."""

    def __init__(self, clock: Clock = SYSTEM) -> None:
        self._clock = clock
        self._bodies: dict[Key, dict[str, Any]] = {}
        self._heard: dict[Key, float] = {}
        self._answered: dict[Key, float] = {}
        self._shown: dict[str, int] = {}
        self._keys: dict[str, Key] = {}

    def get(self, key: Key) -> dict[str, Any] | None:
        return self._bodies.get(key)

    def key_of(self, uid: str) -> Key | None:
        return self._keys.get(uid)

    def key_of_owner(self, owner: str) -> Key | None:
        """The key of the job that a child names (names.owner_key); None for an unknown job."""
        namespace, _, rest = owner.partition("/")
        name, _, uid = rest.partition("/")
        return (namespace, name) if self.key_of(uid) == (namespace, name) else None

    def is_old(self, key: Key) -> bool:
        """Whether what is known of the job could be out of date."""
        return self._clock.monotonic() - self._heard.get(key, 0.0) > OLD_SECONDS

    def is_certain(self, key: Key) -> bool:
        """Whether the apiserver has just answered what is known of the job. Lists and watches may
        lag behind, and after an old list a watch shows all that has been since.
        """
        never = float("-inf")
        return self._clock.monotonic() - self._answered.get(key, never) <= OLD_SECONDS

    def put(self, body: Mapping[str, Any], *, shown: bool = False) -> Key | None:
        """Take in a body, `shown` by a list or a watch, or answered. Gives its key; None where this
        version or a newer one is known.
        """
        meta = body["metadata"]
        key = (meta["namespace"], meta["name"])
        known = self._bodies.get(key)
        self._heard[key] = now = self._clock.monotonic()
        if shown:
            self._shown[meta["uid"]] = max(self.shown(meta["uid"]), order(meta["resourceVersion"]))
        else:
            self._answered[key] = now
        if known is not None and known["metadata"]["uid"] == meta["uid"]:
            if order(meta["resourceVersion"]) <= order(known["metadata"]["resourceVersion"]):
                return None
        elif known is not None:
            self._keys.pop(known["metadata"]["uid"], None)
            self._shown.pop(known["metadata"]["uid"], None)
        kept = {name: value for name, value in meta.items() if name != "managedFields"}
        self._bodies[key] = {**body, "metadata": kept}
        self._keys[meta["uid"]] = key
        return key

    def shown(self, uid: str) -> int:
        """The newest version of a job that the watch has shown; -1: none. What was answered, to our
        own writes too, may be newer.
        """
        return self._shown.get(uid, -1)

    def lacks(self, uid: str, version: str) -> bool:
        """Whether a job in this version would be news."""
        key = self._keys.get(uid)
        known = self._bodies[key]["metadata"]["resourceVersion"] if key else ""
        return key is None or order(version) > order(known)

    def phases(self) -> Counter[tuple[str, str]]:
        """How many jobs of each namespace are in each phase; "" where none has been written yet."""
        return Counter(
            (namespace, (body.get("status") or {}).get("phase") or "")
            for (namespace, _), body in self._bodies.items()
        )

    def versions(self) -> dict[str, int]:
        """In which version each job is known, by its uid."""
        bodies = (body["metadata"] for body in self._bodies.values())
        return {meta["uid"]: order(meta["resourceVersion"]) for meta in bodies}

    def uids(self) -> dict[str, Key]:
        """All jobs known."""
        return dict(self._keys)

    def pop(self, uid: str) -> None:
        """Forget the job with this uid; another one that has taken its name meanwhile stays."""
        key = self._keys.pop(uid, None)
        self._shown.pop(uid, None)
        if key is not None and self._bodies[key]["metadata"]["uid"] == uid:
            del self._bodies[key], self._heard[key]
            self._answered.pop(key, None)
