"""Parses JSON from the apiserver, with limits on depth and size.

An apiserver can store objects with 10,000 levels or a million values. 10,000 levels make a
recursive parser fail on the object and on every list that contains it. A million values would delay
all other jobs. So parts that are too deep or too large are cut before anything else reads the
document. Validation rejects every spec from which a part was cut, so no job ever runs with a
truncated spec (docs/decisions/014).
"""

import asyncio
from typing import Any

from pydantic_core import from_json  # a quarter faster than json.loads, and installed anyway

from dijob.api.limits import cut_depth, cut_size, is_wide

# pydantic_core has no separate exception for its depth limit. This text identifies the error.
_TOO_DEEP = "recursion limit exceeded"
# Each watch event starts with _EVENT. Each list contains _LIST within its first _HEAD_BYTES bytes.
# Documents of other kinds contain neither marker at these positions, because the fields that users
# can choose come later.
_EVENT, _LIST, _HEAD_BYTES = b'{"type":', b'"items":[', 300


async def parse_document(document: bytes) -> Any:
    """Parse a document, and drop parts that are too deep or too large (api/limits.py). Raises
    ValueError if it is not JSON.
    """
    if _is_large(document):
        return from_json(await asyncio.to_thread(_cut_large_parts, document))
    try:
        return from_json(document)
    except ValueError as error:
        if not str(error).startswith(_TOO_DEEP):
            raise
    # Cutting takes up to one second per megabyte, so it must not block the event loop.
    return from_json(await asyncio.to_thread(cut_depth, document))


async def limit_document(document: bytes) -> bytes:
    """Return the document unchanged if every parser can read it quickly, else without the parts
    that are too deep or too large.
    """
    # Most documents have at most 100 brackets, so they cannot be too deep.
    if document.count(b"{") + document.count(b"[") <= 100:
        return document
    if _is_large(document):
        return await asyncio.to_thread(_cut_large_parts, document)
    try:
        from_json(document)
    except ValueError:
        return await asyncio.to_thread(cut_depth, document)
    return document


def _is_large(document: bytes) -> bool:
    """Whether an object or a watch event may be too large. Lists are exempt, because a list of many
    small objects also has many values.
    """
    return _LIST not in document[:_HEAD_BYTES] and is_wide(document)


def _cut_large_parts(document: bytes) -> bytes:
    """Cut large parts directly below metadata, spec and status, and parts that are too deep."""
    # In an event, the object is one level deeper than in a response.
    return cut_depth(cut_size(document, 3 if document.startswith(_EVENT) else 2))
