"""ditask with the torchrpc queue: `python -m dijob_runtime.ditask`.

It accepts the options of ditask and the options that DI-engine documents for torchrpc. In a DIJob,
the options for torchrpc are not needed, because addresses, ranks and names come from the
environment.
"""

from __future__ import annotations

import re
from typing import Any

import click
from ding.entry.cli_ditask import cli_ditask

from dijob_runtime.messages import log_message
from dijob_runtime.torchrpc import devices, runner

# DI-engine's documentation passes a device map in --attach-to.
DEVICE_MAP = re.compile(r"\d+_\d+_\d+(,\d+_\d+_\d+)*")
OPTIONS = (
    click.Option(
        ["--init-method"],
        type=str,
        help="Ignored: processes connect to each other directly.",
    ),
    click.Option(
        ["--local-cuda-devices"],
        type=str,
        default="",
        help="GPUs of this process that may send tensors, e.g. 0,1.",
    ),
    click.Option(["--cuda-device-map"], type=str, default="", help=f"{devices.FORM},..."),
    click.Option(["--global_rank", "--global-rank"], type=int, help="The node id of this process."),
)


def add_options(command: click.Command) -> click.Command:
    """Add the options to ditask's own command. The command's original function does not get these
    options.
    """
    known = command.callback

    def callback(**given: Any) -> Any:
        links, gpus = given.pop("cuda_device_map"), given.pop("local_cuda_devices")
        rank, method = given.pop("global_rank"), given.pop("init_method")
        if given["mq_type"] in runner.TYPES:
            if DEVICE_MAP.fullmatch(given["attach_to"] or ""):
                links, given["attach_to"] = given["attach_to"], None
            if rank is not None and not given["node_ids"]:
                given["node_ids"] = str(rank)
            if method:
                log_message(
                    f"--init-method {method} is ignored: processes connect to each other directly"
                )
            runner.install(runner.Flags(links, gpus), given["mq_type"])
            # DI-engine's parser adds addresses only for nng, and torchrpc needs the same addresses.
            # So the parser gets nng, and the runner then replaces nng with torchrpc.
            given["mq_type"] = "nng"
        return known(**given)  # type: ignore[misc]

    queue = next(option for option in command.params if option.name == "mq_type")
    queue.opts.append("--mq_type")
    command.params.extend(OPTIONS)
    command.callback = callback
    return command


if __name__ == "__main__":
    add_options(cli_ditask)(prog_name="ditask")
