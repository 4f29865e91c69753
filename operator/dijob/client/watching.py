"""Follows a collection of objects: a list, then a watch of its changes.

A broken watch continues from the last version that was received. If the apiserver no longer has
that version, or the watch breaks soon after it was opened, the collection is listed again. This is
what client-go's reflector does, without its cache and indexes.
"""

import asyncio
import json
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from http import HTTPStatus
from typing import Final

import aiohttp

from dijob.client.connection import ClientConnection, ClientRequest, Json
from dijob.client.errors import ApiError, Unreachable
from dijob.client.retrying import Report, Retries, log_failure

# Objects by name, or by NAMESPACE/NAME if all namespaces are watched. An object that has not
# changed is the same dict as before, so that callers can compare with `is`.
Objects = Mapping[str, Json]

# How long the apiserver may be unreachable before a watch gives up. A restart of a single apiserver
# takes less time.
PATIENCE_SECONDS: Final = 60.0
# The apiserver ends a watch after this time. client-go asks for 5 to 10 minutes.
_WATCH_SECONDS: Final = 240
# An apiserver sends a bookmark about once a minute (apiserver, pkg/storage/cacher:
# defaultBookmarkFrequency). If nothing arrives for longer, the apiserver is unreachable although
# the connection was never closed (a VPN that is down, a laptop that was asleep).
_SILENCE_SECONDS: Final = 90


class _VersionLost(Exception):
    """The apiserver cannot send the changes since the requested version: a new list is needed."""


async def watch_objects(
    connection: ClientConnection, path: str, *, report: Report = log_failure, **selectors: str
) -> AsyncGenerator[Objects]:
    """Yield the objects at a path, immediately and then after each change.

    `selectors` are labelSelector and fieldSelector. `report` receives a sentence if watches have
    failed for some seconds, and "" once they work again. Raises ApiError if the first list fails
    or a permission is missing, and Unreachable after PATIENCE_SECONDS without a response.
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
                listed = await connection.json(ClientRequest("GET", path, query=query))
                before, no_answer_since = objects, 0.0
                objects, version = _parse_list(path, listed, before)
                if objects != before or not begun:
                    begun = True
                    yield objects
            async with aclosing(
                _stream_events(connection, path, query, version, retries)
            ) as events:
                async for event in events:
                    no_answer_since, version = 0.0, _resource_version(event["object"])
                    if _apply_event(objects, event, _object_key(path, event["object"])):
                        yield objects
        except (_VersionLost, aiohttp.ClientError, OSError, ValueError) as error:
            version = "" if isinstance(error, _VersionLost) else version
            why = str(error) or why
        except (ApiError, Unreachable) as error:
            # A missing permission does not go away by itself, unlike an overload (429, 5xx).
            lasting = isinstance(error, ApiError) and error.status < 500 and error.status != 429
            no_answer_since = no_answer_since or loop.time()
            given_up = loop.time() - no_answer_since > PATIENCE_SECONDS
            if not begun or lasting or given_up:
                raise
            version, why = "", str(error)
        if not version or not retries.lasted:
            # A proxy may end every watch before an event arrives, but a new list still shows the
            # changes.
            version = ""
            await retries.pause(why)


def _parse_list(path: str, answer: Json, before: Objects) -> tuple[dict[str, Json], str]:
    """Return the objects of a list and its version. Unchanged objects are taken from `before`."""
    try:
        items = {_object_key(path, item): item for item in answer.get("items") or ()}
        version = _resource_version(answer)
    except (LookupError, TypeError, AttributeError) as error:
        # A proxy with a login page responds with 200 and HTML, for example.
        raise Unreachable(f"the response to GET {path} is not a list of objects") from error
    kept = {key: before[key] if before.get(key) == item else item for key, item in items.items()}
    return kept, version


def _resource_version(body: Json) -> str:
    return str(body["metadata"]["resourceVersion"])


def _object_key(path: str, body: Json) -> str:
    meta = body["metadata"]
    # A bookmark carries only a version, and no name.
    name = str(meta.get("name", ""))
    return name if "/namespaces/" in path else f"{meta.get('namespace', '')}/{name}"


def _apply_event(objects: dict[str, Json], event: Json, key: str) -> bool:
    """Apply an event to the objects, and return whether it changed them."""
    body = event["object"]
    match event["type"]:
        case "ADDED" | "MODIFIED":
            # After a new list, a watch can repeat changes that the list already contained.
            before, objects[key] = objects.get(key), body
            return before is None or before != body
        case "DELETED":
            return objects.pop(key, None) is not None
        case _:
            return False


async def _stream_events(
    connection: ClientConnection,
    path: str,
    query: tuple[tuple[str, str], ...],
    version: str,
    retries: Retries,
) -> AsyncGenerator[Json]:
    """Start a watch, and yield the events after the resourceVersion `version` until the watch ends.

    Raises _VersionLost if a new list is needed, and ValueError if the response is not a stream of
    events.
    """
    call = ClientRequest(
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
                    yield _parse_event(line)
    except ApiError as error:
        if error.status == HTTPStatus.GONE:
            raise _VersionLost(str(error)) from error
        raise


def _parse_event(line: bytes) -> Json:
    try:
        event = json.loads(line)
        if event["type"] == "ERROR":
            raise _VersionLost(str(event["object"].get("message", "")))
        if not isinstance(event["object"]["metadata"]["resourceVersion"], str):
            raise TypeError
    except (ValueError, TypeError, LookupError, AttributeError) as error:
        shown = line[:100].decode(errors="replace").strip()
        raise ValueError(f"the response is not a watch event: {shown}") from error
    found: Json = event
    return found
