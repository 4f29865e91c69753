"""The objects of one kind as last seen, by the job that owns them."""

import itertools
import logging
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Generic, Protocol, TypeVar

from dijob.shell.aside import Aside, name_of
from dijob.shell.jobs import order

log = logging.getLogger(__name__)

# Uids of objects that have gone; the oldest are forgotten first.
REMEMBERED = 10_000


class Viewed(Protocol):
    """What the store must know of a view: its object, the job that owns it, and its version."""

    @property
    def uid(self) -> str: ...
    @property
    def owner(self) -> str: ...
    @property
    def version(self) -> str: ...


T = TypeVar("T", bound=Viewed)
View = Callable[[Mapping[str, Any]], T]


class Store(Generic[T]):
    """Views by owner (names.owner_key), from lists and watches and from the operator's own writes.

    These come in any order: an older view never replaces a newer one. `paths` are those of the
    lists. `on_change` is called with the owner of what a list or watch has changed.
    """

    def __init__(self, kind: str, view: View[T], paths: frozenset[str]) -> None:
        self.kind = kind
        self.on_change: Callable[[str], None] = lambda owner: None
        self._view = view
        self._paths = paths
        self._aside = Aside(kind)
        self._by_owner: dict[str, dict[str, T]] = {}
        self._owners: dict[str, str] = {}
        # What has gone, and the version after which nothing older may bring it back.
        self._gone: dict[str, int] = {}
        # What only our own writes have shown so far, and the lists that may still show it.
        self._unshown: dict[str, set[str]] = {}

    def of(self, owner: str) -> tuple[T, ...]:
        """The views of one job."""
        return tuple(self._by_owner.get(owner, {}).values())

    def find(self, uid: str) -> T | None:
        """The view of an object; None where it is not known."""
        return self._by_owner.get(self._owners.get(uid, ""), {}).get(uid)

    def owner_of(self, uid: str) -> str:
        """The owner of an object; "" where it is not known."""
        return self._owners.get(uid, "")

    def __iter__(self) -> Iterator[T]:
        return itertools.chain.from_iterable(views.values() for views in self._by_owner.values())

    def __len__(self) -> int:
        return len(self._owners)

    def put(self, view: T) -> None:
        """Take in a view, unless a newer one is known, or the object has gone."""
        known = self._by_owner.get(view.owner, {}).get(view.uid)
        least = order(known.version) if known is not None else self._gone.get(view.uid, -1) + 1
        if order(view.version) < least:
            return
        self._gone.pop(view.uid, None)
        former = self._owners.get(view.uid)
        if former is None:
            self._unshown[view.uid] = set(self._paths)
        elif former != view.owner:
            self._forget(view.uid, former)
        self._by_owner.setdefault(view.owner, {})[view.uid] = view
        self._owners[view.uid] = view.owner

    def put_created(self, view: T) -> None:
        """Take in what our own creation has made. What a watch has shown of it already knows more:
        what the apiserver and its webhooks have added.
        """
        if view.uid not in self._owners:
            self.put(view)

    def put_body(self, body: Mapping[str, Any]) -> None:
        """Take in an object as the apiserver gives it."""
        if (view := self._viewed(body)) is not None:
            self.put(view)

    def drop(self, uid: str, version: str = "") -> None:
        """Forget an object that is gone; a late event about it, up to this version, is ignored.

        An object that only seemed to go, because its label was removed, comes back with a newer
        version. "": it cannot come back.
        """
        owner = self._owners.pop(uid, None)
        self._unshown.pop(uid, None)
        self._gone[uid] = order(version)
        if len(self._gone) > REMEMBERED:
            self._gone.pop(next(iter(self._gone)))
        if owner is not None:
            self._forget(uid, owner)

    def show(self, body: Mapping[str, Any]) -> set[str]:
        """Take in what a list or watch shows.

        Gives the owners to whom it is news: two where the object has changed hands.
        """
        if (view := self._viewed(body)) is None:
            return set()
        former = self._owners.get(view.uid, view.owner)
        known = self._by_owner.get(former, {}).get(view.uid)
        concerned = set() if known == view else {view.owner, former}
        self.put(view)
        self._unshown.pop(view.uid, None)
        return concerned

    def remove(self, body: Mapping[str, Any]) -> set[str]:
        """Forget an object that a watch shows as deleted. Gives its owner."""
        uid, view = body["metadata"]["uid"], self._viewed(body)
        owner = self.owner_of(uid) if view is None else view.owner
        self._aside.clear(name_of(body))
        self.drop(uid, body["metadata"].get("resourceVersion") or "")
        return {owner}

    def take_never_shown(self, path: str, version: str) -> set[str]:
        """Uids of what was created before this list was made and is in none of the lists.

        It is gone again, and no watch will ever say so.
        """
        gone = set()
        for uid, paths in self._unshown.items():
            if order(self._by_owner[self._owners[uid]][uid].version) <= order(version):
                paths.discard(path)
            if not paths:
                gone.add(uid)
        return gone

    def _forget(self, uid: str, owner: str) -> None:
        self._by_owner[owner].pop(uid, None)
        if not self._by_owner[owner]:
            del self._by_owner[owner]

    def _viewed(self, body: Mapping[str, Any]) -> T | None:
        """The view of an object; None where reading it raises: what was known of it stays."""
        try:
            view = self._view(body)
        except Exception as error:
            self._aside.put(name_of(body), error)
            return None
        self._aside.clear(name_of(body))
        return view
