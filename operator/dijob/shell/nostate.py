"""What kopf would keep in annotations of users' objects: nothing. It would also work it out anew
for each event.
"""

import kopf


class NoDiffBase(kopf.DiffBaseStorage):
    """No last-handled configuration: the plan compares what is with what should be, not with what
    was.
    """

    def build(self, *, body: kopf.Body, extra_fields: object = None) -> kopf.BodyEssence:
        return kopf.BodyEssence({})

    def fetch(self, *, body: kopf.Body) -> kopf.BodyEssence | None:
        return None

    def store(self, *, body: kopf.Body, patch: kopf.Patch, essence: kopf.BodyEssence) -> None:
        """Nowhere."""


class NoProgress(kopf.ProgressStorage):
    """No progress of handlers: the only handler puts a key into a queue."""

    def fetch(self, *, key: object, body: kopf.Body) -> kopf.ProgressRecord | None:
        return None

    def store(
        self, *, key: object, record: kopf.ProgressRecord, body: kopf.Body, patch: kopf.Patch
    ) -> None:
        """Nowhere."""

    def purge(self, *, key: object, body: kopf.Body, patch: kopf.Patch) -> None:
        """Nothing is there."""

    def touch(self, *, body: kopf.Body, patch: kopf.Patch, value: str | None) -> None:
        """Never."""

    def clear(self, *, essence: kopf.BodyEssence) -> kopf.BodyEssence:
        return essence
