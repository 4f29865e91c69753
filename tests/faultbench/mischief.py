"""What networks, apiservers and clocks may do to what an operator is told, as functions for the
proxy.
"""

import json
import random
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from faults.exchange import Asked, Fault, Watch

Json = dict[str, Any]
Answer = Callable[[Asked], Fault | None]
Retell = Callable[[Watch, bytes], list[bytes]]

TIME = re.compile(r"(Time|At)$")
# So many events are in a stream's hands before the oldest of them is let go.
HELD = 3


def always(fault: Fault) -> Answer:
    """Each request meets it."""
    return lambda asked: fault


def sometimes(dice: random.Random, share: float, fault: Fault) -> Answer:
    """A share of all requests that are no watches meets it."""
    return lambda asked: fault if not asked.watch and dice.random() < share else None


def doubled(dice: random.Random, share: float) -> Retell:
    """A share of the events comes twice."""
    return lambda watch, line: [line] * (2 if dice.random() < share else 1)


def is_bookmark(line: bytes) -> bool:
    """Whether a line of a watch says only how far the stream is."""
    return bool(json.loads(line)["type"] == "BOOKMARK")


def reordered(dice: random.Random) -> Retell:
    """A few events are held back, and come in any order; a bookmark lets all of them go."""

    def retell(watch: Watch, line: bytes) -> list[bytes]:
        if is_bookmark(line):
            told, watch.held = watch.held, []
            dice.shuffle(told)
            return [*told, line]
        watch.held.append(line)
        dice.shuffle(watch.held)
        told, watch.held = watch.held[HELD:], watch.held[:HELD]
        return told

    return retell


def replayed(dice: random.Random, share: float) -> Retell:
    """After a share of the events comes again what was told of the same object long before."""
    former: dict[str, bytes] = {}

    def retell(watch: Watch, line: bytes) -> list[bytes]:
        event = json.loads(line)
        if event["type"] == "BOOKMARK":
            return [line]
        uid = event["object"]["metadata"].get("uid", "")
        old = former.setdefault(uid, line)
        return [line, old] if dice.random() < share else [line]

    return retell


def lost(dice: random.Random, share: float) -> Retell:
    """A share of the events never comes."""
    return lambda watch, line: [] if not is_bookmark(line) and dice.random() < share else [line]


@dataclass
class StaleLists:
    """Lists as they were when this began: what an apiserver answers that lags behind.

    `remember` is for the proxy's `change`. Once `behind`, each list that was read before is
    answered as it was then; a watch from its version shows all that has happened since.
    """

    known: dict[tuple[str, str], bytes] = field(default_factory=dict)
    behind: bool = False
    answered: int = 0

    def no_stream(self, asked: Asked) -> Fault | None:
        """Lists are read in pages, as before Kubernetes 1.34."""
        return Fault(422, reason="Invalid") if asked.initial else None

    def remember(self, asked: Asked, body: bytes) -> bytes:
        is_list = asked.method == "GET" and json.loads(body).get("kind", "").endswith("List")
        if not is_list:
            return body
        key = (asked.path, asked.selector)
        if not self.behind:
            self.known[key] = body
        elif key in self.known:
            self.answered += 1
            return self.known[key]
        return body


@dataclass(frozen=True)
class Shifted:
    """The clocks of nodes go wrong: half of them are ahead by so much, half behind."""

    by: timedelta

    def change(self, asked: Asked, body: bytes) -> bytes:
        """For the proxy's `change`: the pods in an answer."""
        answer = json.loads(body)
        for pod in answer.get("items") or [answer]:
            self._shift(asked, pod)
        return json.dumps(answer).encode()

    def retell(self, watch: Watch, line: bytes) -> list[bytes]:
        """For the proxy's `retell`."""
        event = json.loads(line)
        self._shift(watch.asked, event["object"])
        return [json.dumps(event).encode()]

    def _shift(self, asked: Asked, pod: Json) -> None:
        """The times that a kubelet writes; a pod's creation and its scheduling are not its."""
        if "/pods" in asked.path and (status := pod.get("status")) and "spec" in pod:
            ahead = sum(pod["spec"].get("nodeName", "").encode()) % 2
            pod["status"] = _moved(status, self.by if ahead else -self.by)


def _moved(value: Any, by: timedelta) -> Any:
    if isinstance(value, list):
        return [_moved(one, by) for one in value]
    if not isinstance(value, dict) or value.get("type") == "PodScheduled":
        return value
    return {
        key: _later(one, by) if isinstance(one, str) and TIME.search(key) else _moved(one, by)
        for key, one in value.items()
    }


def _later(stamp: str, by: timedelta) -> str:
    return (datetime.fromisoformat(stamp) + by).strftime("%Y-%m-%dT%H:%M:%SZ")
