"""JSON as it comes from the apiserver. Nothing that is nested deeper than anything we work with comes in with it."""

import asyncio
from typing import Any

from pydantic_core import from_json  # a quarter faster than json.loads, and here anyway

from dijob.api.depth import shallow

# The parser's own bound, of which it says only this.
_TOO_DEEP = "recursion limit exceeded"


async def parsed(document: bytes) -> Any:
    """The document. What is too deep in it is empty (api/depth.py), so that one object does not hide the others of a
    list. ValueError where it is no JSON."""
    try:
        return from_json(document)
    except ValueError as error:
        if not str(error).startswith(_TOO_DEEP):
            raise
    # A second per megabyte at the worst: in another thread.
    return from_json(await asyncio.to_thread(shallow, document))


async def readable(document: bytes) -> bytes:
    """The document as it is, where every parser can read it, else without what is too deep in it."""
    if document.count(b"{") + document.count(b"[") <= 100:
        return document
    try:
        from_json(document)
    except ValueError:
        return await asyncio.to_thread(shallow, document)
    return document
