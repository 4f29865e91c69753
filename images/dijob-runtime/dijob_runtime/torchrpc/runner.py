"""Adds the torchrpc queue to Parallel.runner. DI-engine's own runner (ding 0.5.3,
ding/framework/parallel.py) supports only nng and redis.
"""

from __future__ import annotations

import atexit
from dataclasses import dataclass
from typing import Any, Callable

from ding.framework import Parallel
from mpire.pool import WorkerPool

from dijob_runtime.messages import exit_with_error
from dijob_runtime.torchrpc import devices
from dijob_runtime.world import PodWorld

TYPES = ("torchrpc", "torchrpc:cpu", "torchrpc:cuda")


@dataclass(frozen=True)
class Flags:
    """The options that DI-engine documents for torchrpc, but that ditask does not have."""

    cuda_device_map: str = ""
    local_cuda_devices: str = ""


def install(flags: Flags | None = None, instead_of_nng: str = "") -> None:
    """Replace this process's Parallel.runner with one that also supports the queues in TYPES,
    unless it has already been replaced.

    `instead_of_nng` is the queue that is used when the caller passes nng (dijob_runtime/ditask.py).
    """
    known = Parallel.runner
    if getattr(known, "knows_torchrpc", False):
        return

    def runner(*args: Any, **kwargs: Any) -> Callable[..., None]:
        mq_type = kwargs.get("mq_type", "nng")
        mq_type = instead_of_nng if instead_of_nng and mq_type == "nng" else mq_type
        if mq_type not in TYPES:
            return known(*args, **kwargs)  # type: ignore[no-any-return]
        return _make_runner(flags or Flags(), *args, **{**kwargs, "mq_type": mq_type})

    runner.knows_torchrpc = True  # type: ignore[attr-defined]
    Parallel.runner = runner


class Registered:
    """Wraps a main function, and registers the queue in the process that unpickles the function. A
    worker process needs this, because it has imported only ding.
    """

    def __init__(self, main: Callable[..., None]) -> None:
        self._main = main

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        _register_queue()

    def __call__(self, *args: Any, **kwargs: Any) -> None:
        self._main(*args, **kwargs)


def _make_runner(
    flags: Flags, n_parallel_workers: int, mq_type: str, **args: Any
) -> Callable[..., None]:
    """Return a function that runs a main function, as Parallel.runner does. Addresses, topology and
    node IDs are the same as with nng.
    """

    def run(main: Callable[..., None], *given: Any, **named: Any) -> None:
        gpus = _sending_gpus(mq_type, flags)
        params = Parallel._nng_args_parser(n_parallel_workers=n_parallel_workers, **args)
        group = []
        for worker, kwargs in enumerate(params):
            # All variants are registered under one name, because they differ only in their GPUs.
            own = {"mq_type": "torchrpc:cpu", "node": kwargs["node_id"], "local_id": worker}
            own.update(
                device_map=flags.cuda_device_map if gpus else "",
                local_gpus=",".join(map(str, gpus)),
            )
            group.append([{**kwargs, **own}, (Registered(main), given, named)])
        # As in DI-engine, a single worker runs in this process, and several workers run in an mpire
        # pool.
        if n_parallel_workers == 1:
            Parallel._subprocess_runner(*group[0])
            return
        with WorkerPool(n_jobs=n_parallel_workers, start_method="spawn", daemon=False) as pool:
            atexit.register(pool.__exit__)
            pool.map(Parallel._subprocess_runner, group)

    return run


def _sending_gpus(mq_type: str, flags: Flags) -> tuple[int, ...]:
    """Return the GPUs that may send to other processes. The result is empty with torchrpc:cpu, and
    with torchrpc if this process has no GPU. Exits with a message if the options do not fit this
    process.
    """
    torch = _register_queue()
    try:
        links, named = (
            devices.device_map(flags.cuda_device_map),
            devices.parse_gpus(flags.local_cuda_devices),
        )
    except ValueError as error:
        exit_with_error(str(error))
    count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if mq_type == "torchrpc:cpu" or (mq_type == "torchrpc" and not count):
        return ()
    if not count:
        exit_with_error(
            "--mq-type torchrpc:cuda needs GPUs, but this process has none: request them in the"
            " template's resources (nvidia.com/gpu), or use torchrpc:cpu"
        )
    missing = [gpu for gpu in named if gpu >= count]
    if missing:
        exit_with_error(
            f"--local-cuda-devices names GPU {missing[0]}, but this process has {count} in total"
        )
    world = PodWorld.read()
    wrong = devices.find_misfit(
        links, count, len(world.addresses) * world.workers if world else None
    )
    if wrong:
        exit_with_error(wrong)
    # With an explicit list of GPUs, the agent knows only the listed GPUs. A device map that names
    # any other local GPU would fail.
    unnamed = [link.local for link in links if named and link.local not in named]
    if unnamed:
        exit_with_error(
            f"--cuda-device-map names local GPU {unnamed[0]}, which is not in --local-cuda-devices:"
            f" {', '.join(map(str, named))}"
        )
    return named or tuple(range(count))


def _register_queue() -> Any:
    """Register the queue in this process, and return the torch module. Exits if it is missing."""
    try:
        import torch
        import torch.distributed.rpc
    except ImportError as error:  # some builds of torch have no torch.distributed.rpc
        exit_with_error(
            "torchrpc needs torch with torch.distributed.rpc, which cannot be imported in this"
            f" image: {error}"
        )
    from dijob_runtime.torchrpc import mq  # noqa: F401 (it registers the queue)

    return torch
