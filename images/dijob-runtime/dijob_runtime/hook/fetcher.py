"""Patch for the data fetcher of DI-engine's task pipelines
(ding/framework/middleware/functional/data_processor.py): a step without data counts as waiting, and
the fill level of the buffer is measured.
"""

from __future__ import annotations

from functools import wraps
from inspect import isgenerator
from types import ModuleType
from typing import Any, Callable, Iterator

from dijob_runtime.waiting import meter


def patch(module: ModuleType) -> None:
    """Wrap the function that makes the middleware."""
    known: Any = module
    make = getattr(module, "offpolicy_data_fetcher", None)
    if make is None:
        return

    @wraps(make)
    def made(cfg: Any, buffer_: Any, *args: Any, **kwargs: Any) -> Any:
        usual = make(cfg, buffer_, *args, **kwargs)
        fill = _make_fill(buffer_)

        # DI-engine runs the part after `yield` when the step ends. Without data, there is no
        # `yield`.
        @wraps(usual)
        def fetch(ctx: Any) -> Iterator[None]:
            steps = usual(ctx)
            if not isgenerator(steps):
                return
            try:
                next(steps)
            except StopIteration:
                meter.note_data(False, fill)
                return
            meter.note_data(True, fill)
            yield
            yield from steps

        return fetch

    known.offpolicy_data_fetcher = made


def _make_fill(buffer_: Any) -> Callable[[], float] | None:
    """Return a function that returns a buffer's fill level. Return None if the buffer has no
    limit.
    """
    storage = getattr(buffer_, "storage", None)
    most = getattr(storage, "maxlen", None)
    return (lambda: len(buffer_.storage) / most) if most else None
