"""Adds what DI-engine needs but current packages no longer provide, before a program imports ding.

DI-engine 0.5.3 was released in 2024 and is the newest release. gym 0.25.1 and many environments use
names that NumPy 2 has removed. yapf 0.29, which DI-engine uses to write the configuration, needs
lib2to3, which Python 3.13 has removed. Existing names are never replaced, so with NumPy 1 on
Python 3.12 or older, this module does nothing.
"""

from __future__ import annotations

import ast
import os
import pprint
import sys
import warnings
from importlib.util import find_spec
from types import ModuleType
from typing import Any

from dijob_runtime.messages import log_message

VARIABLE = "DIJOB_COMPAT"
# The names that NumPy 2.0 has removed, each with its equivalent in NumPy 2. Functions whose meaning
# has changed are left out. The aliases of Python's own types in OF_PYTHON were removed in NumPy
# 1.24.
REMOVED = {
    "bool8": "bool_",
    "float_": "float64",
    "complex_": "complex128",
    "unicode_": "str_",
    "string_": "bytes_",
    "Inf": "inf",
    "Infinity": "inf",
    "infty": "inf",
    "PINF": "inf",
    "NaN": "nan",
    "product": "prod",
    "cumproduct": "cumprod",
    "sometrue": "any",
    "alltrue": "all",
    "round_": "round",
    "row_stack": "vstack",
    "in1d": "isin",
}
OF_PYTHON = {"int": int, "float": float, "object": object}
YAPF = "yapf"


def prepare() -> None:
    """Add what is missing, and log it in one line."""
    if os.environ.get(VARIABLE) == "off":
        return
    added = [*_add_to_numpy(), *_add_formatter()]
    if added:
        log_message(
            f"added for DI-engine, because the installed packages no longer have it:"
            f" {', '.join(added)} ({VARIABLE}=off disables this)"
        )


def _add_to_numpy() -> list[str]:
    """Add the names that NumPy 2 has removed. Return those that were missing."""
    try:
        import numpy
    except ImportError:
        return []
    if int(numpy.__version__.partition(".")[0]) < 2:
        return []
    known: Any = numpy
    wanted = {old: getattr(known, new, None) for old, new in REMOVED.items()}
    wanted.update(OF_PYTHON)
    added = []
    for name, value in wanted.items():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # NumPy warns about names that it will remove
            missing = not hasattr(known, name)
        if missing and value is not None:
            setattr(known, name, value)
            added.append(f"numpy.{name}")
    return added


def _add_formatter() -> list[str]:
    """Replace yapf if it cannot be imported. Return its name if it was replaced.

    yapf 0.40 and newer contain their own copy of lib2to3 (yapf_third_party).
    """
    if any(find_spec(name) for name in ("lib2to3", "yapf_third_party")) or YAPF in sys.modules:
        return []
    package, library = ModuleType(YAPF), ModuleType(f"{YAPF}.yapflib")
    interface: Any = ModuleType(f"{YAPF}.yapflib.yapf_api")
    interface.FormatCode = format_code
    for module in (package, library, interface):
        vars(module)["__path__"] = []
        sys.modules[module.__name__] = module
    return [YAPF]


def format_code(text: str, *_: Any, **__: Any) -> tuple[str, bool]:
    """Add line breaks to the text of a configuration. Return the text, and whether line breaks
    were added. The file is only meant to be read by people, so code that is not a literal is left
    as it is.
    """
    try:
        value = ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return text, False
    return pprint.pformat(value, width=100, compact=True) + "\n", True
