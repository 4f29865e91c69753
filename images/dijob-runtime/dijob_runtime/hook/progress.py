"""What DI-engine logs of its training is reported as the job's progress
(ding/framework/middleware/functional: trainer.py and evaluator.py), where there is a server for it.
"""

from __future__ import annotations

import logging
import os
import re
from typing import Any

from dijob_runtime.server import URL, report

MARK = "Train Iter("
# No more digits than Python and the server take.
ITERATION = re.compile(r"Train Iter\((\d{1,15})\)")
ENV_STEP = re.compile(r"Env Step\((\d{1,15})\)")
# Up to 0.4 it was a reward.
RETURN = re.compile(r"(?:Episode|Eval) (?:Return|Reward)\((-?\d{1,300}(?:\.\d{1,300})?)\)")


def watch() -> None:
    """Look at each record that the program logs from now on."""
    if os.environ.get(URL):
        logging.setLogRecordFactory(_looking(logging.getLogRecordFactory()))


def figures(text: str) -> dict[str, Any]:
    """What a line says, as `report` takes it."""
    forms = (
        ("iteration", ITERATION, int),
        ("env_step", ENV_STEP, int),
        ("episode_return", RETURN, float),
    )
    matches = ((name, form.search(text), kind) for name, form, kind in forms)
    return {name: kind(match[1]) for name, match, kind in matches if match is not None}


def _looking(make: Any) -> Any:
    def made(*args: Any, **more: Any) -> logging.LogRecord:
        record: logging.LogRecord = make(*args, **more)
        if isinstance(record.msg, str) and MARK in record.msg:
            report(**figures(record.msg))
        return record

    return made
