"""Writes down every change of a namespace's objects while a test acts, so that what lasts a moment can be asserted."""

import json
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from space import Body, Space


@dataclass
class Diary:
    """What a watch has shown: (seconds since the epoch, event type, object), in order."""

    entries: list[tuple[float, str, Body]] = field(default_factory=list)

    def read(self, lines: Iterator[str]) -> None:
        """Take in a stream of JSON documents, one or several lines each, until it ends."""
        decoder, rest = json.JSONDecoder(), ""
        for line in lines:
            rest += line
            if line.rstrip() != "}":  # a document ends with a brace in the first column
                continue
            event, end = decoder.raw_decode(rest)
            rest = rest[end:].lstrip()
            self.entries.append((time.time(), event["type"], event["object"]))

    def times(self, wanted: Callable[[Body], bool]) -> list[float]:
        """When objects were seen that are as wanted."""
        return [at for at, _, body in list(self.entries) if wanted(body)]


@contextmanager
def kept(space: Space, resource: str) -> Iterator[Diary]:
    """A diary of all objects of a resource in the namespace, from now until the end of the block."""
    command = [str(space.cluster.kubectl), f"--kubeconfig={space.cluster.kubeconfig}", "-n", space.name]
    watch = subprocess.Popen(
        [*command, "get", resource, "--watch", "--output-watch-events", "-o", "json"],
        stdout=subprocess.PIPE,
        text=True,
        bufsize=1,
    )
    assert watch.stdout is not None
    diary = Diary()
    reader = threading.Thread(target=diary.read, args=(watch.stdout,), daemon=True)
    reader.start()
    try:
        yield diary
    finally:
        watch.kill()
        watch.wait()
        reader.join()
        watch.stdout.close()
