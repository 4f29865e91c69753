"""The ports on which DI-engine's processes listen."""

from typing import Final

from dijob.api.command import listen_port
from dijob.api.model import DIJob
from dijob.names import BASE_PORT

# DI-engine 0.5.3, ding/entry/cli_parsers/slurm_parser.py: its first port under Slurm.
SLURM_PORT: Final = 15151


def ports_of(job: DIJob, rank: int) -> range:
    """Return the ports of a rank's DI-engine processes, one per process in order.

    They are used only with a message queue whose processes dial each other.
    """
    command = job.pod_set_of(rank).command
    first = SLURM_PORT if command.platform == "slurm" else listen_port(command) or BASE_PORT
    return range(first, first + job.workers)
