"""The namespaces that the operator was given: one that is deleted takes the rights in it along, and must not take the
operator of the others with it."""

import asyncio
import logging
import signal

from dijob import names
from dijob.shell.api import Api, ApiError
from dijob.shell.audit import LIST_METADATA

log = logging.getLogger(__name__)

# Twice the same, since a control plane that is being upgraded may say no for a moment.
LOOK_SECONDS = 10.0
LOOKS = 2


async def closed(api: Api, given: tuple[str, ...]) -> frozenset[str]:
    """Those that must be left out, since the apiserver lets us see nothing in them. None where it is so in all: then
    the rights are wrong, and each call says which."""
    found = frozenset([namespace for namespace in given if not await _open(api, namespace)])
    return frozenset() if found == set(given) else found


async def until_others(api: Api, given: tuple[str, ...], left_out: frozenset[str]) -> None:
    """Look until others must be left out than are; then ask this process to end: it is started again as it must be."""
    if not given:
        return
    if left_out:
        log.warning("not served, nothing may be read there (deleted, or no Role in it): %s", _words(left_out))
    looks, others = 0, left_out
    while looks < LOOKS:
        await asyncio.sleep(LOOK_SECONDS)
        others = await closed(api, given)
        looks = looks + 1 if others != left_out else 0
    log.warning("what can be served has changed, the operator ends to begin anew: %s", _words(others ^ left_out))
    signal.raise_signal(signal.SIGTERM)


def _words(namespaces: frozenset[str]) -> str:
    return ", ".join(sorted(namespaces))


async def _open(api: Api, namespace: str) -> bool:
    path = f"/apis/{names.API_VERSION}/namespaces/{namespace}/{names.PLURAL}"
    try:
        await api.get(path, accept=LIST_METADATA, limit="1")
    except ApiError as error:
        return error.status not in (403, 404)
    return True
