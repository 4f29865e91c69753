"""Events whose arguments go to torch as they are, which sends tensors from GPU to GPU.

DI-engine pickles an event before its queue sees it (ding 0.5.3, ding/framework/parallel.py), which
takes tensors to the CPU. So a process whose GPUs are mapped emits, and hears, past that.
"""

from __future__ import annotations

from typing import Any, Callable

from ding.framework import Parallel


def install() -> None:
    """Teach this process's Parallel, once."""
    usual = Parallel._handle_message
    if getattr(usual, "knows_objects", False):
        return
    Parallel.emit = _emit
    Parallel._handle_message = _handler(usual)


def _emit(router: Any, event: str, *args: Any, **kwargs: Any) -> None:
    """As Parallel.emit."""
    if router.is_active:
        router._mq.publish_object(event, {"a": args, "k": kwargs})


def _handler(usual: Callable[[Any, str, Any], None]) -> Callable[[Any, str, Any], None]:
    def handle(router: Any, topic: str, message: Any) -> None:
        """As Parallel._handle_message, which unpickles first."""
        if not isinstance(message, dict):
            usual(router, topic, message)
        elif router._event_loop.listened(topic):
            router._event_loop.emit(topic, *message["a"], **message["k"])

    handle.knows_objects = True  # type: ignore[attr-defined]
    return handle
