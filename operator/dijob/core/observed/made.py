"""What a pod was made with, read from its metadata and its spec."""

import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any

from dijob import names
from dijob.api.command import Command, listen_port
from dijob.api.numbers import natural
from dijob.core.observed.containers import OURS, sidecars, uncounted
from dijob.core.observed.shape import shape_of
from dijob.core.observed.views import MadeWith
from dijob.pod import DIR, KILL_SECONDS, LAUNCH, POD_DIR, RESTART_POLICY

Body = Mapping[str, Any]

# How a field names an annotation of the operator's.
OURS_BEGIN = f"metadata.annotations['{names.GROUP}/"


def made_with(meta: Body, spec: Body, status: Body) -> MadeWith:
    """What the pod was made with."""
    name = main_name(spec)
    labelled, rank = _labels(meta.get("labels") or {}, controller(meta).get("name"))
    return MadeWith(
        template_hash=(meta.get("annotations") or {}).get(names.ANNOTATION_TEMPLATE, ""),
        main=sys.intern(name),
        image=_image(spec, name),
        reads=_reads(spec, name),
        restartable=launched(spec, name) and spec.get("restartPolicy") != "Never",
        confirmable=_variable(spec, name, RESTART_POLICY).get("value") == "OnFailure",
        grace=_grace(spec, name),
        has_others=len(spec.get("containers") or ()) > 1,
        sidecars=bool(sidecars(spec)),
        probed=_probed(spec),
        shape=shape_of(spec, uncounted(spec), status),
        labelled=labelled,
        rank_label=rank,
    )


def relabelled(made: MadeWith, labels: Mapping[str, str], job: str) -> MadeWith:
    """The same of a pod of this job that has these labels now."""
    labelled, rank = _labels(labels, job)
    return replace(made, labelled=labelled, rank_label=rank)


def main_name(spec: Body) -> str:
    """The name of the main container of the job's own template: the one that mounts what we have
    put there.

    The order of the containers does not tell (a mesh's webhook may put its proxy first),
    annotations can be forged, and the job may be another by now; but no mount of a pod can be
    changed once it is there, and who injects a container does not give it ours. A pod without such
    a mount (the Redis server's) has no launcher: di-container, else the first.
    """
    given = spec.get("containers") or ()
    found = [c.get("name", "") for c in given if _mounts_ours(c)] or [
        c.get("name", "") for c in given
    ]
    return names.MAIN_CONTAINER if names.MAIN_CONTAINER in found else next(iter(found), "")


def _mounts_ours(container: Body) -> bool:
    mounts = {
        (one.get("name"), one.get("mountPath")) for one in container.get("volumeMounts") or ()
    }
    return {(names.BIN_VOLUME, DIR), (names.POD_VOLUME, POD_DIR)} <= mounts


def first_port(spec: Body) -> int:
    """The port on which the first process of a rank's pod listens: the one that the pod names
    `di-port`, else the one that its command says. In the network of its node a pod names the port
    of each worker (core/render/pod.py).
    """
    main = _container(spec, main_name(spec))
    named = (
        port.get("containerPort")
        for port in main.get("ports") or ()
        if port.get("name") == names.MAIN_PORT
    )
    command = [word for word in main.get("command") or () if word != LAUNCH]
    said = listen_port(Command.of({**main, "command": command}))
    return next(named, None) or said or names.BASE_PORT


def controller(meta: Body) -> Body:
    """The owner that controls an object; {} where there is none."""
    owners: Sequence[Body] = meta.get("ownerReferences") or ()
    return next((o for o in owners if o.get("controller")), {})


def number(text: Any) -> int:
    """A number of ours in text that anybody can edit: what is none, or too large for the status,
    counts as 0.
    """
    return (natural(text) if isinstance(text, str) else None) or 0


def _reads(spec: Body, name: str) -> frozenset[str]:
    """The operator's annotations that fields of the main container, or of a volume, are taken
    from."""
    variables = (e.get("valueFrom") or {} for e in _container(spec, name).get("env") or ())
    files = (
        item
        for volume in spec.get("volumes") or ()
        for item in (volume.get("downwardAPI") or {}).get("items") or ()
    )
    paths = ((one.get("fieldRef") or {}).get("fieldPath", "") for one in (*variables, *files))
    return _shared(frozenset(path.split("'")[1] for path in paths if path.startswith(OURS_BEGIN)))


@lru_cache(maxsize=256)
def _shared(names_: frozenset[str]) -> frozenset[str]:
    """One object for the same names: a cluster has thousands of pods, and few kinds of them."""
    return names_


def _probed(spec: Body) -> frozenset[str]:
    """The containers that the kubelet ends if a probe of theirs fails."""
    every = (*(spec.get("initContainers") or ()), *(spec.get("containers") or ()))
    probes = ("livenessProbe", "startupProbe")
    found = (str(c.get("name")) for c in every if any(c.get(probe) for probe in probes))
    return _shared(frozenset(found))


def launched(spec: Body, name: str) -> bool:
    """Whether the launcher stands before the command of this container."""
    return bool((_container(spec, name).get("command") or [""])[0] == LAUNCH)


def _image(spec: Body, name: str) -> str:
    """The image that the pod's gate and main container need; "" where each start of it asks the
    registry, or where an init container of the template's own needs another one before.
    """
    main, before = _container(spec, name), spec.get("initContainers") or ()
    own = any(c.get("name") not in OURS for c in before)
    asks = main.get("imagePullPolicy") == "Always"
    return "" if own or asks else sys.intern(main.get("image") or "")


def _grace(spec: Body, name: str) -> int:
    """How long (seconds) the launcher in this container gives its program to end: its variable
    DIJOB_KILL_SECONDS. Without one it is at most KILL_SECONDS: older operators set the variable
    only where it was less.
    """
    variable = _variable(spec, name, "DIJOB_KILL_SECONDS")
    own = int(spec.get("terminationGracePeriodSeconds") or 0)
    return number(variable["value"]) if "value" in variable else min(own, KILL_SECONDS)


def _variable(spec: Body, name: str, variable: str) -> Body:
    """An environment variable of a container, {} if it has none of this name."""
    given = _container(spec, name).get("env") or ()
    return next((one for one in given if one.get("name") == variable), {})


def _container(spec: Body, name: str) -> Body:
    return next((c for c in spec.get("containers") or () if c.get("name") == name), {})


def _labels(labels: Body, job: Any) -> tuple[bool, str]:
    """Whether a pod has the labels by which this job finds it, and the rank that they name."""
    rank = str(labels.get(names.LABEL_RANK, ""))
    return str(labels.get(names.LABEL_JOB, "")) == job and bool(rank), sys.intern(rank)
