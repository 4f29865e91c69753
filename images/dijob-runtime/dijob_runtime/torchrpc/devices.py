"""Parses and checks the GPU options that DI-engine documents for torchrpc.

It uses only the standard library, so that it can be tested without torch.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Iterable

FORM = "<peer node id>_<local gpu>_<peer gpu>"


@dataclass(frozen=True)
class Link:
    """GPU `local` of this process and GPU `remote` of the process with node ID `peer` exchange
    tensors directly.
    """

    peer: int
    local: int
    remote: int


def device_map(text: str) -> tuple[Link, ...]:
    """Parse `1_0_1,2_0_2`. Raises ValueError with a message for the user."""
    links = []
    for part in filter(None, (part.strip() for part in text.split(","))):
        if not re.fullmatch(r"[0-9]+_[0-9]+_[0-9]+", part):
            raise ValueError(f"--cuda-device-map: {part!r} is not {FORM}, for example 1_0_1")
        links.append(Link(*map(int, part.split("_"))))
    return tuple(links)


def parse_gpus(text: str) -> tuple[int, ...]:
    """Parse `0,1`. Raises ValueError with a message for the user."""
    parts = [part.strip() for part in text.split(",") if part.strip()]
    wrong = [part for part in parts if not (part.isascii() and part.isdigit())]
    if wrong:
        raise ValueError(f"--local-cuda-devices: {wrong[0]!r} is not a GPU number, for example 0,1")
    return tuple(map(int, parts))


def find_misfit(links: Iterable[Link], local: int, nodes: int | None) -> str:
    """Return the error in a device map for this process, or "" if the map is valid.

    `local` is the number of this process's GPUs, and `nodes` is the number of node IDs (None if it
    is unknown). torch does not accept two links between one GPU and one peer.
    """
    named: set[tuple[str, int, int]] = set()
    for link in dict.fromkeys(links):  # a link that is given twice is harmless
        what = f"--cuda-device-map {link.peer}_{link.local}_{link.remote}"
        if link.local >= local:
            return f"{what} names local GPU {link.local}, but this process has {local} in total"
        if nodes is not None and link.peer >= nodes:
            return f"{what} names node {link.peer}, but the job's node ids are 0 to {nodes - 1}"
        # For each peer, a GPU on either side can be used only once.
        ends = {("here", link.peer, link.local), ("there", link.peer, link.remote)}
        if ends & named:
            return f"{what} names a GPU that another link to node {link.peer} already uses"
        named |= ends
    return ""


def misfit_of_peer(
    links: Iterable[Link], node: int, gpus: int, takes: tuple[int, ...] | None = None
) -> str:
    """Return the error in a device map for the peer with this node ID, or "" if the map is valid.

    `gpus` is the number of the peer's GPUs. `takes` lists the GPUs on which the peer accepts
    tensors (None: all of them).
    """
    for link in links:
        if link.peer != node:
            continue
        what = (
            f"--cuda-device-map {link.peer}_{link.local}_{link.remote} names GPU {link.remote}"
            f" of node {node}"
        )
        if link.remote >= gpus:
            return f"{what}, which has {gpus} in total"
        if takes is not None and link.remote not in takes:
            where = f"GPU {', '.join(map(str, takes))}" if takes else "the CPU"
            return f"{what}, which accepts tensors only on {where}"
    return ""
