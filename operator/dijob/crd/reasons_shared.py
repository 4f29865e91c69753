"""Reasons of the conditions about what the ranks share: their names, their Redis server. A part of reasons.py."""

from typing import Final

from dijob.crd.reason import FINISHED, SUSPENDED, About, good, problem, waiting

SERVICE_READY: Final = About(
    "Whether the job's headless service could be created: it gives the ranks DNS names. There once it could not.",
    (
        problem(
            "ServiceNameTaken",
            "a service of the job's name belongs to somebody else: ranks have no DNS names. IPs work all the same; "
            "a job with `addressing: Hostname` cannot connect",
            "delete or rename that service, or give the job another name",
        ),
        problem(
            "ServiceRefused",
            "the apiserver would not create it; its words are in the message. Asked again, as for pods",
            "as for PodRejected and PodForbidden",
        ),
        good("Created", "it is there now"),
    ),
)

BROKER_READY: Final = About(
    "Whether the Redis server that the operator runs for the job can be used. There where `messageQueue` is redis "
    "without a host. Nobody starts before it is Ready. When it is lost, all ranks begin anew with the next one.",
    (
        waiting("Starting", "its pod is on its way"),
        problem(
            "NotRunning",
            "its pod cannot run; the message says why in the cluster's words",
            "if it is the image: set the chart's value redis.image, or give `messageQueue.host` a server of your own",
        ),
        problem(
            "NameTaken",
            "a pod, service or network policy of its name, JOB-mq, belongs to somebody else; it is never touched",
            "delete or rename that one, or give the job another name",
        ),
        problem(
            "Refused",
            "the apiserver would not create its pod, service or network policy; its words are in the message. Asked "
            "again, as for pods",
            "as for PodRejected and PodForbidden",
        ),
        good("Ready", "it answers"),
        SUSPENDED,
        FINISHED,
    ),
)
