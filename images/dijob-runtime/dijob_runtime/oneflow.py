"""Configures a distributed OneFlow program in one call (as documented for OneFlow 0.3)."""

from __future__ import annotations

import importlib
import json
import os
from typing import Any

from dijob_runtime.messages import log_message

ALONE = '[{"addr":"127.0.0.1"}]'
# The port in OneFlow's documentation.
CTRL_PORT = "9988"


def config_distributed(flow: Any = None) -> None:
    """Configure OneFlow's nodes, its port and the GPUs of each node, from the variables of
    `runtime: oneflow`. Rank 0 is the master. Outside a DIJob, the only node is this machine.

    `flow` is the oneflow module. By default, this function imports it.
    """
    flow = flow or importlib.import_module("oneflow")
    nodes = json.loads(os.environ.get("DI_ONEFLOW_NODES") or ALONE)
    gpus = int(os.environ.get("DI_ONEFLOW_GPU_DEVICE_NUM") or 0)
    if gpus:
        flow.config.gpu_device_num(gpus)
    else:
        log_message("the container has no GPU limit: OneFlow keeps its default gpu_device_num")
    flow.env.ctrl_port(int(os.environ.get("DI_ONEFLOW_CTRL_PORT") or CTRL_PORT))
    flow.env.machine(nodes)
