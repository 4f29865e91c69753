"""The table of bad input for changes to a running or finished job."""

import json

from apiserver.rows import EditRefused, patch

_IMAGE = [{"op": "replace", "path": "/spec/template/spec/containers/0/image", "value": "other"}]
CANNOT = "cannot be changed"
# A misspelled name of a declared field, which the schema keeps as an unknown field.
_MAIN = "template/spec/containers/0"
MISSPELT = [
    {"op": "remove", "path": f"/spec/{_MAIN}/args"},
    {"op": "add", "path": f"/spec/{_MAIN}/arg", "value": ["ditask -m a.main"]},
]

EDITS: dict[str, EditRefused] = {
    "the image": EditRefused(
        ("patch", "dijob", "{}", "--type=json", "-p", json.dumps(_IMAGE)),
        ("spec.template", CANNOT, "suspend the job"),
    ),
    "a field that only Kubernetes knows": EditRefused(
        patch(template={"spec": {"nodeSelector": {"a": "b"}}}), ("spec.template", CANNOT)
    ),
    "a misspelled field": EditRefused(
        ("patch", "dijob", "{}", "--type=json", "-p", json.dumps(MISSPELT)),
        ("spec.template", CANNOT, "suspend the job"),
    ),
    "a label of the pods": EditRefused(
        patch(template={"metadata": {"labels": {"a": "b"}}}), ("spec.template", CANNOT)
    ),
    "topology": EditRefused(patch(topology="star"), ("spec.topology", CANNOT)),
    "parallelWorkers": EditRefused(patch(parallelWorkers=2), ("spec.parallelWorkers", CANNOT)),
    "managedBy": EditRefused(
        patch(managedBy="kueue.x-k8s.io/multikueue"),
        ("spec.managedBy", CANNOT, "even while the job is suspended", "create a job with"),
    ),
    "launcher": EditRefused(patch(launcher="Off"), ("spec.launcher", CANNOT)),
    "addressing": EditRefused(patch(addressing="Hostname"), ("spec.addressing", CANNOT)),
    "minReplicas above the stored wish": EditRefused(
        patch(minReplicas=3, maxReplicas=3), ("spec.replicas", "add it to the file")
    ),
    "kubectl scale beyond maxReplicas": EditRefused(
        ("scale", "dijob", "{}", "--replicas=9"),
        ("spec.replicas", "between minReplicas and maxReplicas"),
    ),
    "kubectl scale to 0": EditRefused(
        ("scale", "dijob", "{}", "--replicas=0"), ("greater than or equal to 1",)
    ),
    "kubectl scale to 100000": EditRefused(
        ("scale", "dijob", "{}", "--replicas=100000"), ("less than or equal to 1500",)
    ),
}

ENDED = (
    "the job has ended (Failed): delete it and apply again (kubectl dijob restart NAME -f FILE does"
    " both), or use a new name",
)

# For a failed job. The message has nothing else, in particular no advice that would not help.
EDITS_AFTER_THE_END: dict[str, EditRefused] = {
    "the image": EditRefused(
        ("patch", "dijob", "{}", "--type=json", "-p", json.dumps(_IMAGE)), ENDED
    ),
    "a field that only Kubernetes knows": EditRefused(
        patch(template={"spec": {"nodeSelector": {"a": "b"}}}), ENDED
    ),
    "a misspelled field": EditRefused(
        ("patch", "dijob", "{}", "--type=json", "-p", json.dumps(MISSPELT)), ENDED
    ),
    "topology": EditRefused(patch(topology="star"), ENDED),
    "suspend": EditRefused(patch(suspend=True), ENDED),
    "suspend, with the correction": EditRefused(patch(suspend=True, topology="star"), ENDED),
    "more patience": EditRefused(patch(backoffLimit=9), ENDED),
    "no deadline": EditRefused(patch(activeDeadlineSeconds=None), ENDED),
    "another size": EditRefused(patch(maxReplicas=5), ENDED),
}
# Changes that are still allowed then, for the clean-up or by an autoscaler.
ALLOWED_AFTER_THE_END: dict[str, tuple[str, ...]] = {
    "the time to live": patch(ttlSecondsAfterFinished=86400),
    "who is cleaned up": patch(cleanPodPolicy="All"),
    "kubectl scale": ("scale", "dijob", "{}", "--replicas=1"),
    "a label": ("label", "dijob", "{}", "seen=yes"),
    "nothing": patch(activeDeadlineSeconds=1),
}
