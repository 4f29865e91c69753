"""Prepares the restart of a job: the new job, and copies of the ConfigMaps that the old job owns.

Kubernetes deletes these ConfigMaps together with the old job, so they have to be created again.
"""

import random
import string
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from dijob import names
from dijob.client.code import config_maps_of, is_code_name
from dijob.client.connection import ClientConnection, ClientRequest, Json
from dijob.client.errors import BadFile, JobNotFound, NotFound
from dijob.client.resources import CONFIG_MAPS, is_owned_by

_APPLIED: Final = "kubectl.kubernetes.io/last-applied-configuration"


@dataclass(frozen=True)
class RestartPlan:
    """A job to create, the objects to apply before it, and the objects that it will own."""

    job: Json
    first: tuple[Json, ...] = ()
    owned: tuple[Json, ...] = ()
    replaces: bool = False
    """Whether an old job has to be deleted first."""

    @property
    def bodies(self) -> tuple[Json, ...]:
        """All objects to apply, in this order."""
        return (*self.first, self.job, *self.owned)


def as_written(body: Mapping[str, Any]) -> Json:
    """Return an object without the fields that the apiserver and controllers have added."""
    meta = body["metadata"]
    kept = {key: meta[key] for key in ("name", "namespace", "labels") if meta.get(key)}
    # `kubectl apply` keeps a copy of the object in an annotation. This copy would be out of date in
    # the new object.
    notes = {key: text for key, text in (meta.get("annotations") or {}).items() if key != _APPLIED}
    known = {key: body[key] for key in ("spec", "data", "binaryData") if key in body}
    return {
        "apiVersion": body["apiVersion"],
        "kind": body["kind"],
        "metadata": kept | ({"annotations": notes} if notes else {}),
        **known,
    }


def rename_for_dry_run(body: Json) -> Json:
    """Return the new job under another name, for a dry run while the old job still exists.

    The random name has the same length as the job's name, because the dry run also checks the
    length of the pods' names.
    """
    own = body["metadata"]["name"]
    name = own
    while name == own:
        name = "".join(random.choices(string.ascii_lowercase, k=len(own)))
    return body | {"metadata": body["metadata"] | {"name": name}}


def build_new_job(
    name: str, namespace: str, old: Mapping[str, Any] | None, new: Json | None
) -> Json:
    """Return the job to create: `new` if given, else `old`. The new job keeps the old job's owner.

    Raises BadFile if `new` is a different job, and NotFound if both `old` and `new` are None.
    """
    if new is None and old is None:
        raise JobNotFound(namespace, name)
    body = as_written(new or old or {})
    meta = body["metadata"]
    place = meta.get("namespace") or namespace
    if (meta["name"], place) != (name, namespace):
        given = f"{meta['name']} in namespace {place}"
        raise BadFile(
            f"the given DIJob is {given}, not {name} in namespace {namespace}: nothing was"
            " restarted"
        )
    # The new job keeps the old job's owner, such as a workflow, so that it is still deleted
    # together with this owner.
    if owners := ((old or {}).get("metadata") or {}).get("ownerReferences"):
        meta["ownerReferences"] = owners
    return body


async def list_owned_config_maps(
    connection: ClientConnection, job: Mapping[str, Any]
) -> list[Json]:
    """Return the ConfigMaps that a job mounts and owns. They are deleted together with the job."""
    meta, found = job["metadata"], []
    for name in dict.fromkeys(mounted_config_maps(job.get("spec") or {})):
        path = CONFIG_MAPS.path_of(meta["namespace"], name)
        try:
            body = await connection.json(ClientRequest("GET", path))
        except NotFound:
            continue
        if is_owned_by(body, meta["uid"]):
            found.append(body)
    return found


def split_manifests(beside: Iterable[Json], kept: Sequence[Json]) -> tuple[list[Json], list[Json]]:
    """Split the other objects of a restart into those to apply first and those the job will own.

    The owned objects are the ConfigMaps of the old job (`kept`). A ConfigMap in `beside` replaces
    the old one of the same name.
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


def list_other_config_maps(kept: Iterable[Json], job: Json) -> list[Json]:
    """Return the ConfigMaps of the old job (`kept`) that the new job also mounts. ConfigMaps with
    the job's code are left out.
    """
    name, mounted = job["metadata"]["name"], set(mounted_config_maps(job["spec"]))
    written = map(as_written, kept)
    return [
        body
        for body in written
        if (own := body["metadata"]["name"]) in mounted and not is_code_name(own, name)
    ]


def mounted_config_maps(spec: Mapping[str, Any]) -> Iterator[str]:
    """Yield the names of the ConfigMaps that the job's templates use as volumes."""
    holders = [spec, *(spec.get("tasks") or ())]
    for holder in holders:
        pod = (holder.get("template") or {}).get("spec") or {}
        for volume in pod.get("volumes") or ():
            yield from config_maps_of(volume)


def owned_by(body: Mapping[str, Any], job: Mapping[str, Any]) -> Json:
    """Return an object with the job as its owner, without fields that the apiserver has added."""
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
