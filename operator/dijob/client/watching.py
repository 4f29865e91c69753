"""What a collection of objects is now, again and again: a list, then a watch, and from the list
again where that breaks.
"""

import asyncio
import json
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from http import HTTPStatus
from typing import Final

import aiohttp

from dijob.client.connection import Call, Connection, Json
from dijob.client.errors import ApiError, Unreachable
from dijob.client.retrying import Report, Retries, warn

# By name, of all namespaces by NAMESPACE/NAME; with the same objects as before where nothing has
# changed about them.
Objects = Mapping[str, Json]

# How long an apiserver may be away before a watcher gives up.
PATIENCE_SECONDS: Final = 60.0
_WATCH_SECONDS: Final = 240
# An apiserver sends a bookmark about each minute (apiserver, pkg/storage/cacher:
# defaultBookmarkFrequency): one that says nothing for longer cannot be reached any more, although
# nothing has ended the connection (a VPN that is down, a laptop that was asleep).
_SILENCE_SECONDS: Final = 90


class _VersionLost(Exception):
    """The apiserver no longer has the changes after a version: a new list is needed."""


async def watched(
    connection: Connection, path: str, *, report: Report = warn, **selectors: str
) -> AsyncGenerator[Objects]:
    """The objects at a path, at once and then after each change of them.

    `selectors` are labelSelector, fieldSelector. `report` gets a sentence if watches have failed
    for some seconds, and "" when they work again. Raises ApiError if the first list or a right is
    refused, Unreachable if there was no answer for PATIENCE_SECONDS.
    """
    query = tuple(selectors.items())
    retries = Retries(f"the watch of {path}", report)
    loop = asyncio.get_running_loop()
    objects: dict[str, Json] = {}
    version, begun, no_answer_since = "", False, 0.0
    while True:
        why = "the connection ended"
        try:
            if not version:
                listed = await connection.json(Call("GET", path, query=query))
                before, no_answer_since = objects, 0.0
                objects, version = _listed(path, listed, before)
                if objects != before or not begun:
                    begun = True
                    yield objects
            async with aclosing(_events(connection, path, query, version, retries)) as events:
                async for event in events:
                    no_answer_since, version = 0.0, _version(event["object"])
                    if _taken(objects, event, _key(path, event["object"])):
                        yield objects
        except (_VersionLost, aiohttp.ClientError, OSError, ValueError) as error:
            version = "" if isinstance(error, _VersionLost) else version
            why = str(error) or why
        except (ApiError, Unreachable) as error:
            lasting = isinstance(error, ApiError) and error.status < 500 and error.status != 429
            no_answer_since = no_answer_since or loop.time()
            given_up = loop.time() - no_answer_since > PATIENCE_SECONDS
            if not begun or lasting or given_up:
                raise
            version, why = "", str(error)
        if not version or not retries.lasted:
            # A list shows what has changed even if no watch lasts.
            version = ""
            await retries.pause(why)


def _listed(path: str, answer: Json, before: Objects) -> tuple[dict[str, Json], str]:
    """The objects of a list and its version; those that are as before are the same objects."""
    try:
        items = {_key(path, item): item for item in answer.get("items") or ()}
        version = _version(answer)
    except (LookupError, TypeError, AttributeError) as error:
        raise Unreachable(f"the answer to GET {path} is no list of objects") from error
    kept = {key: before[key] if before.get(key) == item else item for key, item in items.items()}
    return kept, version


def _version(body: Json) -> str:
    return str(body["metadata"]["resourceVersion"])


def _key(path: str, body: Json) -> str:
    meta = body["metadata"]
    # A bookmark has no name.
    name = str(meta.get("name", ""))
    return name if "/namespaces/" in path else f"{meta.get('namespace', '')}/{name}"


def _taken(objects: dict[str, Json], event: Json, key: str) -> bool:
    """Change the objects as an event says; whether they did change."""
    body = event["object"]
    match event["type"]:
        case "ADDED" | "MODIFIED":
            before, objects[key] = objects.get(key), body
            return before is None or before != body
        case "DELETED":
            return objects.pop(key, None) is not None
        case _:
            return False


async def _events(
    connection: Connection,
    path: str,
    query: tuple[tuple[str, str], ...],
    version: str,
    retries: Retries,
) -> AsyncGenerator[Json]:
    """The events of one watch after a version, until it ends. Raises _VersionLost; ValueError for
    what is no event.
    """
    call = Call(
        "GET",
        path,
        query=(
            *query,
            ("watch", "1"),
            ("resourceVersion", version),
            ("allowWatchBookmarks", "true"),
            ("timeoutSeconds", str(_WATCH_SECONDS)),
        ),
    )
    try:
        async with connection.open(call, silence=_SILENCE_SECONDS) as response:
            with retries.lasting():
                async for line in response.content:
                    yield _event(line)
    except ApiError as error:
        if error.status == HTTPStatus.GONE:
            raise _VersionLost(str(error)) from error
        raise


def _event(line: bytes) -> Json:
    try:
        event = json.loads(line)
        if event["type"] == "ERROR":
            raise _VersionLost(str(event["object"].get("message", "")))
        if not isinstance(event["object"]["metadata"]["resourceVersion"], str):
            raise TypeError
    except (ValueError, TypeError, LookupError, AttributeError) as error:
        shown = line[:100].decode(errors="replace").strip()
        raise ValueError(f"it sent what is no event of a watch: {shown}") from error
    found: Json = event
    return found
