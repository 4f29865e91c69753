"""An event's arguments on their way, between processes whose GPUs send to each other: the tensors
apart, and all else pickled.

They are as they were when the event was emitted. Who emits goes on meanwhile, and may write to a
model's parameters, or to a list, before they have left.
"""

from __future__ import annotations

import copyreg
import io
import pickle
import warnings
from typing import Any, Callable, Iterable

import torch

# torch sends a tensor's memory by a channel of its own, which costs more than it saves for less
# than this.
TENSOR_BYTES = 256 * 2**10
# The name under which a pickle asks for a tensor.
SLOT = "tensor_in_slot"


class Packed:
    """What torch's RPC carries: it sends `tensors` as they are, from GPU to GPU where it can."""

    def __init__(self, data: Any, tensors: list[torch.Tensor]) -> None:
        self.data = data
        self.tensors = tensors

    @property
    def size(self) -> int:
        """In bytes."""
        tensors = sum(int(each.numel() * each.element_size()) for each in self.tensors)
        return len(self.data) + tensors

    def for_gpus(self, gpus: Iterable[int]) -> Packed:
        """As for a peer to which these GPUs send: what is on others goes by way of the CPU."""
        if all(_goes_as_it_is(tensor, gpus) for tensor in self.tensors):
            return self
        return Packed(
            self.data,
            [each if _goes_as_it_is(each, gpus) else each.cpu() for each in self.tensors],
        )

    def unpacked(self) -> Any:
        """The arguments. Raises whatever unpickling does."""
        data = as_bytes(self.data) if isinstance(self.data, torch.Tensor) else self.data
        return _Unpickler(io.BytesIO(data), self.tensors).load()


def pack(arguments: Any) -> Packed:
    """A copy, which is complete when this returns. Raises whatever pickling does."""
    file = io.BytesIO()
    pickler = pickle.Pickler(file, pickle.HIGHEST_PROTOCOL)
    tensors: list[torch.Tensor] = []

    def slot(tensor: torch.Tensor) -> tuple[Callable[..., Any], tuple[int, bool]]:
        tensors.append(_copy(tensor))
        return tensor_in_slot, (len(tensors) - 1, tensor.requires_grad)

    pickler.dispatch_table = {**copyreg.dispatch_table, torch.Tensor: slot}
    pickler.dump(arguments)
    for device in {tensor.device for tensor in tensors if tensor.is_cuda}:
        torch.cuda.current_stream(device).synchronize()
    data = file.getvalue()
    return Packed(data if len(data) < TENSOR_BYTES else as_tensor(data), tensors)


def settle(packed: Packed) -> None:
    """Wait until all has arrived on the GPUs, and give it to whoever uses it on the usual stream.

    torch calls whom it brings a message to before the copies are done, on streams that are current
    in that call alone.
    """
    for tensor in packed.tensors:
        if tensor.is_cuda:
            torch.cuda.current_stream(tensor.device).synchronize()
            tensor.record_stream(torch.cuda.default_stream(tensor.device))


def as_tensor(data: bytes) -> torch.Tensor:
    """The same memory as a tensor, which goes to the wire without being pickled."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it says that bytes cannot be written to, and nobody does
        return torch.frombuffer(data, dtype=torch.uint8)


def as_bytes(data: torch.Tensor) -> memoryview:
    """A tensor's memory."""
    return memoryview(data.numpy())


def tensor_in_slot(number: int, requires_grad: bool) -> torch.Tensor:
    """Stands in the pickle for what _Unpickler has."""
    raise pickle.UnpicklingError("an event's tensors travel apart from it")


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


def _copy(tensor: torch.Tensor) -> torch.Tensor:
    if tensor.numel() or tensor.layout != torch.strided:
        return tensor.detach().clone()
    # torch asks CUDA on which GPU a tensor's memory is, which has no answer where there is none.
    return tensor.new_empty(1)[:0].view(tensor.shape)


def _goes_as_it_is(tensor: torch.Tensor, gpus: Iterable[int]) -> bool:
    return tensor.device.type == "cpu" or (tensor.is_cuda and tensor.device.index in gpus)
