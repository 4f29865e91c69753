"""Packs an event's arguments for processes whose GPUs send to each other directly: tensors
are kept separate, and everything else is pickled.

The arguments are copied when the event is emitted, because the program continues during the
transfer. It may change an argument (a model's parameters or a list) before the argument is sent.
"""

from __future__ import annotations

import copyreg
import io
import pickle
import warnings
from typing import Any, Callable, Iterable

import torch

# Data of at least this size is sent as a tensor. torch has a separate channel for the memory of
# tensors. This channel is faster for large data and slower for small data.
TENSOR_BYTES = 256 * 2**10
# The name of the function whose call represents a tensor in a pickle.
SLOT = "tensor_in_slot"


class Packed:
    """The form in which torch's RPC sends an event: `tensors` go from GPU to GPU if possible."""

    def __init__(self, data: Any, tensors: list[torch.Tensor]) -> None:
        self.data = data
        self.tensors = tensors

    @property
    def size(self) -> int:
        """The size in bytes."""
        tensors = sum(int(each.numel() * each.element_size()) for each in self.tensors)
        return len(self.data) + tensors

    def for_gpus(self, gpus: Iterable[int]) -> Packed:
        """Return this event as it is sent to a peer that receives directly from these GPUs. Tensors
        on other GPUs are copied to the CPU.
        """
        if all(_goes_as_it_is(tensor, gpus) for tensor in self.tensors):
            return self
        return Packed(
            self.data,
            [each if _goes_as_it_is(each, gpus) else each.cpu() for each in self.tensors],
        )

    def unpacked(self) -> Any:
        """Return the arguments. Raises any exception that unpickling raises."""
        data = as_bytes(self.data) if isinstance(self.data, torch.Tensor) else self.data
        return _Unpickler(io.BytesIO(data), self.tensors).load()


def pack_arguments(arguments: Any) -> Packed:
    """Return a copy of the arguments. The copy is complete when the function returns. Raises any
    exception that pickling raises.
    """
    file = io.BytesIO()
    pickler = pickle.Pickler(file, pickle.HIGHEST_PROTOCOL)
    tensors: list[torch.Tensor] = []

    def slot(tensor: torch.Tensor) -> tuple[Callable[..., Any], tuple[int, bool]]:
        tensors.append(_copy_tensor(tensor))
        return tensor_in_slot, (len(tensors) - 1, tensor.requires_grad)

    pickler.dispatch_table = {**copyreg.dispatch_table, torch.Tensor: slot}
    pickler.dump(arguments)
    # Copies on a GPU are asynchronous: without this call, the program could change the originals
    # before they are copied.
    for device in {tensor.device for tensor in tensors if tensor.is_cuda}:
        torch.cuda.current_stream(device).synchronize()
    data = file.getvalue()
    return Packed(data if len(data) < TENSOR_BYTES else as_tensor(data), tensors)


def wait_for_tensors(packed: Packed) -> None:
    """Wait until all tensors have arrived on the GPUs, and hand them over to the default stream.

    torch calls the receiving function before the copies are complete. The streams of the copies are
    current only during that call.
    """
    for tensor in packed.tensors:
        if tensor.is_cuda:
            torch.cuda.current_stream(tensor.device).synchronize()
            tensor.record_stream(torch.cuda.default_stream(tensor.device))


def as_tensor(data: bytes) -> torch.Tensor:
    """Return a tensor that shares the memory of these bytes. torch sends tensors without pickling
    them.
    """
    with warnings.catch_warnings():
        warnings.simplefilter(
            "ignore"
        )  # a warning that bytes are read-only; nothing writes to them
        return torch.frombuffer(data, dtype=torch.uint8)


def as_bytes(data: torch.Tensor) -> memoryview:
    """Return a tensor's memory."""
    return memoryview(data.numpy())


def tensor_in_slot(number: int, requires_grad: bool) -> torch.Tensor:
    """Placeholder in the pickle. _Unpickler replaces it with the tensor."""
    raise pickle.UnpicklingError("cannot unpickle a packed event: its pickle has no tensors")


class _Unpickler(pickle.Unpickler):
    def __init__(self, file: io.BytesIO, tensors: list[torch.Tensor]) -> None:
        super().__init__(file)
        self._tensors = tensors

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) == (__name__, SLOT):
            return self._tensor
        return super().find_class(module, name)

    def _tensor(self, number: int, requires_grad: bool) -> torch.Tensor:
        return self._tensors[number].requires_grad_(requires_grad)


def _copy_tensor(tensor: torch.Tensor) -> torch.Tensor:
    if tensor.numel() or tensor.layout != torch.strided:
        return tensor.detach().clone()
    # torch asks CUDA which GPU holds a tensor's memory. This fails for a tensor without memory. So
    # an empty tensor is packed as an empty view of a tensor with one element.
    return tensor.new_empty(1)[:0].view(tensor.shape)


def _goes_as_it_is(tensor: torch.Tensor, gpus: Iterable[int]) -> bool:
    return tensor.device.type == "cpu" or (tensor.is_cuda and tensor.device.index in gpus)
