"""Finds the configured namespaces that the operator cannot read.

If a namespace is deleted, the operator's Role in it is deleted too. The watch of this namespace
would then fail, and kopf would end the watches of all other namespaces. So the operator skips
namespaces that it cannot read, and restarts when the set of such namespaces has changed.
"""

import asyncio
import logging

from dijob.controller.watch.audit import LIST_METADATA
from dijob.kube.api import Api, RequestError
from dijob.kube.kinds import CHILDREN, JOBS, POLICIES

log = logging.getLogger(__name__)

LOOK_SECONDS = 20.0
# Number of checks with the same result before the operator restarts. An apiserver that is being
# upgraded can reject requests for a moment.
LOOKS = 2
# The kinds to check. NetworkPolicies are not checked, because the operator has permission to list
# them only if each job gets its own policy.
READ = (JOBS, *(kind for kind in CHILDREN.values() if kind.view and kind is not POLICIES))
LOOKED_AT_ONCE = 16


async def find_unreadable(api: Api, given: tuple[str, ...]) -> frozenset[str] | None:
    """Return the namespaces that the operator cannot read.

    Return None if this is unknown: there was no response, or the requests for all namespaces were
    rejected. If all were rejected, the operator itself lacks permissions.
    """
    few = asyncio.Semaphore(LOOKED_AT_ONCE)
    answers = dict(
        zip(
            given,
            await asyncio.gather(*(_is_readable(api, name, few) for name in given)),
            strict=True,
        )
    )
    found = frozenset(namespace for namespace, answer in answers.items() if answer is False)
    return None if None in answers.values() or (given and len(found) == len(given)) else found


async def until_others(api: Api, given: tuple[str, ...], left_out: frozenset[str]) -> None:
    """Check the set of unreadable namespaces periodically, and return when the set has changed."""
    if left_out:
        log.warning(
            "skipping namespaces that the operator cannot read (deleted, or without its Role): %s",
            _format_names(left_out),
        )
    others, looks = left_out, 0
    while looks < LOOKS:
        await asyncio.sleep(LOOK_SECONDS)
        now = await find_unreadable(api, given)
        if now is None:
            continue
        looks = 0 if now == left_out else looks + 1 if now == others else 1
        others = now
    log.warning(
        "readable namespaces changed, exiting to restart with the new set: %s",
        _format_names(others ^ left_out),
    )


async def _is_readable(api: Api, namespace: str, few: asyncio.Semaphore) -> bool | None:
    """Return whether the operator can read a namespace; None if the responses do not say."""
    try:
        for kind in READ:
            async with few:
                await api.get(kind.path(namespace), accept=LIST_METADATA, limit="1")
    except RequestError as error:
        return False if error.status in (403, 404) else None
    return True


def _format_names(namespaces: frozenset[str]) -> str:
    return ", ".join(sorted(namespaces))
