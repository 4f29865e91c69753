"""Events whose tensors go to torch as they are, which sends them from GPU to GPU.

DI-engine pickles an event before its queue sees it (ding 0.5.3, ding/framework/parallel.py), which
takes tensors to the CPU. So a process whose GPUs are mapped emits past that, and every process
hears past that: one without a GPU has peers that have some.
"""

from __future__ import annotations

from typing import Any, Callable

from ding.framework import Parallel

from dijob_runtime.hook.kept import FINISH
from dijob_runtime.said import say
from dijob_runtime.torchrpc.packed import Packed, pack


def install(emits: bool) -> None:
    """Teach this process's Parallel to hear, and where it `emits` from GPUs that too, once."""
    if emits and not getattr(Parallel.emit, "knows_packed", False):
        Parallel.emit = _emitter(Parallel.emit)
    usual = Parallel._handle_message
    if not getattr(usual, "knows_packed", False):
        Parallel._handle_message = _handler(usual)


def _emitter(usual: Callable[..., None]) -> Callable[..., None]:
    def emit(router: Any, event: str, *args: Any, **kwargs: Any) -> None:
        """As Parallel.emit. The end of the task is passed on as it is (hook/kept.py)."""
        if event == FINISH:
            usual(router, event, *args, **kwargs)
        elif router.is_active:
            router._mq.publish_packed(event, pack({"a": args, "k": kwargs}))

    emit.knows_packed = True  # type: ignore[attr-defined]
    return emit


def _handler(usual: Callable[[Any, str, Any], None]) -> Callable[[Any, str, Any], None]:
    def handle(router: Any, topic: str, message: Any) -> None:
        """As Parallel._handle_message, which unpickles whatever it is given."""
        if not isinstance(message, Packed):
            usual(router, topic, message)
            return
        if not router._event_loop.listened(topic):
            usual(router, topic, message)  # which keeps it, or drops it as DI-engine does
            return
        try:
            given = message.unpacked()
        except Exception as error:  # of any class: it is the user's objects that are made anew
            say(f"cannot unpickle an event {topic!r}: {error}")
            return
        router._event_loop.emit(topic, *given["a"], **given["k"])

    handle.knows_packed = True  # type: ignore[attr-defined]
    return handle
