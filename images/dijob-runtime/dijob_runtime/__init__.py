"""What runs beside a user's code in the pods of a DIJob. Python 3.7 or newer, the standard library
only.
"""

from dijob_runtime.parallel import parallel_args
from dijob_runtime.server import ServerError, report, request_replicas
from dijob_runtime.world import NotReachable, World

__all__ = ["NotReachable", "ServerError", "World", "parallel_args", "report", "request_replicas"]
__version__ = "0.2.0-dev"
