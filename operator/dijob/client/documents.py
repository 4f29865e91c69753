"""Reads, checks and writes objects in YAML files.

DIJobs are checked with the operator's code before anything is sent. A mistake is reported with the
same message that the operator would put into the status.
"""

import sys
from collections.abc import Iterable, Iterator, Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Final

import yaml

from dijob import names
from dijob.api.model import DIJob
from dijob.api.parse import parse_job
from dijob.api.printed import plain_text
from dijob.api.problems import Problem, SpecError
from dijob.api.status import without_nulls
from dijob.api.warnings import job_warnings
from dijob.client.errors import BadFile
from dijob.client.yaml_text import Dumper, parse_documents

Body = dict[str, Any]

STDIN: Final = "-"
# Misspellings of DIJob that no other API group uses as the name of a kind.
_MISSPELLED: Final = (names.KIND.lower(), names.PLURAL)
# An apiserver accepts at most 3 MiB for one object. A file that exceeds the limit below is a
# mistake, such as a checkpoint that was given instead of a manifest.
MOST_BYTES: Final = 4 * 2**20


def load(path: str | Path) -> tuple[Body, ...]:
    """Return all objects in a file (`-` for standard input). A List is split into its items.

    Raises BadFile, which names the file and the line, and says what to do.
    """
    shown = format_path(path)
    found = tuple(loads(read_text(path), shown))
    if not found:
        raise BadFile(f"{shown}: no objects found")
    return found


def format_path(path: str | Path) -> str:
    """Return the name that messages use for a file."""
    return "standard input" if str(path) == STDIN else str(path)


def loads(text: str, source: str = "the text") -> Iterator[Body]:
    """Yield all objects in a YAML or JSON text. `source` names the text in errors."""
    for value in parse_documents(text, source):
        yield from _split_document(value, source)


def load_job(path: str | Path) -> DIJob:
    """Check and return the only DIJob in a file. Raises BadFile if there is none or more than
    one.
    """
    return parse_body(the_job(load(path), format_path(path)), format_path(path))


def the_job(bodies: Iterable[Body], source: str) -> Body:
    """Return the only DIJob among objects. Raises BadFile if there is none or more than one."""
    jobs = [body for body in bodies if is_job(body)]
    if len(jobs) != 1:
        found = "no DIJob" if not jobs else f"{len(jobs)} DIJobs"
        raise BadFile(f"{source}: found {found}, but exactly one is required")
    return jobs[0]


def build(name: str, spec: Mapping[str, Any], namespace: str | None = None) -> DIJob:
    """Return a DIJob. `spec` has the same form as in YAML.

    Raises BadFile with all problems of the job.
    """
    meta = {"name": name} | ({"namespace": namespace} if namespace else {})
    body = {"apiVersion": names.API_VERSION, "kind": names.KIND, "metadata": meta, "spec": spec}
    return parse_body(body, "the job")


def manifest(job: DIJob | Mapping[str, Any]) -> Body:
    """Return the object to send to the apiserver: only fields that were set, without the status.

    Defaults are left out. Otherwise this client would own all fields after server-side apply, and
    conflict with every other tool that sets one of them.
    """
    if not isinstance(job, DIJob):
        body = dict(job)
        # null means the same as an absent field, but server-side apply rejects `replicas: null`.
        return {**body, "spec": without_nulls(body.get("spec"))} if is_job(body) else body
    given = job.model_dump(mode="json", by_alias=True, exclude_unset=True, exclude={"status"})
    return {"apiVersion": names.API_VERSION, "kind": names.KIND, **given}


def dump(*bodies: DIJob | Mapping[str, Any]) -> str:
    """Return objects as YAML documents, without anchors.

    If the objects contain text that is unsafe to print, all non-ASCII characters are escaped.
    """
    manifests = [manifest(body) for body in bodies]
    text = _dump_yaml(manifests, allow_unicode=True)
    return text if plain_text(text) == text else _dump_yaml(manifests, allow_unicode=False)


def _dump_yaml(bodies: list[dict[str, Any]], *, allow_unicode: bool) -> str:
    text: str = yaml.dump_all(bodies, Dumper=Dumper, sort_keys=False, allow_unicode=allow_unicode)
    return text


def is_job(body: Mapping[str, Any]) -> bool:
    """Return whether an object is a DIJob, of any version."""
    group = str(body.get("apiVersion", "")).partition("/")[0]
    return body.get("kind") == names.KIND and group == names.GROUP


def parse_body(body: Mapping[str, Any], source: str = "") -> DIJob:
    """Return an object as a DIJob.

    Raises BadFile with the operator's message: the field and the remedy for each problem.
    """
    where = f"{source}: " if source else ""
    if body.get("apiVersion") != names.API_VERSION:
        raise BadFile(
            f"{where}apiVersion is {body.get('apiVersion')!r}; set it to {names.API_VERSION}"
        )
    try:
        return parse_job(body, from_file=True)
    except SpecError as error:
        name = (body.get("metadata") or {}).get("name", "")
        raise BadFile(f"{where}DIJob {name}: {error}") from error


def check(body: Mapping[str, Any], source: str = "") -> tuple[Problem, ...]:
    """Return the warnings about a DIJob. Raises BadFile as `parse_body` does."""
    return job_warnings(parse_body(body, source))


def read_text(path: str | Path) -> str:
    """Return the text of a file (`-` for standard input). Raises BadFile."""
    shown = format_path(path)
    try:
        if str(path) == STDIN:
            # One byte more than the limit is enough to detect that the input is too large. An
            # endless input such as /dev/zero is not read any further.
            raw = sys.stdin.buffer.read(MOST_BYTES + 1)
        else:
            with Path(path).open("rb") as file:
                raw = file.read(MOST_BYTES + 1)
        if len(raw) > MOST_BYTES:
            raise BadFile(
                f"{shown}: larger than {MOST_BYTES >> 20} MiB; split it into smaller files"
            )
        return raw.decode()
    except OSError as error:
        raise BadFile(f"{shown}: {(error.strerror or str(error)).lower()}") from error
    except UnicodeDecodeError as error:
        raise BadFile(f"{shown}: not valid UTF-8 text ({error.reason})") from error


def _refuse_similar_kind(value: Mapping[str, Any], source: str) -> None:
    """Raise BadFile if the kind is probably a misspelled DIJob. The API server would only say that
    it has no such kind, and other commands would find no job in the file.
    """
    kind, group = value["kind"], str(value.get("apiVersion", "")).partition("/")[0]
    similar = kind.lower() in _MISSPELLED or (group == names.GROUP and _is_similar(kind))
    if similar and kind not in (names.KIND, f"{names.KIND}List"):
        raise BadFile(f"{source}: there is no kind {kind}: did you mean {names.KIND}?")


def _is_similar(kind: str) -> bool:
    return bool(get_close_matches(kind.lower(), [names.KIND.lower()], n=1))


def _split_document(value: Any, source: str) -> Iterator[Body]:
    """Yield the object, or the items of a List."""
    if value is None:
        return
    if not isinstance(value, dict) or not isinstance(value.get("kind"), str):
        raise BadFile(f"{source}: a document is not a Kubernetes object: it has no kind")
    _refuse_similar_kind(value, source)
    items = value.get("items")
    # `kubectl get -o yaml` prints a List.
    if value["kind"].endswith("List") and isinstance(items, list):
        for item in items:
            yield from _split_document(item, source)
        return
    meta = value.get("metadata")
    if not isinstance(meta, dict) or not isinstance(meta.get("name"), str):
        raise BadFile(f"{source}: an object of kind {value['kind']} has no metadata.name; add one")
    if not isinstance(value.get("apiVersion"), str):
        raise BadFile(f"{source}: {value['kind']} {meta['name']} has no apiVersion; add one")
    yield value
