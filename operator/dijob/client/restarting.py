"""A job that is made anew: as it was written, with the ConfigMaps that end with the old one."""

import random
import string
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from dijob import names
from dijob.client import waiting
from dijob.client.connection import Call, Connection, Json
from dijob.client.errors import BadFile, NotFound
from dijob.client.resources import CONFIG_MAPS, belongs

_APPLIED: Final = "kubectl.kubernetes.io/last-applied-configuration"


@dataclass(frozen=True)
class Plan:
    """A job that is to be made: what is applied before it, it, and what is deleted with it."""

    job: Json
    first: tuple[Json, ...] = ()
    owned: tuple[Json, ...] = ()
    replaces: bool = False
    """Whether the old one is to be deleted."""

    @property
    def bodies(self) -> tuple[Json, ...]:
        """All that is to be applied, in this order."""
        return (*self.first, self.job, *self.owned)


def as_written(body: Mapping[str, Any]) -> Json:
    """An object without what the apiserver and controllers have added to it."""
    meta = body["metadata"]
    kept = {key: meta[key] for key in ("name", "namespace", "labels") if meta.get(key)}
    notes = {key: text for key, text in (meta.get("annotations") or {}).items() if key != _APPLIED}
    known = {key: body[key] for key in ("spec", "data", "binaryData") if key in body}
    return {
        "apiVersion": body["apiVersion"],
        "kind": body["kind"],
        "metadata": kept | ({"annotations": notes} if notes else {}),
        **known,
    }


def trial(body: Json) -> Json:
    """The same job under another name, for a dry run while the old one is there. The name is one of
    chance, as long as the job's own: pods' names have a bound.
    """
    own = body["metadata"]["name"]
    name = own
    while name == own:
        name = "".join(random.choices(string.ascii_lowercase, k=len(own)))
    return body | {"metadata": body["metadata"] | {"name": name}}


def anew(name: str, namespace: str, old: Mapping[str, Any] | None, new: Json | None) -> Json:
    """The job to make: `new`, else `old` as it was; with the owner of the old one. Raises BadFile
    where `new` is another job, NotFound where there is none.
    """
    if new is None and old is None:
        raise waiting.missing(namespace, name)
    body = as_written(new or old or {})
    meta = body["metadata"]
    place = meta.get("namespace") or namespace
    if (meta["name"], place) != (name, namespace):
        there = f"{meta['name']} of namespace {place}"
        raise BadFile(f"the DIJob is {there}, not {name} of {namespace}: nothing is restarted")
    if owners := ((old or {}).get("metadata") or {}).get("ownerReferences"):
        meta["ownerReferences"] = owners
    return body


async def owned(connection: Connection, job: Mapping[str, Any]) -> list[Json]:
    """The ConfigMaps that a job mounts and owns, which are deleted with it."""
    meta, found = job["metadata"], []
    for name in dict.fromkeys(mounted(job.get("spec") or {})):
        path = CONFIG_MAPS.path_of(meta["namespace"], name)
        try:
            body = await connection.json(Call("GET", path))
        except NotFound:
            continue
        if belongs(body, meta["uid"]):
            found.append(body)
    return found


def parted(beside: Iterable[Json], kept: Sequence[Json]) -> tuple[list[Json], list[Json]]:
    """What stands beside a job, and what is to be made anew with it: the ConfigMaps that are kept,
    as `beside` has them where it does.
    """
    first, anew = list[Json](), {str(body["metadata"]["name"]): as_written(body) for body in kept}
    for body in beside:
        name = str(body["metadata"]["name"])
        place = body["metadata"].get("namespace")
        own = name in anew and place in (None, anew[name]["metadata"].get("namespace"))
        if own and (body["apiVersion"], body["kind"]) == ("v1", "ConfigMap"):
            anew[name] = body
        else:
            first.append(body)
    return first, list(anew.values())


def mounted(spec: Mapping[str, Any]) -> Iterator[str]:
    """The names of the ConfigMaps that the volumes of a job's templates are."""
    holders = [spec, *(spec.get("tasks") or ())]
    for holder in holders:
        pod = (holder.get("template") or {}).get("spec") or {}
        for volume in pod.get("volumes") or ():
            if name := (volume.get("configMap") or {}).get("name"):
                yield str(name)


def owned_by(body: Mapping[str, Any], job: Mapping[str, Any]) -> Json:
    """An object as it was written, to be deleted with a job."""
    written = as_written(body)
    owner = {
        "apiVersion": names.API_VERSION,
        "kind": names.KIND,
        "name": job["metadata"]["name"],
        "uid": job["metadata"]["uid"],
    }
    written["metadata"] |= {
        "namespace": job["metadata"]["namespace"],
        "ownerReferences": [owner],
    }
    return written
