"""Runtime support for DI-engine programs in the pods of a DIJob.

It runs in the user's image, next to the user's code. Therefore it supports Python 3.7 and needs
only the standard library. The modules for torchrpc also need DI-engine and torch.
"""

from dijob_runtime.parallel import parallel_args
from dijob_runtime.progress import report
from dijob_runtime.server import ServerError, request_replicas
from dijob_runtime.stacks import answer_requests
from dijob_runtime.world import NotReachable, PodWorld

__all__ = ["NotReachable", "PodWorld", "ServerError", "parallel_args", "report", "request_replicas"]
__version__ = "0.2.0-dev"

# This package is imported by each process that imports DI-engine (hook/sitecustomize.py), and by
# each program that reports its progress.
answer_requests()
