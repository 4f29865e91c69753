"""Quarantine for objects whose processing raised an unexpected exception.

Such an exception means that one object has triggered a bug in the operator. All other objects must
still be processed, so this object is skipped until it or one of its children changes. The operator
does not retry it on a timer, because the same input would raise the same exception
(docs/decisions/014).
"""

import logging
from collections.abc import Mapping
from typing import Any

from dijob.controller import metrics

log = logging.getLogger(__name__)


class Quarantine:
    """The quarantined objects of one kind, and the exception that each object raised."""

    def __init__(self, kind: str) -> None:
        self._kind = kind
        self._why: dict[str, str] = {}
        metrics.QUARANTINED.labels(kind)  # create the series, so that it starts at 0

    def put(self, name: str, error: Exception) -> None:
        """Quarantine an object."""
        # A pod changes often, and each change triggers another attempt. Log a traceback only if the
        # error is a new one.
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
        metrics.QUARANTINED.labels(self._kind).set(len(self._why))

    def why(self, name: str) -> str:
        """Return the error of a quarantined object, or "" if the object is not quarantined."""
        return self._why.get(name, "")

    def clear(self, name: str) -> None:
        """Release an object that was processed, or that is gone."""
        if self._why.pop(name, None) is not None:
            metrics.QUARANTINED.labels(self._kind).set(len(self._why))


def name_of(body: Mapping[str, Any]) -> str:
    """Return NAMESPACE/NAME of an object for log lines."""
    meta = body["metadata"]
    return f"{meta.get('namespace')}/{meta.get('name')}"
