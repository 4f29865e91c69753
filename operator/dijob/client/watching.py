"""What a collection of objects is now, again and again: a list, then a watch, and from the list
again where that breaks.
"""

import asyncio
import json
import time
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from typing import Final

import aiohttp

from dijob.client.connection import Call, Connection, Json
from dijob.client.errors import ApiError, Unreachable

# By name, of all namespaces by NAMESPACE/NAME; with the same objects as before where nothing has
# changed about them.
Objects = Mapping[str, Json]

# How long an apiserver may be away before a watcher gives up.
PATIENCE_SECONDS: Final = 60.0
_PAUSE_SECONDS: Final = 1.0
_WATCH_SECONDS: Final = 240
# An apiserver sends a bookmark about each minute (apiserver, pkg/storage/cacher:
# defaultBookmarkFrequency): one that says nothing for longer cannot be reached any more, although
# nothing has ended the connection (a VPN that is down, a laptop that was asleep).
_SILENCE_SECONDS: Final = 90


async def watched(connection: Connection, path: str, **selectors: str) -> AsyncGenerator[Objects]:
    """The objects at a path after each change, the first time at once.

    `selectors` are labelSelector, fieldSelector. Raises ApiError where the first list is refused,
    Unreachable where there was no answer for PATIENCE_SECONDS.
    """
    query = tuple(selectors.items())
    last_answer, begun = time.monotonic(), False
    while True:
        try:
            listed = await connection.json(Call("GET", path, query=query))
            last_answer, begun = time.monotonic(), True
            objects = {_key(path, item): item for item in listed.get("items", ())}
            yield objects
            version = str(listed["metadata"]["resourceVersion"])
            async with aclosing(_events(connection, path, query, version)) as events:
                async for event in events:
                    last_answer = time.monotonic()
                    if _taken(objects, event, _key(path, event["object"])):
                        yield objects
        except (ApiError, Unreachable) as error:
            lasting = isinstance(error, ApiError) and error.status < 500 and error.status != 429
            if not begun or lasting or time.monotonic() - last_answer > PATIENCE_SECONDS:
                raise
            await asyncio.sleep(_PAUSE_SECONDS)


def _key(path: str, body: Json) -> str:
    meta = body["metadata"]
    # A bookmark has no name.
    name = str(meta.get("name", ""))
    return name if "/namespaces/" in path else f"{meta.get('namespace', '')}/{name}"


def _taken(objects: dict[str, Json], event: Json, key: str) -> bool:
    """Change the objects as an event says; whether they did change."""
    match event["type"]:
        case "ADDED" | "MODIFIED":
            objects[key] = event["object"]
        case "DELETED":
            objects.pop(key, None)
        case _:
            return False
    return True


async def _events(
    connection: Connection, path: str, query: tuple[tuple[str, str], ...], version: str
) -> AsyncGenerator[Json]:
    """The events after a version, until the apiserver ends the watch or has lost the version."""
    while True:
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
                async for line in response.content:
                    event: Json = json.loads(line)
                    if event["type"] == "ERROR":
                        return
                    version = event["object"]["metadata"]["resourceVersion"]
                    yield event
        except ApiError as error:
            if error.status == 410:
                return
            raise
        except (aiohttp.ClientError, OSError, ValueError):
            return
