"""Storages for kopf that store nothing.

By default, kopf keeps the last handled configuration and the progress of handlers in annotations of
users' objects, and computes both for each event. The operator uses neither.
"""

import kopf


class NoDiffBase(kopf.DiffBaseStorage):
    """Stores no last-handled configuration: the plan compares the actual state with the desired
    one, and never with a previous one.
    """

    def build(self, *, body: kopf.Body, extra_fields: object = None) -> kopf.BodyEssence:
        return kopf.BodyEssence({})

    def fetch(self, *, body: kopf.Body) -> kopf.BodyEssence | None:
        return None

    def store(self, *, body: kopf.Body, patch: kopf.Patch, essence: kopf.BodyEssence) -> None:
        """No-op: nothing is stored."""


class NoProgress(kopf.ProgressStorage):
    """Stores nothing about handler progress. The only handler puts a key into a queue, and never
    fails.
    """

    def fetch(self, *, key: object, body: kopf.Body) -> kopf.ProgressRecord | None:
        return None

    def store(
        self, *, key: object, record: kopf.ProgressRecord, body: kopf.Body, patch: kopf.Patch
    ) -> None:
        """No-op: nothing is stored."""

    def purge(self, *, key: object, body: kopf.Body, patch: kopf.Patch) -> None:
        """No-op: nothing is stored."""

    def touch(self, *, body: kopf.Body, patch: kopf.Patch, value: str | None) -> None:
        """No-op: there is no annotation to change."""

    def clear(self, *, essence: kopf.BodyEssence) -> kopf.BodyEssence:
        # kopf would remove its own annotations here, but there are none.
        return essence
