"""Reads from a pod's metadata and spec what the pod was created with.

A running job may have pods that come from an older operator or from another template, or that a
webhook has changed. So these facts are read from the pod itself, and never inferred from the job.
"""

import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any

from dijob import names
from dijob.api.command import Command, listen_port
from dijob.api.numbers import parse_natural
from dijob.core.observed.containers import OURS, sidecar_names, uncounted_containers
from dijob.core.observed.mounting import image_volumes
from dijob.core.observed.scheduling import scheduling_group
from dijob.core.observed.shape import shape_of
from dijob.core.observed.views import MadeWith
from dijob.pod import CHANNEL, DIR, KILL_SECONDS, LAUNCH, POD_DIR, RESTART_POLICY

Body = Mapping[str, Any]

# The beginning of a fieldPath that refers to an annotation of the operator.
OURS_BEGIN = f"metadata.annotations['{names.GROUP}/"


def made_with(meta: Body, spec: Body, status: Body) -> MadeWith:
    """Read what the pod was created with."""
    name = main_name(spec)
    labelled, rank = _read_labels(meta.get("labels") or {}, controller_of(meta).get("name"))
    return MadeWith(
        foreign=_is_foreign(spec),
        template_hash=(meta.get("annotations") or {}).get(names.ANNOTATION_TEMPLATE, ""),
        main=sys.intern(name),
        image=_needed_image(spec, name),
        reads=_read_annotations(spec, name),
        restartable=starts_launcher(spec, name) and spec.get("restartPolicy") != "Never",
        confirmable=_find_variable(spec, name, RESTART_POLICY).get("value") == "OnFailure",
        grace=_launcher_grace(spec, name),
        has_others=len(spec.get("containers") or ()) > 1,
        sidecars=bool(sidecar_names(spec)),
        probed=_probed_containers(spec),
        shape=shape_of(spec, uncounted_containers(spec), status),
        labelled=labelled,
        rank_label=rank,
        image_volumes=_share_volumes(image_volumes(spec)),
        channel_key=_channel_key(_find_variable(spec, name, CHANNEL).get("value", "")),
        engine=sys.intern((meta.get("annotations") or {}).get(names.ANNOTATION_ENGINE, "")),
        group=sys.intern(scheduling_group(spec)),
    )


def _channel_key(value: str) -> str:
    """Return KEY from the launcher's variable for the channel, "HOST:PORT POD KEY"."""
    words = value.split()
    return words[2] if len(words) == 3 else ""


def with_labels(made: MadeWith, labels: Mapping[str, str], job: str) -> MadeWith:
    """Return `made`, updated with the new labels of a pod of this job."""
    labelled, rank = _read_labels(labels, job)
    return replace(made, labelled=labelled, rank_label=rank)


def main_name(spec: Body) -> str:
    """Return the name of the main container: the one with the volume mounts of the operator.

    Nothing else is reliable. The webhook of a service mesh may put its proxy first, annotations can
    be forged, and the job's template may have changed. But the mounts of a pod are immutable, and
    an injected container does not get them. A pod without these mounts (that of the Redis server)
    has no launcher; its main container is di-container, else the first container.
    """
    given = spec.get("containers") or ()
    found = [c.get("name", "") for c in given if _mounts_ours(c)] or [
        c.get("name", "") for c in given
    ]
    return names.MAIN_CONTAINER if names.MAIN_CONTAINER in found else next(iter(found), "")


def _is_foreign(spec: Body) -> bool:
    """Whether another client has created this pod, although the job controls it.

    Since version 0.1.0, every pod of a rank has had the operator's mounts and either a gate or a
    channel, whatever spec.launcher is. All of them are immutable. Annotations are not evidence,
    because anyone who may patch pods can remove them.
    """
    before = spec.get("initContainers") or ()
    waits = any(one.get("name") == names.GATE_CONTAINER for one in before) or bool(
        _find_variable(spec, main_name(spec), CHANNEL)
    )
    return not (waits and any(map(_mounts_ours, spec.get("containers") or ())))


def _mounts_ours(container: Body) -> bool:
    mounts = {
        (one.get("name"), one.get("mountPath")) for one in container.get("volumeMounts") or ()
    }
    return {(names.BIN_VOLUME, DIR), (names.POD_VOLUME, POD_DIR)} <= mounts


def first_port(spec: Body) -> int:
    """Return the port on which the first process of a rank's pod listens: the port named `di-port`,
    else the one in its command. (With hostNetwork a pod names a port for each worker instead,
    core/render/pod.py.)
    """
    main = _find_container(spec, main_name(spec))
    named = (
        port.get("containerPort")
        for port in main.get("ports") or ()
        if port.get("name") == names.MAIN_PORT
    )
    command = [word for word in main.get("command") or () if word != LAUNCH]
    from_command = listen_port(Command.of({**main, "command": command}))
    return next(named, None) or from_command or names.BASE_PORT


def controller_of(meta: Body) -> Body:
    """Return the ownerReference of an object's controller; {} if there is none."""
    owners: Sequence[Body] = meta.get("ownerReferences") or ()
    return next((o for o in owners if o.get("controller")), {})


def parse_number(text: Any) -> int:
    """Read a number that the operator has written, from text that anyone can edit. Any other text,
    and a number too large for the status, is read as 0.
    """
    return (parse_natural(text) if isinstance(text, str) else None) or 0


def _read_annotations(spec: Body, name: str) -> frozenset[str]:
    """Return the operator's annotations that the main container or a volume refers to. Only these
    annotations need to be written to the pod.
    """
    variables = (e.get("valueFrom") or {} for e in _find_container(spec, name).get("env") or ())
    files = (
        item
        for volume in spec.get("volumes") or ()
        for item in (volume.get("downwardAPI") or {}).get("items") or ()
    )
    paths = ((one.get("fieldRef") or {}).get("fieldPath", "") for one in (*variables, *files))
    return _share_set(
        frozenset(path.split("'")[1] for path in paths if path.startswith(OURS_BEGIN))
    )


@lru_cache(maxsize=256)
def _share_set(names_: frozenset[str]) -> frozenset[str]:
    """Return one shared object for equal sets, to save memory: a cluster has thousands of pods, but
    few different sets.
    """
    return names_


@lru_cache(maxsize=256)
def _share_volumes(volumes: tuple[tuple[str, str], ...]) -> tuple[tuple[str, str], ...]:
    """Return one shared object for equal values, like _share_set."""
    return volumes


def _probed_containers(spec: Body) -> frozenset[str]:
    """Return the containers that the kubelet kills if their probe or postStart hook fails."""
    every = (*(spec.get("initContainers") or ()), *(spec.get("containers") or ()))
    probes = ("livenessProbe", "startupProbe")
    found = (
        str(c.get("name"))
        for c in every
        if any(c.get(probe) for probe in probes) or (c.get("lifecycle") or {}).get("postStart")
    )
    return _share_set(frozenset(found))


def starts_launcher(spec: Body, name: str) -> bool:
    """Whether this container starts the launcher."""
    return bool((_find_container(spec, name).get("command") or [""])[0] == LAUNCH)


def _needed_image(spec: Body, name: str) -> str:
    """Return the image that the pod's gate and main container need.

    Return "" if this pod might be unable to start although another pod with the same image runs on
    its node. This is the case if each start contacts the registry, or if an init container of the
    template needs its own image first.
    """
    main, before = _find_container(spec, name), spec.get("initContainers") or ()
    own = any(c.get("name") not in OURS for c in before)
    asks = main.get("imagePullPolicy") == "Always"
    return "" if own or asks else sys.intern(main.get("image") or "")


def _launcher_grace(spec: Body, name: str) -> int:
    """Return how long (in seconds) the launcher in this container waits for its program to end:
    DIJOB_KILL_SECONDS. Without that variable, the time is the pod's grace period, but at most
    KILL_SECONDS. Older operators did not set the variable if the grace period was longer, so the
    launchers in their pods wait only KILL_SECONDS.
    """
    variable = _find_variable(spec, name, "DIJOB_KILL_SECONDS")
    own = int(spec.get("terminationGracePeriodSeconds") or 0)
    return parse_number(variable["value"]) if "value" in variable else min(own, KILL_SECONDS)


def _find_variable(spec: Body, name: str, variable: str) -> Body:
    """Return an environment variable of a container; {} if it has none of this name."""
    given = _find_container(spec, name).get("env") or ()
    return next((one for one in given if one.get("name") == variable), {})


def _find_container(spec: Body, name: str) -> Body:
    return next((c for c in spec.get("containers") or () if c.get("name") == name), {})


def _read_labels(labels: Body, job: Any) -> tuple[bool, str]:
    """Return two values: whether a pod has the labels that select the pods of this job, and the
    rank in its labels.
    """
    rank = str(labels.get(names.LABEL_RANK, ""))
    return str(labels.get(names.LABEL_JOB, "")) == job and bool(rank), sys.intern(rank)
