"""Reads the YAML of a DIJob and what stands beside it, with bounds on what a file can be."""

import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import yaml

from dijob import names
from dijob.cli.errors import CliError, Exit

Body = dict[str, Any]

# etcd takes no larger object.
MOST_BYTES: Final = 4 << 20
# Each alias doubles what a document says; ten nested ones are a thousand times a line.
MOST_ALIASES: Final = 100


class _Loader(yaml.SafeLoader):
    """PyYAML's safe loader, which refuses a document of many aliases."""

    def __init__(self, stream: str) -> None:
        super().__init__(stream)
        self.aliases = 0

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        if self.check_event(yaml.events.AliasEvent):
            self.aliases += 1
            if self.aliases > MOST_ALIASES:
                raise yaml.YAMLError(f"it has more than {MOST_ALIASES} aliases (*name)")
        return super().compose_node(parent, index)


# As kubectl reads it, and YAML 1.2: to PyYAML a number with an exponent needs a dot.
_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float", re.compile(r"^[-+]?[0-9]+[eE][-+]?[0-9]+$"), list("-+0123456789")
)


@dataclass(frozen=True)
class File:
    """A DIJob, and the other objects of its file. `name` is the file's, for messages."""

    name: str
    job: Body
    others: tuple[Body, ...] = ()

    def of_kind(self, kind: str) -> Mapping[str, Body]:
        """The other objects of a kind, by their names."""
        return {
            str((one.get("metadata") or {}).get("name")): one
            for one in self.others
            if one.get("kind") == kind
        }


def read(path: str) -> File:
    """The one DIJob in a file ("-": standard input), and what else is there. CliError (USAGE) where
    it cannot be read, is no YAML, or has not exactly one DIJob."""
    shown = "standard input" if path == "-" else path
    return parsed(shown, text_of(path, shown))


def parsed(name: str, text: str) -> File:
    """As `read`, from the file's text."""
    try:
        documents = [one for one in yaml.load_all(text, _Loader) if one is not None]
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise CliError(f"{name} is no YAML: {_where(error)}.", Exit.USAGE) from None
    objects = [one for document in documents for one in _items(document)]
    if any(not isinstance(one, dict) or not _has_metadata(one) for one in objects):
        raise CliError(
            f"{name} has something that is no Kubernetes object: each document needs apiVersion,"
            " kind and metadata.",
            Exit.USAGE,
        )
    jobs = [one for one in objects if one.get("kind") == names.KIND]
    if len(jobs) != 1:
        found = "no DIJob" if not jobs else f"{len(jobs)} DIJobs"
        raise CliError(
            f"{name} has {found}, and this command needs exactly one: put each into a file of its"
            " own.",
            Exit.USAGE,
        )
    if (version := jobs[0].get("apiVersion")) != names.API_VERSION:
        raise CliError(
            f"{name}: apiVersion is {version!r}; it must be {names.API_VERSION}.", Exit.USAGE
        )
    return File(name, jobs[0], tuple(one for one in objects if one is not jobs[0]))


def text_of(path: str, shown: str) -> str:
    """The text of a file; `shown` is its name in messages. CliError (USAGE) as of `read`."""
    try:
        data = sys.stdin.buffer.read(MOST_BYTES + 1) if path == "-" else _bytes(path)
        if len(data) > MOST_BYTES:
            raise CliError(f"{shown} has more than 4 MiB: no DIJob is so large.", Exit.USAGE)
        return data.decode()
    except OSError as error:
        raise CliError(f"{shown} cannot be read: {error.strerror}.", Exit.USAGE) from None
    except UnicodeDecodeError:
        raise CliError(f"{shown} is no text in UTF-8.", Exit.USAGE) from None


def _bytes(path: str) -> bytes:
    with Path(path).open("rb") as file:
        return file.read(MOST_BYTES + 1)


def _items(document: Any) -> list[Any]:
    """The objects of a document: it may be a List."""
    if isinstance(document, dict) and document.get("kind") == "List":
        items = document.get("items")
        return items if isinstance(items, list) else [items]
    return [document]


def _has_metadata(one: Body) -> bool:
    return isinstance(one.get("metadata") or {}, dict)


def _where(error: Exception) -> str:
    mark, problem = getattr(error, "problem_mark", None), getattr(error, "problem", None)
    if mark is None or problem is None:
        return str(error).splitlines()[0] if str(error) else "it is nested too deeply"
    return f"line {mark.line + 1}: {problem}"
