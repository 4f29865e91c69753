"""How many pods, and what each of them asks for: Slurm counts nodes and tasks, a pod is a task."""

import math
from collections.abc import Mapping
from dataclasses import dataclass

from dijob.cli.slurm import amounts
from dijob.cli.slurm.notes import Notes
from dijob.cli.slurm.script import Option

Given = Mapping[str, Option]


@dataclass(frozen=True)
class Shape:
    """The pods: how many, and each one's CPUs (0: not said), memory ("" : not said) and GPUs."""

    pods: int
    per_node: int
    cpus: int
    memory: str
    gpus: int


def shape(given: Given, notes: Notes) -> Shape:
    """The shape that these options ask for; srun's are among them, and win."""
    nodes = _count(given, "nodes", 1)
    per_node = _count(given, "ntasks-per-node", 0)
    pods = _count(given, "ntasks", 0) or nodes * max(1, per_node)
    # Without a word on it, Slurm spreads the tasks over the nodes.
    here = per_node or math.ceil(pods / nodes)
    graphics = _gpus(given, pods, here, notes)
    cpus = _count(given, "cpus-per-task", 0) or _count(given, "cpus-per-gpu", 0) * graphics
    memory = _memory(given, here, cpus, graphics, notes)
    return Shape(pods, here, cpus, memory=memory, gpus=graphics)


def _count(given: Given, name: str, otherwise: int) -> int:
    return amounts.count(given[name]) if name in given else otherwise


def _memory(given: Given, here: int, cpus: int, graphics: int, notes: Notes) -> str:
    """Of a pod: --mem is a node's, the others are a CPU's and a GPU's."""
    factors = {"mem-per-cpu": max(1, cpus), "mem-per-gpu": max(1, graphics), "mem": 1 / here}
    for name, factor in factors.items():
        if name in given:
            option = given[name]
            found = amounts.mebibytes(option) * factor
            if not found:
                said = "0 is all memory of a node: say how much a pod needs, in resources.requests"
                notes.add(option.number, option.text, said)
            return amounts.memory(found) if found else ""
    return ""


def _gpus(given: Given, pods: int, here: int, notes: Notes) -> int:
    """Of a pod: some options are about a task, others about a node or the whole job."""
    shares = {"gpus-per-task": 1, "gpus-per-node": here, "gres": here, "gpus": pods}
    for name, share in shares.items():
        found = amounts.gpus(given[name]) if name in given else None
        if found is None:
            continue
        option = given[name]
        if found.type:
            said = f"for GPUs of type {found.type} put the label of such nodes into nodeSelector"
            notes.add(option.number, option.text, said)
        if found.number % share:
            said = (
                f"{found.number} GPUs for {share} tasks: no two pods share a GPU, so each asks for"
            )
            notes.add(option.number, option.text, f"{said} {math.ceil(found.number / share)}")
        return math.ceil(found.number / share)
    return 0
