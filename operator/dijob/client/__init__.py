"""The Python client: build a DIJob, apply it, watch it, wait for its outcome (docs/client.md)."""

import importlib
from typing import TYPE_CHECKING, Any

from dijob.api.reported import Progress
from dijob.api.status import Condition, FirstFailure, Status
from dijob.client.bar import Bar
from dijob.client.documents import build, check, dump, load, load_job, loads, manifest
from dijob.client.errors import (
    ApiError,
    BadFile,
    BadName,
    BadValue,
    DijobError,
    NotFound,
    Refused,
    TimedOut,
    Unreachable,
)
from dijob.client.jobs import Job, Outcome
from dijob.client.loglines import Line, LogOptions

if TYPE_CHECKING:
    from dijob.client.asynchronous import AsyncClient
    from dijob.client.executing import Executed
    from dijob.client.functions import JobFunction, as_job
    from dijob.client.ranks import RankPod
    from dijob.client.synchronous import Client

# These names are imported on first use, because they need kubernetes and aiohttp. Importing these
# two packages takes a third of a second. Programs that only read files do not need these packages.
_LATER = {
    "AsyncClient": "asynchronous",
    "Client": "synchronous",
    "Executed": "executing",
    "JobFunction": "functions",
    "RankPod": "ranks",
    "as_job": "functions",
}

__all__ = [
    "ApiError",
    "AsyncClient",
    "BadFile",
    "BadName",
    "BadValue",
    "Bar",
    "Client",
    "Condition",
    "DijobError",
    "Executed",
    "FirstFailure",
    "Job",
    "JobFunction",
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
    "as_job",
    "build",
    "check",
    "dump",
    "load",
    "load_job",
    "loads",
    "manifest",
]


# Python calls this for names that the module does not have (PEP 562).
def __getattr__(name: str) -> Any:
    if name not in _LATER:
        raise AttributeError(f"module {__name__} has no attribute {name}")
    return getattr(importlib.import_module(f"{__name__}.{_LATER[name]}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)
