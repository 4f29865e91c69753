"""Objects in YAML files: read with bounds, checked as the operator checks them, and written."""

import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import yaml

from dijob import names
from dijob.api.model import DIJob
from dijob.api.parse import parse_job
from dijob.api.printed import plain
from dijob.api.problems import Problem, SpecError
from dijob.api.status import without_nulls
from dijob.api.warnings import warnings
from dijob.client.errors import BadFile
from dijob.client.yaml_text import Dumper, values

Body = dict[str, Any]

STDIN: Final = "-"
# An apiserver takes 3 MiB for one object.
MOST_BYTES: Final = 4 * 2**20


def load(path: str | Path) -> tuple[Body, ...]:
    """All objects of a file (`-`: of the standard input), those of a List one by one.

    Raises BadFile with the file, the line, and what to do.
    """
    shown = called(path)
    found = tuple(loads(read_text(path), shown))
    if not found:
        raise BadFile(f"{shown}: there is no object in it")
    return found


def called(path: str | Path) -> str:
    """How a file is called in errors."""
    return "the standard input" if str(path) == STDIN else str(path)


def loads(text: str, source: str = "the text") -> Iterator[Body]:
    """All objects of a YAML or JSON text; `source` names it in errors."""
    for value in values(text, source):
        yield from _objects(value, source)


def load_job(path: str | Path) -> DIJob:
    """The one DIJob of a file, checked. Raises BadFile where there are several, or none."""
    return parsed(the_job(load(path), called(path)), called(path))


def the_job(bodies: Iterable[Body], source: str) -> Body:
    """The one DIJob among objects. Raises BadFile where there are several, or none."""
    jobs = [body for body in bodies if is_job(body)]
    if len(jobs) != 1:
        found = "no DIJob" if not jobs else f"{len(jobs)} DIJobs"
        raise BadFile(f"{source}: there is {found} in it; put the one that is meant into a file")
    return jobs[0]


def build(name: str, spec: Mapping[str, Any], namespace: str | None = None) -> DIJob:
    """A DIJob of a spec as it is written in YAML. Raises BadFile with each problem of it."""
    meta = {"name": name} | ({"namespace": namespace} if namespace else {})
    body = {"apiVersion": names.API_VERSION, "kind": names.KIND, "metadata": meta, "spec": spec}
    return parsed(body, "the job")


def manifest(job: DIJob | Mapping[str, Any]) -> Body:
    """A job as the apiserver takes it: what was set, without status."""
    if not isinstance(job, DIJob):
        body = dict(job)
        # A null means the same as no field, and a server-side apply refuses `replicas: null`.
        return {**body, "spec": without_nulls(body.get("spec"))} if is_job(body) else body
    given = job.model_dump(mode="json", by_alias=True, exclude_unset=True, exclude={"status"})
    return {"apiVersion": names.API_VERSION, "kind": names.KIND, **given}


def dump(*bodies: DIJob | Mapping[str, Any]) -> str:
    """Objects as YAML documents, without anchors. If a text in them is unsafe to print, all
    characters beyond ASCII are escaped.
    """
    manifests = [manifest(body) for body in bodies]
    text = _dumped(manifests, allow_unicode=True)
    return text if plain(text) == text else _dumped(manifests, allow_unicode=False)


def _dumped(bodies: list[dict[str, Any]], *, allow_unicode: bool) -> str:
    text: str = yaml.dump_all(bodies, Dumper=Dumper, sort_keys=False, allow_unicode=allow_unicode)
    return text


def is_job(body: Mapping[str, Any]) -> bool:
    """Whether it is a DIJob of any version."""
    group = str(body.get("apiVersion", "")).partition("/")[0]
    return body.get("kind") == names.KIND and group == names.GROUP


def parsed(body: Mapping[str, Any], source: str = "") -> DIJob:
    """A DIJob. Raises BadFile with the field and the remedy of each problem, as the operator would
    say it.
    """
    where = f"{source}: " if source else ""
    if body.get("apiVersion") != names.API_VERSION:
        raise BadFile(
            f"{where}apiVersion is {body.get('apiVersion')!r}; set it to {names.API_VERSION}"
        )
    try:
        return parse_job(body)
    except SpecError as error:
        name = (body.get("metadata") or {}).get("name", "")
        raise BadFile(f"{where}DIJob {name}: {error}") from error


def check(body: Mapping[str, Any], source: str = "") -> tuple[Problem, ...]:
    """The warnings about a DIJob. Raises BadFile as `parsed` does."""
    return warnings(parsed(body, source))


def read_text(path: str | Path) -> str:
    """The text of a file (`-`: of the standard input). Raises BadFile with the file and why."""
    shown = called(path)
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
