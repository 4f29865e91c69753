"""The namespaces that the operator was given: the deletion of one must not stop all others.

With a namespace go the operator's rights in it.
"""

import asyncio
import logging

from dijob.shell.api import Api, ApiError
from dijob.shell.audit import LIST_METADATA
from dijob.shell.kinds import CHILDREN, JOBS, POLICIES

log = logging.getLogger(__name__)

LOOK_SECONDS = 20.0
# Twice the same answer: a control plane that is being upgraded may refuse for a moment.
LOOKS = 2
# Policies are watched, and there is a right to do so, only where the jobs have some.
READ = (JOBS, *(kind for kind in CHILDREN.values() if kind.view and kind is not POLICIES))
LOOKED_AT_ONCE = 16


async def closed(api: Api, given: tuple[str, ...]) -> frozenset[str] | None:
    """The namespaces in which nothing may be read, which must be left out.

    None where that is not known: no answer, or a refusal for all (the operator lacks the rights).
    """
    few = asyncio.Semaphore(LOOKED_AT_ONCE)
    answers = dict(
        zip(given, await asyncio.gather(*(_open(api, name, few) for name in given)), strict=True)
    )
    found = frozenset(namespace for namespace, answer in answers.items() if answer is False)
    return None if None in answers.values() or (given and len(found) == len(given)) else found


async def until_others(api: Api, given: tuple[str, ...], left_out: frozenset[str]) -> None:
    """Look until others must be left out than are."""
    if left_out:
        log.warning(
            "skipping namespaces that the operator cannot read (deleted, or without its Role): %s",
            _words(left_out),
        )
    others, looks = left_out, 0
    while looks < LOOKS:
        await asyncio.sleep(LOOK_SECONDS)
        now = await closed(api, given)
        if now is None:
            continue
        looks = 0 if now == left_out else looks + 1 if now == others else 1
        others = now
    log.warning(
        "readable namespaces changed, exiting to restart with the new set: %s",
        _words(others ^ left_out),
    )


async def _open(api: Api, namespace: str, few: asyncio.Semaphore) -> bool | None:
    """Whether the operator may read in it; None: no answer that says so."""
    try:
        for kind in READ:
            async with few:
                await api.get(kind.path(namespace), accept=LIST_METADATA, limit="1")
    except ApiError as error:
        return False if error.status in (403, 404) else None
    return True


def _words(namespaces: frozenset[str]) -> str:
    return ", ".join(sorted(namespaces))
