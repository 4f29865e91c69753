"""Log lines that only this program can begin.

Messages quote text from outside: API errors, the holder of a Lease, events. With a line break in it
such a text adds a line that looks like one of ours, and its control characters reach the terminal
of the person who reads the log. So the formatter makes every record safe, whatever is logged.
"""

import copy
import logging

from dijob.api.printed import one_line, plain


class SafeLines(logging.Formatter):
    """Another formatter's text, with each message in one line. The lines of a traceback follow,
    indented.
    """

    def __init__(self, inner: logging.Formatter) -> None:
        super().__init__()
        self._inner = inner

    def format(self, record: logging.LogRecord) -> str:
        safe = copy.copy(record)
        safe.msg, safe.args = one_line(record.getMessage()), None
        return plain(self._inner.format(safe)).replace("\n", "\n    ")


def make_safe(logger: logging.Logger) -> None:
    """Let all handlers of a logger write safe lines."""
    for handler in logger.handlers:
        handler.setFormatter(SafeLines(handler.formatter or logging.Formatter()))
