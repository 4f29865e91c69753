"""Objects in YAML files: read with bounds, checked as the operator checks them, and written."""

import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import yaml

from dijob import names
from dijob.api.model import DIJob
from dijob.api.parse import parse_job
from dijob.api.problems import Problem, SpecError
from dijob.api.warnings import warnings
from dijob.client.errors import BadFile

Body = dict[str, Any]

STDIN: Final = "-"
# An apiserver takes 3 MiB for one object.
MOST_BYTES: Final = 16 * 2**20
# As the apiserver counts a file's values once its aliases are written out. A real job has hundreds.
MOST_VALUES: Final = 200_000


class _Loader(yaml.SafeLoader):
    """Values as the apiserver takes them: a date is a string."""


_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in found if tag != "tag:yaml.org,2002:timestamp"]
    for first, found in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


class _Dumper(yaml.SafeDumper):
    """Writes no anchors, and texts of several lines as such."""

    def ignore_aliases(self, data: object) -> bool:
        return True


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    style = "|" if "\n" in text else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Dumper.add_representer(str, _text)


def load(path: str | Path) -> tuple[Body, ...]:
    """All objects of a file (`-`: of the standard input), those of a List one by one.

    Raises BadFile with the file, the line, and what to do.
    """
    shown = called(path)
    found = tuple(loads(_read(path, shown), shown))
    if not found:
        raise BadFile(f"{shown}: there is no object in it")
    return found


def called(path: str | Path) -> str:
    """How a file is called in errors."""
    return "the standard input" if str(path) == STDIN else str(path)


def loads(text: str, source: str = "the text") -> Iterator[Body]:
    """All objects of a YAML or JSON text; `source` names it in errors."""
    try:
        for node in yaml.compose_all(text, Loader=_Loader):
            if node is None:
                continue
            _bounded(node, source)
            yield from _objects(_value(node), source)
    except yaml.YAMLError as error:
        raise BadFile(f"{source}: this is no YAML: {_flat(error)}") from error
    except RecursionError:
        raise BadFile(f"{source}: it is nested too deeply; no object of Kubernetes is") from None


def load_job(path: str | Path) -> DIJob:
    """The one DIJob of a file, checked. Raises BadFile where there are several, or none."""
    jobs = [body for body in load(path) if is_job(body)]
    if len(jobs) != 1:
        raise BadFile(f"{path}: there are {len(jobs)} DIJobs in it, and one is asked for")
    check(jobs[0], str(path))
    return parse_job(jobs[0])


def build(name: str, spec: Mapping[str, Any], namespace: str | None = None) -> DIJob:
    """A DIJob of a spec as it is written in YAML. Raises BadFile with each problem of it."""
    meta = {"name": name} | ({"namespace": namespace} if namespace else {})
    body = {"apiVersion": names.API_VERSION, "kind": names.KIND, "metadata": meta, "spec": spec}
    check(body, "the job")
    return parse_job(body)


def manifest(job: DIJob | Mapping[str, Any]) -> Body:
    """A job as the apiserver takes it: what was set, without status."""
    if not isinstance(job, DIJob):
        return dict(job)
    given = job.model_dump(mode="json", by_alias=True, exclude_unset=True, exclude={"status"})
    return {"apiVersion": names.API_VERSION, "kind": names.KIND, **given}


def dump(*bodies: DIJob | Mapping[str, Any]) -> str:
    """Objects as YAML documents, without anchors."""
    plain = [manifest(body) for body in bodies]
    return yaml.dump_all(plain, Dumper=_Dumper, sort_keys=False, allow_unicode=True)


def is_job(body: Mapping[str, Any]) -> bool:
    """Whether it is a DIJob of any version."""
    group = str(body.get("apiVersion", "")).partition("/")[0]
    return body.get("kind") == names.KIND and group == names.GROUP


def check(body: Mapping[str, Any], source: str = "") -> tuple[Problem, ...]:
    """The warnings about a DIJob. Raises BadFile with the field and the remedy of each problem, as
    the operator would say it.
    """
    where = f"{source}: " if source else ""
    name = (body.get("metadata") or {}).get("name", "")
    if body.get("apiVersion") != names.API_VERSION:
        raise BadFile(
            f"{where}apiVersion is {body.get('apiVersion')!r}; set it to {names.API_VERSION}"
        )
    try:
        return warnings(parse_job(body))
    except SpecError as error:
        raise BadFile(f"{where}DIJob {name}: {error}") from error


def _read(path: str | Path, shown: str) -> str:
    try:
        if str(path) == STDIN:
            raw = sys.stdin.buffer.read(MOST_BYTES + 1)
        else:
            with Path(path).open("rb") as file:
                raw = file.read(MOST_BYTES + 1)
        if len(raw) > MOST_BYTES:
            raise BadFile(f"{shown}: it is larger than {MOST_BYTES >> 20} MiB; split it")
        return raw.decode()
    except OSError as error:
        raise BadFile(f"{shown}: {(error.strerror or str(error)).lower()}") from error
    except UnicodeDecodeError as error:
        raise BadFile(f"{shown}: this is no UTF-8 text ({error.reason})") from error


def _objects(value: Any, source: str) -> Iterator[Body]:
    """The object, or the items of a List."""
    if value is None:
        return
    if not isinstance(value, dict) or not isinstance(value.get("kind"), str):
        raise BadFile(f"{source}: a document in it is no object of Kubernetes: it has no kind")
    items = value.get("items")
    if value["kind"].endswith("List") and isinstance(items, list):
        for item in items:
            yield from _objects(item, source)
        return
    meta = value.get("metadata")
    if not isinstance(meta, dict) or not isinstance(meta.get("name"), str):
        raise BadFile(f"{source}: the {value['kind']} in it has no metadata.name; add one")
    if not isinstance(value.get("apiVersion"), str):
        raise BadFile(f"{source}: {value['kind']} {meta['name']} has no apiVersion; add it")
    yield value


def _value(node: yaml.Node) -> Any:
    loader = _Loader("")
    try:
        return loader.construct_document(node)
    finally:
        loader.dispose()


def _bounded(root: yaml.Node, source: str) -> None:
    """Raise BadFile where the aliases of a document make it too large, or a key is there twice."""
    sizes: dict[int, int] = {}
    above: set[int] = set()

    def size(node: yaml.Node) -> int:
        if id(node) in sizes:
            return sizes[id(node)]
        if id(node) in above:
            raise BadFile(f"{source}: {_line(node)}: an alias in it is a part of itself; remove it")
        above.add(id(node))
        _unique(node, source)
        total = 1 + sum(map(size, _below(node)))
        above.discard(id(node))
        if total > MOST_VALUES:
            raise BadFile(
                f"{source}: {_line(node)}: with its aliases written out it has more than"
                f" {MOST_VALUES:,} values; make it smaller"
            )
        sizes[id(node)] = total
        return total

    size(root)


def _below(node: yaml.Node) -> Iterable[yaml.Node]:
    if isinstance(node, yaml.MappingNode):
        return [part for pair in node.value for part in pair]
    return node.value if isinstance(node, yaml.SequenceNode) else ()


def _unique(node: yaml.Node, source: str) -> None:
    if not isinstance(node, yaml.MappingNode):
        return
    known: set[str] = set()
    for key, _ in node.value:
        if isinstance(key, yaml.ScalarNode):
            if key.value in known and key.value != "<<":
                raise BadFile(f"{source}: {_line(key)}: {key.value} is there twice; remove one")
            known.add(key.value)


def _line(node: yaml.Node) -> str:
    return f"line {node.start_mark.line + 1}"


def _flat(error: yaml.YAMLError) -> str:
    """The parser's words in one line, without the copy of the file's text."""
    mark = getattr(error, "problem_mark", None)
    said = getattr(error, "problem", None) or str(error).splitlines()[0]
    return f"{said} (line {mark.line + 1}, column {mark.column + 1})" if mark else str(said)
