"""Wraps the middleware of DI-engine's task pipelines (ding/framework/middleware/functional)."""

from __future__ import annotations

from functools import wraps
from inspect import isfunction
from types import ModuleType
from typing import Any, Callable, Iterable


def wrap_middleware(module: ModuleType, names: Iterable[str], wrap: Callable[[Any], Any]) -> None:
    """Wrap the middleware that these functions of a module return, by calling `wrap` on it.

    A version of DI-engine may lack some of the functions.
    """
    for name in names:
        if hasattr(module, name):
            setattr(module, name, _wrap_result(getattr(module, name), wrap))


def _wrap_result(make: Any, wrap: Callable[[Any], Any]) -> Any:
    @wraps(make)
    def made(*args: Any, **kwargs: Any) -> Any:
        usual = make(*args, **kwargs)
        # In a process that does not have the middleware's role, the middleware is an object that
        # does nothing.
        return wraps(usual)(wrap(usual)) if isfunction(usual) else usual

    return made
