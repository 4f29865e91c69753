"""What a process of the operator holds: memory, sockets, children, tasks."""

import json
import re
import signal
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from cluster.waiting import until_async
from faults.pair import Pair
from faults.running import Operator

TOLD_SECONDS = 10.0
# Connections of a burst stay open where the few requests at rest (the claims of namespaces, each
# 5 s) take them in turn: aiohttp closes one after 15 s without use. A leak is more, or grows.
IN_TURN = 6
# Connections that nobody uses are closed after 15 s.
REST_SECONDS = 17.0


@dataclass(frozen=True)
class Held:
    """Tasks of asyncio by the names of their coroutines, sockets, and child processes."""

    tasks: Counter[str]
    sockets: int
    children: int

    def beyond(self, young: "Held") -> list[str]:
        """What is held that was not held before, in words; a few connections may be."""
        more = [f"{count} tasks {name}" for name, count in (self.tasks - young.tasks).items()]
        if (sockets := self.sockets - young.sockets) > IN_TURN:
            more.append(f"{sockets} sockets")
        if self.children:
            more.append(f"{self.children} children")
        return more


def rss(pid: int) -> float:
    """Resident memory in MB. OSError where the process has gone."""
    said = re.search(r"VmRSS:\s+(\d+)", Path(f"/proc/{pid}/status").read_text())
    return int(said[1]) / 1024 if said else 0.0


async def held(operator: Operator) -> Held:
    """What it holds now."""
    tasks = await _tasks(operator)
    return Held(tasks, _sockets(operator.pid), _children(operator.pid))


def _sockets(pid: int) -> int:
    files = Path(f"/proc/{pid}/fd").iterdir()
    return sum(str(file.readlink()).startswith("socket:") for file in files)


def _children(pid: int) -> int:
    return len(Path(f"/proc/{pid}/task/{pid}/children").read_text().split())


async def _tasks(operator: Operator) -> Counter[str]:
    file = operator.tasks
    assert file is not None
    file.unlink(missing_ok=True)
    operator.signal(signal.SIGUSR1)

    async def missing() -> str:
        return "" if file.exists() else "nothing said"

    await until_async("the operator's tasks", missing, TOLD_SECONDS, operator.evidence)
    said = json.loads(file.read_text())
    assert said["pid"] == operator.pid
    return Counter(said["tasks"])


async def both(two: Pair) -> dict[str, Held]:
    """What the one that acts holds, and the one that waits, when nothing happens."""
    acts = await two.holder()
    operators = {"the one that acts": two.a, "the one that waits": two.b}
    if acts == "b":
        operators = {"the one that acts": two.b, "the one that waits": two.a}
    return {who: await held(operator) for who, operator in operators.items()}


async def leaks(two: Pair, young: dict[str, Held]) -> list[str]:
    """What both still hold after a rest that they did not hold before the soak, in words."""
    found: list[str] = []

    async def missing() -> str:
        now = await both(two)
        found[:] = [f"{who}: {what}" for who in young for what in now[who].beyond(young[who])]
        return "; ".join(found)

    with suppress(AssertionError):
        await two.lane.until("nothing more than before", missing, 2 * REST_SECONDS)
    return found
