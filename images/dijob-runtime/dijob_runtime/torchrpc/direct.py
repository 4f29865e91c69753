"""Emits and handles events whose tensors torch sends from GPU to GPU.

DI-engine pickles an event before the queue gets it (ding 0.5.3, ding/framework/parallel.py).
Pickling copies tensors to the CPU. So a process with mapped GPUs bypasses pickling when it
emits events. Every process must be able to receive such events, because a process without a GPU can
have peers with GPUs.
"""

from __future__ import annotations

from typing import Any, Callable

from ding.framework import Parallel

from dijob_runtime.hook.kept import FINISH
from dijob_runtime.messages import log_message
from dijob_runtime.torchrpc.packed import Packed, pack_arguments


def install(emits: bool) -> None:
    """Patch this process's Parallel once, so that it receives packed events and, if `emits` is
    true, also emits them.
    """
    if emits and not getattr(Parallel.emit, "knows_packed", False):
        Parallel.emit = _wrap_emit(Parallel.emit)
    usual = Parallel._handle_message
    if not getattr(usual, "knows_packed", False):
        Parallel._handle_message = _wrap_handler(usual)


def _wrap_emit(usual: Callable[..., None]) -> Callable[..., None]:
    def emit(router: Any, event: str, *args: Any, **kwargs: Any) -> None:
        """Emit an event, as Parallel.emit does. The event for the end of the task is
        emitted in the usual way, so that it can be forwarded (hook/kept.py).
        """
        if event == FINISH:
            usual(router, event, *args, **kwargs)
        elif router.is_active:
            router._mq.publish_packed(event, pack_arguments({"a": args, "k": kwargs}))

    emit.knows_packed = True  # type: ignore[attr-defined]
    return emit


def _wrap_handler(usual: Callable[[Any, str, Any], None]) -> Callable[[Any, str, Any], None]:
    def handle(router: Any, topic: str, message: Any) -> None:
        """Handle a packed message as Parallel._handle_message handles pickled messages."""
        if not isinstance(message, Packed):
            usual(router, topic, message)
            return
        if not router._event_loop.listened(topic):
            usual(router, topic, message)  # keeps it (hook/kept.py), or drops it as DI-engine does
            return
        try:
            given = message.unpacked()
        except Exception as error:  # any exception: unpickling runs code in the user's objects
            log_message(f"cannot unpickle an event of type {topic!r}: {error}")
            return
        router._event_loop.emit(topic, *given["a"], **given["k"])

    handle.knows_packed = True  # type: ignore[attr-defined]
    return handle
