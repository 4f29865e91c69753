"""The store of DIJobs, by namespace and name, and by uid.

The store receives the same job from kopf's watch, from lists, and from the responses to the
operator's own writes, in any order. The newest resourceVersion wins. The store also remembers
whether a version came from the watch or from a response, because a watch can lag or stop.
"""

from collections import Counter
from collections.abc import Mapping
from typing import Any

from dijob.api.numbers import parse_natural
from dijob.controller.queue.workqueue import Key
from dijob.process.clock import SYSTEM, Clock

# If a job was last received longer ago than this, it is read again before its children are changed.
OLD_SECONDS = 10.0


def version_key(version: str) -> int:
    """Return a sort key for a resourceVersion."""
    # Kubernetes resource versions are increasing decimal numbers (KEP-5504). Other servers may
    # use other formats: all such versions are treated as equal, and as higher than any number.
    number = parse_natural(version, 20)
    return 2**64 if number is None else number


class WentBackError(Exception):
    """The resourceVersions of the apiserver have decreased, because etcd was restored from a
    backup.

    Watches deliver nothing until the versions are as high as before. The operator's stores contain
    objects that no longer exist. So the operator must restart and list everything again.
    """

    def __init__(self, what: str, version: str, known: int) -> None:
        super().__init__(f"{what}: resource version went back from {known} to {version}")


class Jobs:
    """The DIJobs as raw JSON, because a job whose spec is invalid also needs a status."""

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
        """Return the key of the job that owns a child (names.owner_key), or None if the job is
        unknown. A job of the same name with another uid is not the owner.
        """
        namespace, _, rest = owner.partition("/")
        name, _, uid = rest.partition("/")
        return (namespace, name) if self.key_of(uid) == (namespace, name) else None

    def is_old(self, key: Key) -> bool:
        """Whether the job was last received more than OLD_SECONDS ago and may be outdated."""
        return self._clock.monotonic() - self._heard.get(key, 0.0) > OLD_SECONDS

    def is_certain(self, key: Key) -> bool:
        """Whether a get or a write has returned the job within the last OLD_SECONDS. Lists and
        watches do not count, because they can lag behind: a watch that follows an old list replays
        old events.
        """
        never = float("-inf")
        return self._clock.monotonic() - self._answered.get(key, never) <= OLD_SECONDS

    def put(self, body: Mapping[str, Any], *, shown: bool = False) -> Key | None:
        """Store a body from a list or watch (`shown`), or from the response to a request. Return
        the job's key, or None if this version or a newer one is already known.
        """
        meta = body["metadata"]
        key = (meta["namespace"], meta["name"])
        known = self._bodies.get(key)
        self._heard[key] = now = self._clock.monotonic()
        if shown:
            self._shown[meta["uid"]] = max(
                self.shown(meta["uid"]), version_key(meta["resourceVersion"])
            )
        else:
            self._answered[key] = now
        if known is not None and known["metadata"]["uid"] == meta["uid"]:
            if version_key(meta["resourceVersion"]) <= version_key(
                known["metadata"]["resourceVersion"]
            ):
                return None
        elif known is not None:
            self._keys.pop(known["metadata"]["uid"], None)
            self._shown.pop(known["metadata"]["uid"], None)
        # managedFields can be larger than the rest of the job, and nothing reads them.
        kept = {name: value for name, value in meta.items() if name != "managedFields"}
        self._bodies[key] = {**body, "metadata": kept}
        self._keys[meta["uid"]] = key
        return key

    def shown(self, uid: str) -> int:
        """Return the newest version of a job that a list or watch has delivered, or -1. The store
        may know a newer version, because it also contains the versions in other responses, such as
        those to the operator's own writes.
        """
        return self._shown.get(uid, -1)

    def lacks(self, uid: str, version: str) -> bool:
        """Whether the store has neither this version of a job nor a newer one."""
        key = self._keys.get(uid)
        known = self._bodies[key]["metadata"]["resourceVersion"] if key else ""
        return key is None or version_key(version) > version_key(known)

    def phases(self) -> Counter[tuple[str, str]]:
        """Count the jobs by namespace and phase, which is "" if there is no status yet."""
        return Counter(
            (namespace, (body.get("status") or {}).get("phase") or "")
            for (namespace, _), body in self._bodies.items()
        )

    def activities(self) -> Counter[str]:
        """Count the jobs by current activity (status.goodput.activity). Jobs without goodput
        figures are not counted.
        """
        statuses = (body.get("status") or {} for body in self._bodies.values())
        figures = (status.get("goodput") for status in statuses)
        return Counter(str(each.get("activity")) for each in figures if isinstance(each, Mapping))

    def stalled(self) -> int:
        """Count the running jobs whose training is making no progress (status.stall)."""
        statuses = (body.get("status") or {} for body in self._bodies.values())
        running = (status for status in statuses if status.get("phase") == "Running")
        stalls = (status.get("stall") for status in running)
        return sum(isinstance(each, Mapping) and bool(each.get("since")) for each in stalls)

    def versions(self) -> dict[str, int]:
        """Return a map from the uid of each job to its known version."""
        bodies = (body["metadata"] for body in self._bodies.values())
        return {meta["uid"]: version_key(meta["resourceVersion"]) for meta in bodies}

    def uids(self) -> dict[str, Key]:
        """Return a map from the uid of each known job to its key."""
        return dict(self._keys)

    def pop(self, uid: str) -> None:
        """Forget the job with this uid, but not a newer job with the same name."""
        key = self._keys.pop(uid, None)
        self._shown.pop(uid, None)
        if key is not None and self._bodies[key]["metadata"]["uid"] == uid:
            del self._bodies[key], self._heard[key]
            self._answered.pop(key, None)
