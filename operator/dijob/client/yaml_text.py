"""YAML as kubectl reads and writes it, within bounds on what a text can be."""

import json
import math
import re
from collections.abc import Iterable, Iterator
from typing import Any, Final

import yaml

from dijob.client.errors import BadFile

# As the apiserver counts a text's values once its aliases are written out. A real job has hundreds.
MOST_VALUES: Final = 200_000
# More than any file for people needs. Each of them can double what a text says.
MOST_ALIASES: Final = 100
# No object of Kubernetes comes near, and each level is a few calls deep here.
MOST_LEVELS: Final = 150
# What Go writes without an exponent.
_LARGEST_WHOLE: Final = 1e21

_TAG: Final = "tag:yaml.org,2002:"
_TRUE: Final = "y|Y|yes|Yes|YES|true|True|TRUE|on|On|ON"
_FALSE: Final = "n|N|no|No|NO|false|False|FALSE|off|Off|OFF"
_NUMBER: Final = re.compile(
    r"[-+]?(0[xX][0-9a-fA-F_]+|0[oO][0-7_]+|0[bB][01_]+"
    r"|[0-9][0-9_]*(\.[0-9_]*)?([eE][-+]?[0-9_]+)?|\.[0-9]+([eE][-+]?[0-9]+)?)$"
)
_OCTAL: Final = re.compile(r"[-+]?0[0-7]+$")
# What JSON cannot say; kubectl refuses it too.
_ENDLESS: Final = re.compile(r"(?:[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN))$")
# A word that some reader of YAML takes for a number, a date or a truth.
_QUOTED: Final = re.compile(r"[-+]?\.?\d|[yYnN]$")


def values(text: str, source: str) -> Iterator[Any]:
    """The value of each document of a YAML or JSON text; `source` names it in errors.

    Raises BadFile with the line and what to do.
    """
    try:
        for node in yaml.compose_all(text, Loader=_Loader):
            if node is not None:
                _Bounds().of(node)
                yield _value(node)
    except yaml.YAMLError as error:
        raise BadFile(f"{source}: this is no YAML: {_flat(error)}") from error
    except RecursionError:
        raise BadFile(f"{source}: {_DEEP}") from None
    except _Refused as error:
        raise BadFile(f"{source}: {error}") from None


class Dumper(yaml.SafeDumper):
    """Writes no anchors, texts of several lines as such, and words so that any reader of YAML takes
    them for words.
    """

    def ignore_aliases(self, data: object) -> bool:
        """Always."""
        return True


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    style = "|" if "\n" in text else "'" if _QUOTED.match(text) else None
    return dumper.represent_scalar(f"{_TAG}str", text, style=style)


Dumper.add_representer(str, _text)


class _Refused(Exception):
    """A sentence about a line."""


_DEEP: Final = "it is nested too deeply; no object of Kubernetes is"


class _Loader(yaml.SafeLoader):
    """Values as kubectl takes them; PyYAML reads other numbers, and dates."""

    def __init__(self, stream: str) -> None:
        super().__init__(stream)
        self.aliases = self.levels = 0

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        """As PyYAML's, with an end to aliases and levels."""
        if self.check_event(yaml.events.AliasEvent):
            self.aliases += 1
        if self.aliases > MOST_ALIASES:
            raise _Refused(f"it has more than {MOST_ALIASES} aliases (*name); write them out")
        self.levels += 1
        if self.levels > MOST_LEVELS:
            raise _Refused(_DEEP)
        node = super().compose_node(parent, index)
        self.levels -= 1
        return node

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        """With keys of text, as JSON has them."""
        self.flatten_mapping(node)
        node.value = [(self._key(key), value) for key, value in node.value]
        return super().construct_mapping(node, deep)

    def _key(self, node: yaml.Node) -> yaml.Node:
        made = self.construct_object(node) if isinstance(node, yaml.ScalarNode) else ""
        if isinstance(made, str):
            return node
        return yaml.ScalarNode(f"{_TAG}str", json.dumps(made), node.start_mark, node.end_mark)

    def construct_number(self, node: yaml.ScalarNode) -> int | float | str:
        """A number of JSON. One beyond a float's range is a text to kubectl, without a word."""
        text = self.construct_scalar(node)
        if not _NUMBER.match(text):
            raise _Refused(f"{_line(node)}: {text} is no number that JSON knows; quote it")
        try:
            return _number(text.replace("_", ""))
        except (ValueError, OverflowError):
            return text

    def construct_truth(self, node: yaml.ScalarNode) -> bool:
        """True or false."""
        return self.construct_scalar(node) in _TRUE.split("|")


_Loader.yaml_implicit_resolvers = {}
for _name, _pattern, _first in (
    ("bool", re.compile(f"(?:{_TRUE}|{_FALSE})$"), list("yYnNtTfFoO")),
    ("float", _NUMBER, list("-+.0123456789")),
    ("float", _ENDLESS, list("-+.")),
    ("null", re.compile("(?:~|null|Null|NULL|)$"), ["~", "n", "N", ""]),
    ("merge", re.compile("<<$"), ["<"]),
):
    _Loader.add_implicit_resolver(f"{_TAG}{_name}", _pattern, _first)
# Those of JSON: a date is a text to kubectl, and sets and bytes are none of Kubernetes.
_Loader.yaml_constructors = {
    tag: make
    for tag, make in yaml.SafeLoader.yaml_constructors.items()
    if tag in (None, f"{_TAG}null", f"{_TAG}str", f"{_TAG}seq", f"{_TAG}map")
} | {
    f"{_TAG}int": _Loader.construct_number,
    f"{_TAG}float": _Loader.construct_number,
    f"{_TAG}bool": _Loader.construct_truth,
}


def _number(text: str) -> int | float:
    """As Go reads it: what fits into 64 bits is whole, all else a float, which is written as whole
    where it is. Raises ValueError and OverflowError where it is none.
    """
    try:
        whole = int(text, 8 if _OCTAL.match(text) else 0)
        if -(2**63) <= whole < 2**64:
            return whole
        number = float(whole)
    except ValueError:
        number = float(text)
    if math.isinf(number):
        raise OverflowError
    return int(number) if number.is_integer() and abs(number) < _LARGEST_WHOLE else number


def _value(node: yaml.Node) -> Any:
    loader = _Loader("")
    try:
        return loader.construct_document(node)
    finally:
        loader.dispose()


class _Bounds:
    """Whether a document is too large or too deep with its aliases written out, or has a key
    twice.
    """

    def __init__(self) -> None:
        self._known: dict[int, tuple[int, int]] = {}
        self._above: set[int] = set()

    def of(self, node: yaml.Node) -> tuple[int, int]:
        """How many values and levels there are. Raises _Refused."""
        if id(node) in self._known:
            return self._known[id(node)]
        if id(node) in self._above:
            raise _Refused(f"{_line(node)}: an alias in it is a part of itself; remove it")
        self._above.add(id(node))
        _unique(node)
        parts = [self.of(part) for part in _below(node)]
        self._above.discard(id(node))
        total = 1 + sum(part[0] for part in parts)
        levels = 1 + max((part[1] for part in parts), default=0)
        if total > MOST_VALUES:
            raise _Refused(
                f"{_line(node)}: with its aliases written out it has more than {MOST_VALUES:,}"
                " values; make it smaller"
            )
        if levels > MOST_LEVELS:
            raise _Refused(f"{_line(node)}: {_DEEP}")
        self._known[id(node)] = total, levels
        return total, levels


def _below(node: yaml.Node) -> Iterable[yaml.Node]:
    if isinstance(node, yaml.MappingNode):
        return [part for pair in node.value for part in pair]
    return node.value if isinstance(node, yaml.SequenceNode) else ()


def _unique(node: yaml.Node) -> None:
    if not isinstance(node, yaml.MappingNode):
        return
    known: set[str] = set()
    for key, _ in node.value:
        if isinstance(key, yaml.ScalarNode):
            if key.value in known and key.value != "<<":
                raise _Refused(f"{_line(key)}: {key.value} is there twice; remove one")
            known.add(key.value)


def _line(node: yaml.Node) -> str:
    return f"line {node.start_mark.line + 1}"


def _flat(error: yaml.YAMLError) -> str:
    """The parser's words in one line, without the copy of the file's text."""
    mark = getattr(error, "problem_mark", None)
    said = getattr(error, "problem", None) or str(error).splitlines()[0]
    return f"{said} (line {mark.line + 1}, column {mark.column + 1})" if mark else str(said)
