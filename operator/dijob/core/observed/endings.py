"""How a process ended, in words: its exit code or signal, and the line of its last output that says
why.
"""

import re
from signal import Signals

# The frames below the header of a Python traceback are indented, the exception's own line is not.
TRACEBACK = "Traceback (most recent call last):"
# torchrun's summary, whose traceback is its own (torch/distributed/elastic/multiprocessing/errors).
TORCHRUN = re.compile(
    r"Root Cause \(first observed failure\):\n.*?\(local_rank: (\d+)\)\n\s+exitcode\s*: (-?\d+)",
    re.DOTALL,
)
# A line that says something: not a rule, nor the marks under the place of an error.
MEANINGFUL = re.compile(r"[^\W_]{2,}")
HEADLINE_LIMIT = 200


def how_it_ended(exit_code: int | None, signal: int | None, reason: str, message: str) -> str:
    """The end of a process as the rest of a sentence: "exited 1: ModuleNotFoundError: No module
    named 'mymod'".

    `reason` is the kubelet's word, `message` the tail of the output or the kubelet's sentence.
    """
    said = headline(message)
    if reason == "OOMKilled":
        end = "ran out of memory (OOMKilled)"
    elif signal:
        end = f"was ended by {_signal_name(signal)}"
    elif exit_code is not None:
        end = f"exited {exit_code}"
    else:
        end = f"failed ({reason})" if reason else "failed"
    return f"{end}: {said}" if said else end


def headline(text: str) -> str:
    """The line of an output's tail that says most: the exception of the last traceback, else the
    last line with words.

    "" where no line has any. Of torchrun's summary: which of its workers failed first.
    """
    if worker := TORCHRUN.search(text):
        return (
            f"torchrun's local rank {worker[1]} exited {worker[2]}, whose own words stand further"
            " up in the log"
        )
    lines = [line.rstrip() for line in text.splitlines()]
    found = _exception(lines) or next(
        (line for line in reversed(lines) if MEANINGFUL.search(line)), ""
    )
    found = found.strip(" |")
    return found if len(found) <= HEADLINE_LIMIT else f"{found[: HEADLINE_LIMIT - 4]} ..."


def _exception(lines: list[str]) -> str:
    headers = [at for at, line in enumerate(lines) if line == TRACEBACK]
    after = lines[headers[-1] + 1 :] if headers else []
    return next((line for line in after if line[:1].strip()), "")


def _signal_name(number: int) -> str:
    try:
        return Signals(number).name
    except ValueError:
        return f"signal {number}"
