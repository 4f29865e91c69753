"""Reads and writes YAML as kubectl does, with limits on size, aliases and depth.

Unlike Go's parser, PyYAML turns dates into objects, and it parses some numbers differently. A file
must mean the same to this client as to kubectl, so the resolvers and constructors are replaced. The
limits exist because a few hundred bytes of nested aliases can expand to gigabytes.
"""

import json
import math
import re
from collections.abc import Iterable, Iterator
from typing import Any, Final

import yaml

from dijob.client.errors import BadFile

# The maximum number of values after aliases are expanded. A real job has hundreds.
MOST_VALUES: Final = 200_000
# The maximum number of aliases, which is more than any hand-written file needs. Each alias can
# double the size of the document.
MOST_ALIASES: Final = 100
# No Kubernetes object is nested nearly this deeply, and each level needs a few stack frames here.
MOST_LEVELS: Final = 150
# Go writes numbers of this size or larger with an exponent.
_LARGEST_WHOLE: Final = 1e21

_TAG: Final = "tag:yaml.org,2002:"
_TRUE: Final = "y|Y|yes|Yes|YES|true|True|TRUE|on|On|ON"
_FALSE: Final = "n|N|no|No|NO|false|False|FALSE|off|Off|OFF"
_NUMBER: Final = re.compile(
    r"[-+]?(0[xX][0-9a-fA-F_]+|0[oO][0-7_]+|0[bB][01_]+"
    r"|[0-9][0-9_]*(\.[0-9_]*)?([eE][-+]?[0-9_]+)?|\.[0-9]+([eE][-+]?[0-9]+)?)$"
)
_OCTAL: Final = re.compile(r"[-+]?0[0-7]+$")
# JSON has no infinity and no NaN, and kubectl rejects them too.
_ENDLESS: Final = re.compile(r"(?:[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN))$")
# Text that is quoted because some YAML parsers read it as a number, a date or a boolean.
_QUOTED: Final = re.compile(r"[-+]?\.?\d|[yYnN]$")


def parse_documents(text: str, source: str) -> Iterator[Any]:
    """Yield the value of each document of a YAML or JSON text. `source` names the text in errors.

    Raises BadFile, which names the line and says what to do.
    """
    try:
        for node in yaml.compose_all(text, Loader=_Loader):
            if node is not None:
                _Bounds().of(node)
                yield _construct_value(node)
    except yaml.YAMLError as error:
        raise BadFile(f"{source}: invalid YAML: {_flatten_error(error)}") from error
    except RecursionError:
        raise BadFile(f"{source}: {_DEEP}") from None
    except _Refused as error:
        raise BadFile(f"{source}: {error}") from None


class Dumper(yaml.SafeDumper):
    """Writes YAML without anchors, with multi-line strings as block scalars and ambiguous words
    quoted.
    """

    # Overrides a method of PyYAML. Otherwise PyYAML would write each further occurrence of the same
    # dict object as an alias.
    def ignore_aliases(self, data: object) -> bool:
        return True


def _represent_text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    style = "|" if "\n" in text else "'" if _QUOTED.match(text) else None
    return dumper.represent_scalar(f"{_TAG}str", text, style=style)


Dumper.add_representer(str, _represent_text)


class _Refused(Exception):
    """The text exceeds a limit or contains a rejected value. The message names the line."""


_DEEP: Final = f"nested too deeply (more than {MOST_LEVELS} levels)"


class _Loader(yaml.SafeLoader):
    """Reads values as kubectl does."""

    def __init__(self, stream: str) -> None:
        super().__init__(stream)
        self.aliases = self.levels = 0

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        """Compose a node as PyYAML does, and enforce the limits on aliases and levels."""
        # The limits must apply here: PyYAML recurses for each level, and would exhaust the stack.
        if self.check_event(yaml.events.AliasEvent):
            self.aliases += 1
        if self.aliases > MOST_ALIASES:
            raise _Refused(
                f"more than {MOST_ALIASES} aliases (*name); replace them with their values"
            )
        self.levels += 1
        if self.levels > MOST_LEVELS:
            raise _Refused(_DEEP)
        node = super().compose_node(parent, index)
        self.levels -= 1
        return node

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        """Construct a mapping whose keys are strings, as in JSON."""
        self.flatten_mapping(node)
        node.value = [(self._key(key), value) for key, value in node.value]
        return super().construct_mapping(node, deep)

    def _key(self, node: yaml.Node) -> yaml.Node:
        made = self.construct_object(node) if isinstance(node, yaml.ScalarNode) else ""
        if isinstance(made, str):
            return node
        return yaml.ScalarNode(f"{_TAG}str", json.dumps(made), node.start_mark, node.end_mark)

    def construct_number(self, node: yaml.ScalarNode) -> int | float | str:
        """Construct a JSON number."""
        text = self.construct_scalar(node)
        if not _NUMBER.match(text):
            raise _Refused(f"{_format_line(node)}: {text} is not a valid JSON number; quote it")
        try:
            return _parse_number(text.replace("_", ""))
        except (ValueError, OverflowError):
            # As in kubectl, a number beyond the range of a float is read as a string.
            return text

    def construct_truth(self, node: yaml.ScalarNode) -> bool:
        """Construct a boolean."""
        return self.construct_scalar(node) in _TRUE.split("|")


# The loader needs its own dict, because PyYAML's classes share one.
_Loader.yaml_implicit_resolvers = {}
for _name, _pattern, _first in (
    ("bool", re.compile(f"(?:{_TRUE}|{_FALSE})$"), list("yYnNtTfFoO")),
    ("float", _NUMBER, list("-+.0123456789")),
    ("float", _ENDLESS, list("-+.")),
    ("null", re.compile("(?:~|null|Null|NULL|)$"), ["~", "n", "N", ""]),
    ("merge", re.compile("<<$"), ["<"]),
):
    _Loader.add_implicit_resolver(f"{_TAG}{_name}", _pattern, _first)
# Only JSON types: kubectl reads a date as a string, and Kubernetes has no sets or binary values.
_Loader.yaml_constructors = {
    tag: make
    for tag, make in yaml.SafeLoader.yaml_constructors.items()
    if tag in (None, f"{_TAG}null", f"{_TAG}str", f"{_TAG}seq", f"{_TAG}map")
} | {
    f"{_TAG}int": _Loader.construct_number,
    f"{_TAG}float": _Loader.construct_number,
    f"{_TAG}bool": _Loader.construct_truth,
}


def _parse_number(text: str) -> int | float:
    """Parse a number as Go does: an integer if it fits into 64 bits, else a float.

    A float with an integral value is returned as int, because Go writes it without a fraction.
    Raises ValueError and OverflowError.
    """
    try:
        # YAML 1.1 reads 0755 as octal, which int(text, 0) rejects.
        whole = int(text, 8 if _OCTAL.match(text) else 0)
        if -(2**63) <= whole < 2**64:
            return whole
        number = float(whole)
    except ValueError:
        number = float(text)
    if math.isinf(number):
        raise OverflowError
    return int(number) if number.is_integer() and abs(number) < _LARGEST_WHOLE else number


def _construct_value(node: yaml.Node) -> Any:
    loader = _Loader("")
    try:
        return loader.construct_document(node)
    finally:
        loader.dispose()


class _Bounds:
    """Checks a document for duplicate keys, and limits its size and depth after aliases are
    expanded.
    """

    def __init__(self) -> None:
        self._known: dict[int, tuple[int, int]] = {}
        self._above: set[int] = set()

    def of(self, node: yaml.Node) -> tuple[int, int]:
        """Return the number of values and levels below a node. Raises _Refused."""
        # All aliases of an anchored node are the same node object, so its values and levels are
        # counted only once. The running time is linear in the size of the text, even if the
        # expanded document is huge.
        if id(node) in self._known:
            return self._known[id(node)]
        if id(node) in self._above:
            raise _Refused(
                f"{_format_line(node)}: the value contains an alias of itself; remove that alias"
            )
        self._above.add(id(node))
        _check_unique_keys(node)
        parts = [self.of(part) for part in _child_nodes(node)]
        self._above.discard(id(node))
        total = 1 + sum(part[0] for part in parts)
        levels = 1 + max((part[1] for part in parts), default=0)
        if total > MOST_VALUES:
            raise _Refused(
                f"{_format_line(node)}: more than {MOST_VALUES:,} values after aliases are expanded"
                "; make the document smaller"
            )
        if levels > MOST_LEVELS:
            raise _Refused(f"{_format_line(node)}: {_DEEP}")
        self._known[id(node)] = total, levels
        return total, levels


def _child_nodes(node: yaml.Node) -> Iterable[yaml.Node]:
    if isinstance(node, yaml.MappingNode):
        return [part for pair in node.value for part in pair]
    return node.value if isinstance(node, yaml.SequenceNode) else ()


def _check_unique_keys(node: yaml.Node) -> None:
    if not isinstance(node, yaml.MappingNode):
        return
    # If a mapping contains a key twice, PyYAML silently keeps the last value. kubectl rejects
    # duplicate keys.
    known: set[str] = set()
    for key, _ in node.value:
        if isinstance(key, yaml.ScalarNode):
            if key.value in known and key.value != "<<":
                raise _Refused(f"{_format_line(key)}: duplicate key {key.value}; remove one")
            known.add(key.value)


def _format_line(node: yaml.Node) -> str:
    return f"line {node.start_mark.line + 1}"


def _flatten_error(error: yaml.YAMLError) -> str:
    """Return the parser's message on one line, without the excerpt of the file.

    The excerpt can be long, and may show a part of a Secret.
    """
    mark = getattr(error, "problem_mark", None)
    problem = getattr(error, "problem", None) or str(error).splitlines()[0]
    return f"{problem} (line {mark.line + 1}, column {mark.column + 1})" if mark else str(problem)
