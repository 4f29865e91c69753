"""The story of a run as JSON lines: printed as it happens, written to a file, and replayed."""

import json
import time
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from threading import Lock
from typing import Any

from faults.real_pods.plan import Fault

Line = dict[str, Any]
# Kinds of lines.
BEGIN, WAVE, FAULT, HEALED, QUIET, END = "begin", "wave", "fault", "healed", "quiet", "end"


@dataclass
class Story:
    """Writes the lines, from any thread. Their `time` is in seconds since the beginning."""

    path: Path
    began: float = field(default_factory=time.monotonic)
    _lock: Lock = field(default_factory=Lock)

    def tell(self, what: str, **more: object) -> None:
        """Print a line, and append it to the file."""
        line = {"time": round(time.monotonic() - self.began, 1), "what": what, **more}
        # The faults of a wave call this from several threads.
        with self._lock:
            print(in_words(line), flush=True)
            # Opened for each line, so that the file is complete even if the run is killed.
            with self.path.open("a") as file:
                file.write(json.dumps(line) + "\n")


def in_words(line: Line) -> str:
    """Return a line in readable form."""
    more = {key: value for key, value in line.items() if key not in ("time", "what")}
    # The faults of a wave are printed one by one, as they happen.
    if line["what"] == WAVE:
        more = {"number": line["number"], "faults": len(line["faults"])}
    words = (f"{key}: {value}" for key, value in more.items() if value not in ("", [], {}))
    return f"[{line['time']:6.1f} s] {line['what']}; " + ", ".join(words)


def wave(number: int, faults: Iterable[Fault]) -> Line:
    """Return the content of a WAVE line, which `replayed` reads."""
    return {"number": number, "faults": [asdict(fault) for fault in faults]}


def replayed(lines: Iterable[str]) -> list[tuple[Fault, ...]]:
    """Return the waves of a story, in order. Raise ValueError if it has none."""
    told = [json.loads(line) for line in lines if line.strip()]
    found = [tuple(Fault(**f) for f in line["faults"]) for line in told if line["what"] == WAVE]
    if not found:
        raise ValueError("the file contains no line of a wave")
    return found


def seed_of(lines: Iterable[str]) -> int:
    """Return the seed of a story."""
    return int(next(line["seed"] for line in map(json.loads, lines) if line["what"] == BEGIN))
