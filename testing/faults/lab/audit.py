"""Reads from the apiserver's audit log what a client has written since a given time."""

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

from faults.lab.kube import Json

WRITES = ("create", "update", "patch", "delete", "deletecollection")
OPERATOR = "dijob-operator"


@dataclass(frozen=True)
class Write:
    """One write: verb, resource (with subresource), name and namespace of the object, the times of
    request and response (epoch seconds), the HTTP status code, the beginning of the user agent, and
    the identity of the operator.
    """

    verb: str
    kind: str
    name: str
    namespace: str
    came: float
    answered: float
    agent: str
    code: int
    identity: str


@dataclass
class Audit:
    """The part of the audit log that was written after this object was created."""

    log: Path
    _offset: int = field(default=0)

    def __post_init__(self) -> None:
        self._offset = self.log.stat().st_size

    def each(self, agent: str = OPERATOR) -> Iterator[Write]:
        """Yield the finished writes of clients whose user agent begins with this text ("": all
        clients).
        """
        for entry in self._entries():
            if entry["verb"] in WRITES and entry.get("userAgent", "").startswith(agent):
                about = entry["objectRef"]
                sub = f"/{about['subresource']}" if about.get("subresource") else ""
                yield Write(
                    entry["verb"],
                    about["resource"] + sub,
                    about.get("name", ""),
                    about.get("namespace", ""),
                    _epoch(entry["requestReceivedTimestamp"]),
                    _epoch(entry["stageTimestamp"]),
                    entry.get("userAgent", "").partition("/")[0],
                    entry["responseStatus"]["code"],
                    entry.get("userAgent", "").partition("(")[2].rstrip(")"),
                )

    def count(self, namespace: str, agent: str = OPERATOR) -> Counter[str]:
        """Count the writes in a namespace by kind, such as "create pods"."""
        return Counter(
            f"{write.verb} {write.kind}"
            for write in self.each(agent)
            if write.namespace == namespace
        )

    def asked(self, agent: str = OPERATOR) -> Counter[str]:
        """Count a client's requests, such as "get pods ns/name". A watch counts when it ends."""
        counted: Counter[str] = Counter()
        for entry in self._entries():
            if entry.get("userAgent", "").startswith(agent) and "objectRef" in entry:
                about = entry["objectRef"]
                where = f"{about.get('namespace', '')}/{about.get('name', '')}"
                counted[f"{entry['verb']} {about['resource']} {where}"] += 1
        return counted

    def _entries(self) -> Iterator[Json]:
        with self.log.open("rb") as lines:
            # The log may have ended in the middle of a line. The request on that line is older than
            # this object.
            lines.seek(max(self._offset - 1, 0))
            if self._offset:
                lines.readline()
            for line in lines:
                if line.endswith(b"\n"):  # otherwise the line is still being written
                    yield json.loads(line)


def _epoch(stamp: str) -> float:
    return datetime.fromisoformat(stamp).timestamp()
