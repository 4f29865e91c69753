"""Reports the progress that DI-engine's task pipelines log.

The other hooks report the steps of the trainers and the results of the evaluators. Middleware that
the other hooks do not know, for example from an older version, logs the same values in fixed
formats (ding/framework/middleware/functional: trainer.py and evaluator.py).
"""

from __future__ import annotations

import logging
import os
import re
from typing import Any

from dijob_runtime.progress import FILES, report
from dijob_runtime.server import URL

MARK = "Train Iter("
# The number of digits is limited to what Python's conversion and the server accept.
ITERATION = re.compile(r"Train Iter\((\d{1,15})\)")
ENV_STEP = re.compile(r"Env Step\((\d{1,15})\)")
# DI-engine up to 0.4 logs "Reward" instead of "Return".
RETURN = re.compile(r"(?:Episode|Eval) (?:Return|Reward)\((-?\d{1,300}(?:\.\d{1,300})?)\)")


def watch_log() -> None:
    """Inspect each record that the program logs from now on.

    The record factory is used rather than a handler, because a program may replace its handlers.
    """
    if os.environ.get(FILES) or os.environ.get(URL):
        logging.setLogRecordFactory(_wrap_factory(logging.getLogRecordFactory()))


def parse_figures(text: str) -> dict[str, Any]:
    """Return the values in a log line, as keyword arguments for `report`."""
    forms = (
        ("iteration", ITERATION, int),
        ("env_step", ENV_STEP, int),
        ("episode_return", RETURN, float),
    )
    matches = ((name, form.search(text), kind) for name, form, kind in forms)
    return {name: kind(match[1]) for name, match, kind in matches if match is not None}


def _wrap_factory(make: Any) -> Any:
    def made(*args: Any, **more: Any) -> logging.LogRecord:
        record: logging.LogRecord = make(*args, **more)
        if isinstance(record.msg, str) and MARK in record.msg:
            report(**parse_figures(record.msg))
        return record

    return made
