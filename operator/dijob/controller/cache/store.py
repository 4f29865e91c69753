"""The known objects of one kind, by the job that owns them.

The store merges the results of list requests, watches and the operator's own writes, in whatever
order they arrive. The store remembers deleted objects, so that a late event does not bring them
back. The store also remembers which objects no list or watch has shown yet. It knows these
objects from another source, for example from the response to a write. If such an object is deleted
before a list or watch shows it, no watch will ever report the deletion.
"""

import itertools
import logging
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Generic, Protocol, TypeVar

from dijob.controller.cache.jobs import version_key
from dijob.controller.queue.quarantine import Quarantine, name_of

log = logging.getLogger(__name__)

# Number of deleted objects whose uids are remembered; the oldest are forgotten first.
REMEMBERED = 10_000


class Viewed(Protocol):
    """The part of a view that the store uses: the object's uid, its owner and its version."""

    @property
    def uid(self) -> str: ...
    @property
    def owner(self) -> str: ...
    @property
    def version(self) -> str: ...


T = TypeVar("T", bound=Viewed)
View = Callable[[Mapping[str, Any]], T]
# Returns the newer of two views of one object, completed with details that only the older view has.
Merge = Callable[[T, T], T]


class Store(Generic[T]):
    """Views of objects by owner (names.owner_key). An older view never replaces a newer one.

    `paths` are the collections that are listed. `on_change` is called with the owner whenever a
    list or watch has changed an object. `on_drop` is called with the uid of each object that is
    forgotten.
    """

    def __init__(
        self, kind: str, view: View[T], paths: frozenset[str], merge: Merge[T] | None = None
    ) -> None:
        self.kind = kind
        self.on_change: Callable[[str], None] = lambda owner: None
        self.on_drop: Callable[[str], None] = lambda uid: None
        self._view = view
        self._merge = merge
        self._paths = paths
        self._quarantine = Quarantine(kind)
        self._by_owner: dict[str, dict[str, T]] = {}
        self._owners: dict[str, str] = {}
        # The version of each deletion, by uid of the deleted object. Only a newer version can bring
        # the object back.
        self._gone: dict[str, int] = {}
        # The objects that no list or watch has shown yet: a map from the object's uid to the paths
        # that have not been listed since the object was written. If no path is left, the object is
        # gone.
        self._unshown: dict[str, set[str]] = {}

    def of(self, owner: str) -> tuple[T, ...]:
        """Return the views of one job's objects."""
        return tuple(self._by_owner.get(owner, {}).values())

    def find(self, uid: str) -> T | None:
        """Return the view of an object, or None if the object is unknown."""
        return self._by_owner.get(self._owners.get(uid, ""), {}).get(uid)

    def owner_of(self, uid: str) -> str:
        """Return the owner of an object, or "" if the object is unknown."""
        return self._owners.get(uid, "")

    def __iter__(self) -> Iterator[T]:
        return itertools.chain.from_iterable(views.values() for views in self._by_owner.values())

    def __len__(self) -> int:
        return len(self._owners)

    def put(self, view: T) -> None:
        """Store a view, unless a newer one is known or the object was deleted."""
        # A deleted object comes back only with a version that is newer than its deletion. If an
        # object is still stored, a view with the stored version is also accepted, because the
        # operator edits views after its own writes.
        known = self._by_owner.get(view.owner, {}).get(view.uid)
        least = (
            version_key(known.version) if known is not None else self._gone.get(view.uid, -1) + 1
        )
        if version_key(view.version) < least:
            return
        view = self._merged(known, view)
        self._gone.pop(view.uid, None)
        former = self._owners.get(view.uid)
        # No list or watch has shown the object yet; see take_never_shown.
        if former is None:
            self._unshown[view.uid] = set(self._paths)
        elif former != view.owner:
            self._forget(view.uid, former)
        self._by_owner.setdefault(view.owner, {})[view.uid] = view
        self._owners[view.uid] = view.owner

    def put_created(self, view: T) -> None:
        """Store an object that the operator has just created, unless a watch has already shown it.
        The watch's view is more complete: it includes what the apiserver and its webhooks have
        added.
        """
        if view.uid not in self._owners:
            self.put(view)

    def put_body(self, body: Mapping[str, Any]) -> None:
        """Store an object from a response of the apiserver."""
        if (view := self._viewed(body)) is not None:
            self.put(view)

    def drop(self, uid: str, version: str = "") -> None:
        """Forget an object that is gone, and ignore late events about it up to this version.

        If the label by which a watch selects an object is removed, the watch reports the object as
        deleted. An object that only lost its label can come back with a newer version. If `version`
        is empty, all later events about the object are ignored.
        """
        owner = self._owners.pop(uid, None)
        self._unshown.pop(uid, None)
        self._gone[uid] = version_key(version)
        if len(self._gone) > REMEMBERED:
            self._gone.pop(next(iter(self._gone)))
        if owner is not None:
            self._forget(uid, owner)
            self.on_drop(uid)

    def show(self, body: Mapping[str, Any]) -> set[str]:
        """Store an object from a list or watch. Return the owners whose objects have changed: none,
        one, or two if the object now has another owner.
        """
        if (view := self._viewed(body)) is None:
            return set()
        former = self._owners.get(view.uid, view.owner)
        known = self._by_owner.get(former, {}).get(view.uid)
        # Kubelets often update a pod without changing anything that the operator uses. If the views
        # are equal, no reconciliation is needed.
        concerned = set() if known == self._merged(known, view) else {view.owner, former}
        self.put(view)
        self._unshown.pop(view.uid, None)
        return concerned

    def remove(self, body: Mapping[str, Any]) -> set[str]:
        """Forget an object that a watch reports as deleted. Return its owner."""
        uid, view = body["metadata"]["uid"], self._viewed(body)
        owner = self.owner_of(uid) if view is None else view.owner
        self._quarantine.clear(name_of(body))
        self.drop(uid, body["metadata"].get("resourceVersion") or "")
        return {owner}

    def take_never_shown(self, path: str, version: str) -> set[str]:
        """Return the uids of objects that were created before this list, and that no list has
        shown.

        Such objects were deleted before any watch reported them, so no watch will report the
        deletion either.
        """
        gone = set()
        for uid, paths in self._unshown.items():
            if version_key(self._by_owner[self._owners[uid]][uid].version) <= version_key(version):
                paths.discard(path)
            if not paths:
                gone.add(uid)
        return gone

    def _forget(self, uid: str, owner: str) -> None:
        self._by_owner[owner].pop(uid, None)
        if not self._by_owner[owner]:
            del self._by_owner[owner]

    def _merged(self, known: T | None, view: T) -> T:
        """Return the view to store in place of the known one."""
        return view if known is None or self._merge is None else self._merge(known, view)

    def _viewed(self, body: Mapping[str, Any]) -> T | None:
        """Return the view of an object. If parsing raises, quarantine the object and return None;
        the store then keeps the previous view.
        """
        try:
            view = self._view(body)
        except Exception as error:
            self._quarantine.put(name_of(body), error)
            return None
        self._quarantine.clear(name_of(body))
        return view
