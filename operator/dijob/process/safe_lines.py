"""Protects the log against untrusted text.

Log messages quote API errors, events, and the holder of a Lease, all of which can contain text
chosen by users. A line break in such a text could forge a log line, and control characters would
reach the terminal of the person who reads the log. The formatter makes every record safe, so that
the callers do not have to (docs/decisions/044).
"""

import copy
import logging

from dijob.api.printed import one_line, plain_text


class SafeLines(logging.Formatter):
    """Wraps another formatter: each message becomes a single line. The lines of a traceback follow
    it, indented.
    """

    def __init__(self, inner: logging.Formatter) -> None:
        super().__init__()
        self._inner = inner

    def format(self, record: logging.LogRecord) -> str:
        # Other handlers get the same record, so it must not be changed.
        safe = copy.copy(record)
        safe.msg, safe.args = one_line(record.getMessage()), None
        return plain_text(self._inner.format(safe)).replace("\n", "\n    ")


def make_safe(logger: logging.Logger) -> None:
    """Wrap the formatters of all handlers of a logger."""
    for handler in logger.handlers:
        handler.setFormatter(SafeLines(handler.formatter or logging.Formatter()))
