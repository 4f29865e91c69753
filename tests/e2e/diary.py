"""Records what would be gone when a test looks: each change to a namespace's objects, and logs."""

import json
import subprocess
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from space import GATE, MAIN, Body, Space


@dataclass
class Diary:
    """The events of a watch in order: (seconds since the epoch, event type, object)."""

    entries: list[tuple[float, str, Body]] = field(default_factory=list)

    def read(self, lines: Iterable[str]) -> None:
        """Read a stream of JSON documents, one per line, until it ends."""
        for line in lines:
            event = json.loads(line)
            self.entries.append((time.time(), event["type"], event["object"]))


@contextmanager
def kept(space: Space, resource: str) -> Iterator[Diary]:
    """Yield a diary of all objects of a resource in the namespace, until the end of the block."""
    watch = subprocess.Popen(
        space.command("get", resource, "--watch", "--output-watch-events", "-o", "json"),
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


@contextmanager
def followed(space: Space, pod: str, into: Path, seconds: float = 60) -> Iterator[None]:
    """Write the log of the pod's main container to a file. The pod may be deleted in the block,
    which begins when kubectl has printed something: before that, kubectl may not have asked yet.
    """
    command = space.command("logs", "-f", pod, "-c", MAIN)
    with into.open("w") as log, subprocess.Popen(command, stdout=log, stderr=log) as reader:
        try:
            space.until(
                f"the log of {pod} is followed",
                lambda: "" if into.stat().st_size else "nothing printed",
                seconds,
            )
            yield
            # kubectl ends by itself when it has printed the log of a pod that has ended.
            reader.wait(90)
        finally:
            reader.kill()


def exits(diary: Diary) -> dict[str, int]:
    """Return the exit codes of main containers by pod. Deleted pods show them only briefly."""
    found = {}
    for _, _, pod in diary.entries:
        for status in pod["status"].get("containerStatuses", ()):
            ended = (status.get("state") or {}).get("terminated")
            if status["name"] == MAIN and ended:
                found[pod["metadata"]["name"]] = ended["exitCode"]
    return found


def has_gate(body: Body) -> bool:
    """Return whether the pod's gate has started or, without a gate, its launcher."""
    gated = any(one["name"] == GATE for one in body["spec"].get("initContainers") or ())
    name, kind = (GATE, "initContainerStatuses") if gated else (MAIN, "containerStatuses")
    ours = body["status"].get(kind) or ()
    state: Body = next((one["state"] for one in ours if one["name"] == name), {})
    return "running" in state or "terminated" in state
