"""The reasons of the condition about changes that the apiserver refuses; a part of reasons.py."""

from typing import Final

from dijob.crd.reason import About, good, problem

CHANGES_REFUSED: Final = About(
    "True: the apiserver refuses what the operator would change or delete; its words are in the message. Each change "
    "is asked for again after 1, 2, 4 ... 60 s. There once it was True.",
    (
        problem(
            "PodUpdateRefused",
            "a pod cannot be given its address list: a policy, a webhook, or annotations over 256 KiB",
            "let the operator patch the pods it makes, or make the pod's own annotations shorter",
            status=True,
        ),
        problem(
            "PodDeletionRefused",
            "a pod cannot be deleted, so a lost rank is not made anew, or a job is not cleaned up",
            "let the operator delete the pods it makes, or delete the pod that the message names",
            status=True,
        ),
        problem(
            "JobUpdateRefused",
            "`spec.replicas` cannot be written into a job that leaves it out, which `kubectl scale` needs",
            "let the operator patch DIJobs, or write `replicas` into the manifest",
            status=True,
        ),
        problem(
            "JobDeletionRefused",
            "the job has ended and its `ttlSecondsAfterFinished` is over, and it cannot be deleted",
            "let the operator delete DIJobs, or delete the job",
            status=True,
        ),
        problem(
            "ApiUnavailable",
            "the apiserver, or a webhook that it asks, has not answered twice or more in a row",
            "nothing; if it lasts: look after the control plane",
            status=True,
        ),
        good("Accepted", "nothing is refused any more", status=False),
    ),
)
