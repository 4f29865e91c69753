"""What has broken the operator: it is set aside, so that all others are served, and looked at when
it changes.
"""

import logging
from collections.abc import Mapping
from typing import Any

from dijob.shell import metrics

log = logging.getLogger(__name__)


class Aside:
    """The objects of one kind that could not be dealt with when they were last looked at, and
    why.
    """

    def __init__(self, kind: str) -> None:
        self._kind = kind
        self._why: dict[str, str] = {}
        metrics.SET_ASIDE.labels(kind)  # 0, and not: no such series

    def put(self, name: str, error: Exception) -> None:
        """Note one. The traceback is logged once for each error of it: a pod changes often."""
        why = f"{type(error).__name__}: {error}"
        if self._why.get(name) != why:
            log.error(
                "%s %s is quarantined until it changes: %s",
                self._kind,
                name,
                why[:500],
                exc_info=error,
            )
        self._why[name] = why
        metrics.SET_ASIDE.labels(self._kind).set(len(self._why))

    def why(self, name: str) -> str:
        """What it broke; "" where it is not set aside."""
        return self._why.get(name, "")

    def clear(self, name: str) -> None:
        """It has been dealt with, or is gone."""
        if self._why.pop(name, None) is not None:
            metrics.SET_ASIDE.labels(self._kind).set(len(self._why))


def name_of(body: Mapping[str, Any]) -> str:
    """An object's name for people."""
    meta = body["metadata"]
    return f"{meta.get('namespace')}/{meta.get('name')}"
