"""The device on which DI-engine's data-parallel code computes in this pod."""

from __future__ import annotations

from glob import glob
from typing import Any

# The device files of GPUs: NVIDIA's, AMD's, and WSL's.
DEVICE_FILES = ("/dev/nvidia[0-9]*", "/dev/kfd", "/dev/dxg")


def is_without_gpu() -> bool:
    """Whether this process has no GPU. A GPU that torch cannot use counts as a GPU, so that a
    broken driver is reported instead of hidden.
    """
    import torch

    return not torch.cuda.is_available() and not any(map(glob, DEVICE_FILES))


def find_device() -> Any:
    """Return torch's name for the current device: the number of the GPU, or "cpu"."""
    import torch

    return "cpu" if is_without_gpu() else torch.cuda.current_device()
