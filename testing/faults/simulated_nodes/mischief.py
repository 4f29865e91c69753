"""Faults of networks, apiservers and clocks, as functions for the proxy between the operator and
the apiserver. The functions change what the operator receives.
"""

import json
import random
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from faults.lab.exchange import Asked, Fault, Watch

Json = dict[str, Any]
# The types of the proxy's functions: see faults/lab/proxy.py.
Answer = Callable[[Asked], Fault | None]
Retell = Callable[[Watch, bytes], list[bytes]]

# The names of fields with times, such as startTime and finishedAt.
TIME = re.compile(r"(Time|At)$")
# How many events a stream may hold back.
HELD = 3


def always(fault: Fault) -> Answer:
    """Return an answer that applies the fault to every request."""
    return lambda asked: fault


def sometimes(dice: random.Random, share: float, fault: Fault) -> Answer:
    """Return an answer that applies the fault to a random share of the requests. It never applies
    the fault to a watch.
    """
    return lambda asked: fault if not asked.watch and dice.random() < share else None


def doubled(dice: random.Random, share: float) -> Retell:
    """Deliver a share of the events twice."""
    return lambda watch, line: [line] * (2 if dice.random() < share else 1)


def is_bookmark(line: bytes) -> bool:
    """Return whether a line of a watch is a bookmark, which has only a version."""
    return bool(json.loads(line)["type"] == "BOOKMARK")


def reordered(dice: random.Random) -> Retell:
    """Hold back a few events, and deliver them in random order. All of them are delivered before a
    bookmark, which promises that all earlier events have been sent.
    """

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
    """Deliver each event. Then, with probability `share`, deliver the first event of the same
    object again.
    """
    former: dict[str, bytes] = {}

    def retell(watch: Watch, line: bytes) -> list[bytes]:
        event = json.loads(line)
        if event["type"] == "BOOKMARK":
            return [line]
        # The events are stored by uid, not by name. To replay an event of a deleted object with the
        # same name would be a different kind of fault.
        uid = event["object"]["metadata"].get("uid", "")
        old = former.setdefault(uid, line)
        return [line, old] if dice.random() < share else [line]

    return retell


def lost(dice: random.Random, share: float) -> Retell:
    """Drop a share of the events."""
    return lambda watch, line: [] if not is_bookmark(line) and dice.random() < share else [line]


@dataclass
class StaleLists:
    """Old lists, as from an apiserver whose cache lags behind.

    `remember` is meant to be assigned to the proxy's `change`. While `behind` is false, it records
    the lists. After that, it answers each recorded list with its old content. A watch from the
    version of that list delivers everything that has happened since.
    """

    known: dict[tuple[str, str], bytes] = field(default_factory=dict)
    behind: bool = False
    answered: int = 0

    def no_stream(self, asked: Asked) -> Fault | None:
        """Reject streaming lists, so that the client reads lists as before Kubernetes 1.34."""
        return Fault(422, reason="Invalid") if asked.initial else None

    def remember(self, asked: Asked, body: bytes) -> bytes:
        is_list = asked.method == "GET" and json.loads(body).get("kind", "").endswith("List")
        if not is_list:
            return body
        # Lists with different selectors are different lists.
        key = (asked.path, asked.selector)
        if not self.behind:
            self.known[key] = body
        elif key in self.known:
            self.answered += 1
            return self.known[key]
        return body


@dataclass(frozen=True)
class Shifted:
    """Wrong node clocks: half of them are ahead by `by`, and half are behind by `by`."""

    by: timedelta

    def change(self, asked: Asked, body: bytes) -> bytes:
        """In a response, shift the times that the pods' kubelets wrote. (For the proxy's
        `change`.)
        """
        answer = json.loads(body)
        for pod in answer.get("items") or [answer]:
            self._shift(asked, pod)
        return json.dumps(answer).encode()

    def retell(self, watch: Watch, line: bytes) -> list[bytes]:
        """In a watch event, shift the times that the pod's kubelet wrote. (For the proxy's
        `retell`.)
        """
        event = json.loads(line)
        self._shift(watch.asked, event["object"])
        return [json.dumps(event).encode()]

    def _shift(self, asked: Asked, pod: Json) -> None:
        """Shift the times that a kubelet writes. The times of creation and scheduling come from
        other components.
        """
        if "/pods" in asked.path and (status := pod.get("status")) and "spec" in pod:
            # All pods on a node must have the same shift, even in later events.
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
