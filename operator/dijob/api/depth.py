"""Bounds on the depth and size of an object. Where unknown fields are kept, an apiserver stores
10,000 levels; neither a schema nor CEL can measure them, and every parser and copy recurses."""

import json
import re
from collections.abc import Iterator
from itertools import islice
from typing import Any, Final

from dijob.api.problems import Problem

# No field of Kubernetes comes near. The strictest parser stops at 200 levels: objects are cut
# before, with some room for the list or the event around them.
LEVELS: Final = 100
KEPT_LEVELS: Final = 150
# Templates of real pods have a few hundred. Each pod has all of them: one of the largest objects
# that an apiserver stores (a million values) would delay all other jobs.
VALUES: Final = 10_000
# A part of a document with more commas and brackets has more than VALUES values: at most two each.
TOKENS: Final = 2 * VALUES + 5_000
# The only value of an object or list whose content was left out.
CUT: Final = "\0cut"
_CUT_JSON: Final = json.dumps(CUT).encode()
# Longest path in a message, in characters.
_SAID: Final = 100
_STRING: Final = rb'"[^"\\]*(?:\\.[^"\\]*)*"'
_BRACKET: Final = re.compile(_STRING + rb"|[\[\]{}]", re.DOTALL)
_TOKEN: Final = re.compile(_STRING + rb"|[\[\]{},]", re.DOTALL)
DEEP_MESSAGE: Final = (
    f"is nested more than {LEVELS} levels deep, which no field of a pod needs: remove it"
)
LARGE_MESSAGE: Final = (
    f"has more than {VALUES:,} values, and each pod would get all of them: make it smaller, for"
    " example with a ConfigMap that the template mounts or references in envFrom"
)


def shallow(document: bytes) -> bytes:
    """The same JSON document; objects and lists more than KEPT_LEVELS deep are empty."""
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
    """Whether it has so many values that some may have to be left out."""
    # Most documents are too short: there are at most two tokens in three bytes, as in "[],[],[]".
    if 2 * len(document) <= 3 * TOKENS:
        return False
    return document.count(b",") + document.count(b"[") + document.count(b"{") > TOKENS


def narrow(document: bytes, levels: int, most: int = TOKENS) -> bytes:
    """The same JSON document; an object or list right below the first `levels` levels with more
    than `most` commas and brackets in it has only CUT in it."""
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


def problems(value: Any, path: str) -> Iterator[Problem]:
    """At most one problem with the depth or size of a parsed value; `path` is its place."""
    level, count = [(path, value)], 1
    for _ in range(LEVELS):
        level = list(islice(_below(level), VALUES + 1))
        count += len(level)
        large = count > VALUES or any(below == CUT for _, below in level)
        if large:
            yield Problem(path, LARGE_MESSAGE)
        if large or not level:
            return
    place = level[0][0]
    yield Problem(place if len(place) <= _SAID else f"{place[:_SAID]}...", DEEP_MESSAGE)


def _below(level: list[tuple[str, Any]]) -> Iterator[tuple[str, Any]]:
    """The fields and entries of the values of one level, each with its place."""
    for path, value in level:
        if isinstance(value, dict):
            yield from ((_at(path, f".{name}"), below) for name, below in value.items())
        elif isinstance(value, list):
            yield from ((_at(path, f"[{number}]"), below) for number, below in enumerate(value))


def _at(path: str, step: str) -> str:
    """A path, no longer than fits into a message."""
    return path if len(path) > _SAID else path + step[: _SAID + 1]
