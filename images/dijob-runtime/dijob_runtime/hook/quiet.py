"""Drops the import notices of DI-engine and gym that no user of DI-engine can act on.

DI-engine imports optional packages, and each process logs which of them are missing. gym 0.25
prints that it is unmaintained, and warns about the API that DI-engine's own wrappers use. With
several ranks, these lines make up most of a short log. Only these texts are dropped, and only if
they come from these modules.
"""

from __future__ import annotations

import logging
import os
import warnings
from types import ModuleType

VARIABLE = "DIJOB_QUIET"
# For each notice that is logged through the root logger: the module that logs it, and the beginning
# of its text.
LOGGED = {
    ("default_helper", "If you want to use numba to speed up segment tree"),
    ("memory_helper", "Please install pyecharts first"),
    ("language_transformer", "not found transformer, please install it"),
    ("envpool_env_manager", "Please install envpool first"),
}
# gym's own warnings start with color codes, so their pattern starts with `.*`.
WARNED = (
    (r".*Initializing (wrapper|environment) in old step API", r"gym\."),
    (r"`np\.bool8` is a deprecated alias", r"gym\.utils\.passive_env_checker"),
)


def patch(module: ModuleType) -> None:
    """Silence one of the modules that print notices."""
    if os.environ.get(VARIABLE) == "off":
        return
    if module.__name__ == "ding":
        logging.getLogger().addFilter(is_wanted)
    elif module.__name__ == "gym_notices.notices":
        vars(module).get("notices", {}).clear()
    else:
        # gym's logger sets its own filter when it is imported, and the newest filter takes
        # precedence.
        for message, origin in WARNED:
            warnings.filterwarnings("ignore", message, DeprecationWarning, origin)


def is_wanted(record: logging.LogRecord) -> bool:
    """Return False if a log record is one of the notices, else True."""
    text = str(record.msg)
    return not any(record.module == name and text.startswith(said) for name, said in LOGGED)
