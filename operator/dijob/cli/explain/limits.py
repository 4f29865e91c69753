"""Compares the requests of pods before and after a dry run. No I/O.

A LimitRange adds requests and limits to containers that have none, including containers that the
operator or a webhook adds.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from dijob.cli.explain.fit import YES, FitFinding
from dijob.core.render import quantities

Body = Mapping[str, Any]


def changed_requests(
    pods: Iterable[tuple[str, Body, Body]], ranges: Sequence[str]
) -> list[FitFinding]:
    """Return a finding for each pod whose requests the cluster changes.

    Each pod is a tuple: its name, its spec, and its spec with the cluster's defaults. `ranges` are
    the names of the LimitRanges of the namespace.
    """
    found = []
    for name, asked, admitted in pods:
        before, after = quantities.pod_requests(asked), quantities.pod_requests(admitted)
        if before != after:
            given = f"LimitRange {', '.join(ranges)}" if ranges else "an admission webhook"
            cause = "the RuntimeClass" if admitted.get("overhead") and not ranges else given
            text = (
                f"the cluster changes the requests of a pod like {name} to"
                f" {quantities.format_amounts(after)} ({cause})"
            )
            found.append(FitFinding(YES, text))
    return found
