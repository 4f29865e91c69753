"""The Python client: build a DIJob, apply it, watch it, wait for its outcome (docs/client.md)."""

from dijob.api.reported import Progress
from dijob.api.status import Condition, FirstFailure, Status
from dijob.client.asynchronous import AsyncClient
from dijob.client.documents import build, check, dump, load, load_job, loads, manifest
from dijob.client.errors import (
    ApiError,
    BadFile,
    DijobError,
    NotFound,
    Refused,
    TimedOut,
    Unreachable,
)
from dijob.client.executing import Executed
from dijob.client.jobs import Job, Outcome
from dijob.client.loglines import Line, LogOptions
from dijob.client.ranks import RankPod
from dijob.client.synchronous import Client

__all__ = [
    "ApiError",
    "AsyncClient",
    "BadFile",
    "Client",
    "Condition",
    "DijobError",
    "Executed",
    "FirstFailure",
    "Job",
    "Line",
    "LogOptions",
    "NotFound",
    "Outcome",
    "Progress",
    "RankPod",
    "Refused",
    "Status",
    "TimedOut",
    "Unreachable",
    "build",
    "check",
    "dump",
    "load",
    "load_job",
    "loads",
    "manifest",
]
