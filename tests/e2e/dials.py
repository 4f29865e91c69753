"""Runs inside a pod of the ditask image, and prints as JSON what DI-engine's own code would dial.

The input is a JSON list of [topology, pods, workers]. The output has one object per case: node id
-> the links that it dials, with host names h0, h1 ... for the pods. The code is called as in
ding/entry/cli_ditask.py for `--platform k8s`.
"""

import json
import os
import sys

from ding.entry.cli_parsers.k8s_parser import k8s_parser
from ding.framework.parallel import Parallel


def dials(topology: str, pods: int, workers: int) -> dict[int, list[str]]:
    table = {}
    os.environ["DI_NODES"] = ",".join(f"h{rank}" for rank in range(pods))
    for rank in range(pods):
        os.environ["DI_RANK"] = str(rank)
        told = k8s_parser(None, topology=topology, parallel_workers=workers, mq_type="nng")
        attach = (
            [link.strip() for link in told["attach_to"].split(",")] if told["attach_to"] else None
        )
        started = Parallel._nng_args_parser(
            n_parallel_workers=told["parallel_workers"],
            protocol="tcp",
            address=told["address"],
            ports=told["ports"],
            topology=told["topology"],
            attach_to=attach,
            node_ids=told["node_ids"],
        )
        table.update({worker["node_id"]: worker["attach_to"] for worker in started})
    return table


json.dump([dials(*case) for case in json.loads(sys.argv[1])], sys.stdout)
