"""The flags of DI-engine's page about GPUs, read and checked. The standard library only."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Iterable

FORM = "<peer node id>_<local gpu>_<peer gpu>"


@dataclass(frozen=True)
class Link:
    """GPU `local` of this process and GPU `remote` of the process with node id `peer` send to each
    other directly.
    """

    peer: int
    local: int
    remote: int


def device_map(text: str) -> tuple[Link, ...]:
    """Read `1_0_1,2_0_2`. ValueError with a sentence where a part is none."""
    links = []
    for part in filter(None, (part.strip() for part in text.split(","))):
        if not re.fullmatch(r"[0-9]+_[0-9]+_[0-9]+", part):
            raise ValueError(f"--cuda-device-map: {part!r} is not {FORM}, for example 1_0_1")
        links.append(Link(*map(int, part.split("_"))))
    return tuple(links)


def gpus(text: str) -> tuple[int, ...]:
    """Read `0,1`. ValueError with a sentence where a part is no number."""
    parts = [part.strip() for part in text.split(",") if part.strip()]
    wrong = [part for part in parts if not (part.isascii() and part.isdigit())]
    if wrong:
        raise ValueError(f"--local-cuda-devices: {wrong[0]!r} is not a GPU number, for example 0,1")
    return tuple(map(int, parts))


def misfit(links: Iterable[Link], local: int, nodes: int | None) -> str:
    """What a device map names that this process cannot have: one of its `local` GPUs, one of
    `nodes` node ids (None: unknown), a GPU with two links to one peer, which torch refuses. ""
    where all is well.
    """
    named: set[tuple[str, int, int]] = set()
    for link in dict.fromkeys(links):
        what = f"--cuda-device-map {link.peer}_{link.local}_{link.remote}"
        if link.local >= local:
            return f"{what} names local GPU {link.local}, but this process has {local}"
        if nodes is not None and link.peer >= nodes:
            return f"{what} names node {link.peer}, but the job's node ids are 0 to {nodes - 1}"
        ends = {("here", link.peer, link.local), ("there", link.peer, link.remote)}
        if ends & named:
            return f"{what} names a GPU that another link to node {link.peer} already uses"
        named |= ends
    return ""


def misfit_of_peer(
    links: Iterable[Link], node: int, gpus: int, takes: tuple[int, ...] | None = None
) -> str:
    """What a device map names that the process with this node id cannot have, or takes no tensors
    on (None: it does on all). "" where all is well.
    """
    for link in links:
        if link.peer != node:
            continue
        what = (
            f"--cuda-device-map {link.peer}_{link.local}_{link.remote} names GPU {link.remote}"
            f" of node {node}"
        )
        if link.remote >= gpus:
            return f"{what}, which has {gpus}"
        if takes is not None and link.remote not in takes:
            where = f"GPU {', '.join(map(str, takes))}" if takes else "the CPU"
            return f"{what}, which accepts tensors only on {where}"
    return ""
