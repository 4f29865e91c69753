"""Lists of ports, which DI-engine accepts on one machine but not between the pods of a job.

The ranks know only one number, the first port: worker i of each rank listens on that port + i
(ding 0.5.3, ding/entry/cli_parsers/k8s_parser.py). The launcher's ditask/ditask.go has the same
rule.
"""

from __future__ import annotations

from typing import Sequence


def first_port(ports: Sequence[int], workers: int) -> int:
    """Return the first port of a list that contains the ports of these workers. For any other
    list, raises a ValueError whose message contains a remedy.
    """
    expected = list(range(ports[0], ports[0] + workers))
    if list(ports) == expected:
        return ports[0]
    raise ValueError(
        f"ports {', '.join(map(str, ports))}: in a DIJob, worker i of each rank listens on the"
        " first port + i, because the other ranks know only one number. With"
        f" {workers} worker{'s' * (workers > 1)}, pass only the first port: {ports[0]}"
    )
