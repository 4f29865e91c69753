"""Computes the number of pods and the resources of each pod.

Slurm counts nodes and tasks. Each task becomes a pod, so amounts per node or per job are divided
among the pods.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass

from dijob_extras.slurm import amounts
from dijob_extras.slurm.script import Notes, Option

Given = Mapping[str, Option]


@dataclass(frozen=True)
class Shape:
    """The number of pods, and each pod's CPUs (0 if unknown), memory ("" if unknown) and GPUs."""

    pods: int
    per_node: int
    cpus: int
    memory: str
    gpus: int


def derive_shape(given: Given, notes: Notes) -> Shape:
    """Return the shape that the options request."""
    nodes = _count_or_default(given, "nodes", 1)
    per_node = _count_or_default(given, "ntasks-per-node", 0)
    pods = _count_or_default(given, "ntasks", 0) or nodes * max(1, per_node)
    # Without --ntasks-per-node, Slurm distributes the tasks evenly over the nodes.
    here = per_node or math.ceil(pods / nodes)
    graphics = _gpus_per_pod(given, pods, here, notes)
    cpus = (
        _count_or_default(given, "cpus-per-task", 0)
        or _count_or_default(given, "cpus-per-gpu", 0) * graphics
    )
    memory = _memory_per_pod(given, here, cpus, graphics, notes)
    return Shape(pods, here, cpus, memory=memory, gpus=graphics)


def _count_or_default(given: Given, name: str, otherwise: int) -> int:
    return amounts.parse_count(given[name]) if name in given else otherwise


def _memory_per_pod(given: Given, here: int, cpus: int, graphics: int, notes: Notes) -> str:
    """Return the memory of a pod. The option --mem is per node, and the other options are per CPU
    or GPU.
    """
    # The memory of a node is shared by its tasks.
    factors = {"mem-per-cpu": max(1, cpus), "mem-per-gpu": max(1, graphics), "mem": 1 / here}
    for name, factor in factors.items():
        if name in given:
            option = given[name]
            found = amounts.parse_mebibytes(option) * factor
            if not found:
                advice = (
                    "0 means all of the node's memory: set resources.requests to what a pod needs"
                )
                notes.add(option.number, option.text, advice)
            return amounts.format_memory(found) if found else ""
    return ""


def _gpus_per_pod(given: Given, pods: int, here: int, notes: Notes) -> int:
    """Return the GPUs of a pod. Some options are per task, others per node or for the whole job."""
    # If several options are given, the first one in this order applies.
    shares = {"gpus-per-task": 1, "gpus-per-node": here, "gres": here, "gpus": pods}
    for name, share in shares.items():
        found = amounts.parse_gpus(given[name]) if name in given else None
        if found is None:
            continue
        option = given[name]
        if found.type:
            advice = f"to get GPUs of type {found.type}, put the label of their nodes into"
            notes.add(option.number, option.text, f"{advice} nodeSelector")
        # Kubernetes allocates only whole GPUs.
        if found.number % share:
            advice = (
                f"{found.number} GPUs for {share} tasks: pods cannot share a GPU, so each requests"
                f" {math.ceil(found.number / share)}"
            )
            notes.add(option.number, option.text, advice)
        return math.ceil(found.number / share)
    return 0
