"""Judges the objects to which pods refer: do they exist, and can the pods use them? No I/O."""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from dijob.cli.explain.fit import NO, UNKNOWN, YES, FitFinding
from dijob.cli.explain.references import (
    CLAIM,
    CONFIG_MAP,
    SECRET,
    ObjectReference,
)
from dijob.core.members import format_count
from dijob.core.render.fields import as_mapping

Body = Mapping[str, Any]

_ONE_POD, _ONE_NODE = "ReadWriteOncePod", "ReadWriteOnce"
# Either of these annotations marks the default StorageClass.
_DEFAULT_CLASS: Final = (
    "storageclass.kubernetes.io/is-default-class",
    "storageclass.beta.kubernetes.io/is-default-class",
)
_DATA: Final = {
    CONFIG_MAP: ("data", "binaryData"),
    # A Secret in a file can have its keys in stringData.
    SECRET: ("data", "stringData"),
}


def judge_missing(reference: ObjectReference) -> FitFinding:
    """Return the finding for an object that does not exist."""
    title, user = reference.title, f", which {reference.user} needs" if reference.user else ""
    if reference.missing == YES:
        return FitFinding(YES, f"{title} does not exist, but is optional")
    if reference.missing == UNKNOWN:
        text = "does not exist (imagePullSecrets): images that need it cannot be pulled"
        return FitFinding(UNKNOWN, f"{title} {text}")
    if not reference.name:
        text = f"the cluster has no default {reference.kind}{user}: name one in storageClassName"
        return FitFinding(NO, text)
    remedy = "create it, or correct the name in the file"
    return FitFinding(NO, f"{title} does not exist{user}: {remedy}")


def judge_object(reference: ObjectReference, body: Body) -> FitFinding:
    """Return the finding for an object that exists."""
    if as_mapping(body.get("metadata")).get("deletionTimestamp"):
        return FitFinding(NO, f"{reference.title} is being deleted")
    if reference.kind == CLAIM:
        return _judge_claim(reference, body)
    fields = _DATA.get(reference.kind, ())
    known = {key for field in fields for key in as_mapping(body.get(field))}
    if lacking := sorted(reference.keys - known) if fields else []:
        text = f"{reference.title} has no key {', '.join(lacking)}, which the pods need"
        return FitFinding(NO, text)
    return FitFinding(YES, reference.title)


def is_bound(claim: Body) -> bool:
    """Return whether a claim has, or had, a volume. Such a claim does not need a StorageClass."""
    return as_mapping(claim.get("status")).get("phase") in ("Bound", "Lost")


def default_class(classes: Iterable[Body]) -> Body | None:
    """Return the default StorageClass, or None if the cluster has none."""
    for one in classes:
        annotations = as_mapping(as_mapping(one.get("metadata")).get("annotations"))
        if any(annotations.get(key) == "true" for key in _DEFAULT_CLASS):
            return one
    return None


def merge_findings(findings: Iterable[FitFinding]) -> list[FitFinding]:
    """Return the findings. All objects without a problem are merged into one line."""
    good, others = list[FitFinding](), list[FitFinding]()
    for one in findings:
        (good if one.verdict == YES else others).append(one)
    text = f"objects that the pods need: {', '.join(one.text for one in good)}"
    return [*([FitFinding(YES, text)] if good else ()), *others]


def _judge_claim(reference: ObjectReference, body: Body) -> FitFinding:
    phase = as_mapping(body.get("status")).get("phase")
    if phase == "Lost":
        return FitFinding(NO, f"{reference.title} has lost its volume (phase Lost)")
    modes = as_mapping(body.get("spec")).get("accessModes")
    given, pods = modes if isinstance(modes, list) else [], format_count(reference.pods, "pod")
    if reference.pods > 1 and given == [_ONE_POD]:
        return FitFinding(NO, f"{reference.title} is {_ONE_POD}, and {pods} mount it")
    if reference.pods > 1 and given == [_ONE_NODE]:
        text = f"is {_ONE_NODE}, and {pods} mount it: they can only run on one node"
        return FitFinding(UNKNOWN, f"{reference.title} {text}")
    return FitFinding(YES, reference.title)
