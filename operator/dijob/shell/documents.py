"""JSON as it comes from the apiserver. Nothing that is nested deeper than anything we work with
comes in with it.
"""

import asyncio
from typing import Any

from pydantic_core import from_json  # a quarter faster than json.loads, and here anyway

from dijob.api.depth import is_wide, narrow, shallow

# The parser's own bound, of which it says only this.
_TOO_DEEP = "recursion limit exceeded"
# How the apiserver begins an event of a watch; and what is in the beginning of each list, and of
# nothing else: what a user may name comes later.
_EVENT, _LIST, _HEAD_BYTES = b'{"type":', b'"items":[', 300


async def parsed(document: bytes) -> Any:
    """The document, without what is too deep in it or too much (api/depth.py), so that one object
    does not hide the others of a list, nor hold them up. ValueError where it is no JSON.
    """
    if _is_large(document):
        return from_json(await asyncio.to_thread(_cut, document))
    try:
        return from_json(document)
    except ValueError as error:
        if not str(error).startswith(_TOO_DEEP):
            raise
    # A second per megabyte at the worst: in another thread.
    return from_json(await asyncio.to_thread(shallow, document))


async def readable(document: bytes) -> bytes:
    """The document as it is, where every parser can read it soon, else without what is too deep in
    it or too much.
    """
    if document.count(b"{") + document.count(b"[") <= 100:
        return document
    if _is_large(document):
        return await asyncio.to_thread(_cut, document)
    try:
        from_json(document)
    except ValueError:
        return await asyncio.to_thread(shallow, document)
    return document


def _is_large(document: bytes) -> bool:
    """Whether an object, or the event about one, may have too much in it. A list may well have many
    values.
    """
    return _LIST not in document[:_HEAD_BYTES] and is_wide(document)


def _cut(document: bytes) -> bytes:
    """Without what is too much right below metadata, spec and status, nor what is too deep."""
    return shallow(narrow(document, 3 if document.startswith(_EVENT) else 2))
