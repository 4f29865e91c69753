"""Limits for the depth and the size of an object.

In fields that keep unknown keys, an apiserver stores up to 10,000 nested levels. Neither a schema
nor CEL can measure depth. Every parser and every copy recurses, so one object with too many levels
could crash the process. Deep and large parts are therefore cut from the JSON text before it is
parsed, and validation rejects the truncated object (docs/decisions/014).
"""

import json
import re
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any, Final

from dijob.api.problems import Problem

# Validation rejects more than LEVELS levels, and no Kubernetes field is nested nearly as deeply.
# Documents are cut only at KEPT_LEVELS, which is larger, so validation rejects every truncated
# spec. pydantic stops at a depth of 200. KEPT_LEVELS must be well below this depth, because the
# list or the event around an object adds some levels.
LEVELS: Final = 100
KEPT_LEVELS: Final = 150
# Templates of real pods have a few hundred values, and each pod gets all of them. An apiserver
# can store an object with a million values. Such an object would delay all other jobs.
VALUES: Final = 10_000
# Each value adds at most one comma and one opening bracket. So a part of a document has more than
# VALUES values if its commas and opening brackets together exceed this number.
TOKENS: Final = 2 * VALUES + 5_000
# The placeholder for the content of an object or list that was cut. Validation rejects it.
CUT: Final = "\0cut"
_CUT_JSON: Final = json.dumps(CUT).encode()
# The longest path in a message, in characters.
_PATH_LENGTH: Final = 100
_STRING: Final = rb'"[^"\\]*(?:\\.[^"\\]*)*"'
_BRACKET: Final = re.compile(_STRING + rb"|[\[\]{}]", re.DOTALL)
_TOKEN: Final = re.compile(_STRING + rb"|[\[\]{},]", re.DOTALL)
DEEP_MESSAGE: Final = (
    f"is nested more than {LEVELS} levels deep, which no field of a pod needs: remove it"
)
LARGE_MESSAGE: Final = (
    f"has more than {VALUES:,} values, and each pod would get all of them: make it smaller, for"
    " example by moving values to a ConfigMap that the template mounts or references in envFrom"
)
# etcd stores objects of up to about 1.5 MB, including their status. A job above this size may
# leave no room for a status, which takes up at most about 100 KB.
LARGE_BYTES: Final = 1024 * 1024
TOO_LARGE_MESSAGE: Final = (
    "the job is too large: the API server cannot store its status next to the spec (a job and its"
    " status together may be at most about 1.5 MB). Move long arguments and variables into a"
    " ConfigMap, mount it as a volume or use envFrom, and create the job again"
)


def cut_depth(document: bytes) -> bytes:
    """Return a JSON document without the content of objects and lists at level KEPT_LEVELS."""
    depth, kept, begin = 0, list[bytes](), 0
    for found in _BRACKET.finditer(document):
        match found[0]:
            case b"{" | b"[":
                depth += 1
                if depth == KEPT_LEVELS:
                    kept.append(document[begin : found.end()])
            case b"}" | b"]":
                if depth == KEPT_LEVELS:
                    begin = found.start()
                depth -= 1
    return b"".join((*kept, document[begin:]))


def is_wide(document: bytes) -> bool:
    """Whether a document may have so many values that `cut_size` has to cut some."""
    # A cheap test that is enough for most documents: three bytes contain at most two commas or
    # opening brackets, as in "[],[],[]".
    if 2 * len(document) <= 3 * TOKENS:
        return False
    return document.count(b",") + document.count(b"[") + document.count(b"{") > TOKENS


def cut_size(document: bytes, levels: int, most: int = TOKENS) -> bytes:
    """Return a JSON document in which large parts are replaced by CUT.

    A part is an object or list at level `levels` + 1. It is large if its commas and opening
    brackets together exceed `most`.
    """
    depth, tokens, start, kept, begin = 0, 0, 0, list[bytes](), 0
    for found in _TOKEN.finditer(document):
        match found[0]:
            case b"{" | b"[":
                depth += 1
                if depth == levels + 1:
                    start, tokens = found.end(), 0
                tokens += depth > levels + 1
            case b"}" | b"]":
                if depth == levels + 1 and tokens > most:
                    kept += [
                        document[begin:start],
                        _CUT_JSON if found[0] == b"]" else b"%s:%s" % (_CUT_JSON, _CUT_JSON),
                    ]
                    begin = found.start()
                depth -= 1
            case b",":
                tokens += depth > levels
    return b"".join((*kept, document[begin:]))


def depth_problems(value: Any, path: str) -> Iterator[Problem]:
    """Yield at most one problem with the depth or size of a parsed value at `path`.

    The value is walked level by level without recursion, and the walk stops at either limit.
    """
    level, count = [(path, value)], 1
    for _ in range(LEVELS):
        level = list(islice(_next_level(level), VALUES + 1))
        count += len(level)
        large = count > VALUES or any(below == CUT for _, below in level)
        if large:
            yield Problem(path, LARGE_MESSAGE)
        if large or not level:
            return
    place = level[0][0]
    yield Problem(
        place if len(place) <= _PATH_LENGTH else f"{place[:_PATH_LENGTH]}...", DEEP_MESSAGE
    )


def _next_level(level: list[tuple[str, Any]]) -> Iterator[tuple[str, Any]]:
    """Yield the fields and entries one level below these values, each with its path."""
    for path, value in level:
        if isinstance(value, dict):
            yield from ((_join_path(path, f".{name}"), below) for name, below in value.items())
        elif isinstance(value, list):
            yield from (
                (_join_path(path, f"[{number}]"), below) for number, below in enumerate(value)
            )


def _join_path(path: str, step: str) -> str:
    """Return the path of a field or entry, truncated to fit into a message."""
    return path if len(path) > _PATH_LENGTH else path + step[: _PATH_LENGTH + 1]


def size_of(body: Mapping[str, Any]) -> int:
    """Return the size of an object as JSON, in bytes."""
    return len(json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode())
