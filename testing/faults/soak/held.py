"""The resources of an operator process: memory, sockets, child processes and asyncio tasks."""

import json
import re
import signal
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from cluster.waiting import until_async

from faults.lab.pair import Pair
from faults.lab.running import Operator

TOLD_SECONDS = 10.0
# Some connections from a burst stay open. aiohttp closes a connection only after 15 s without use,
# and even the few requests of an idle operator (the namespace claims, every 5 s) use these
# connections in turn. A leak would be larger.
IN_TURN = 6
# Unused connections are closed after 15 s.
REST_SECONDS = 17.0


@dataclass(frozen=True)
class Held:
    """asyncio tasks (by the name of their coroutine), sockets, and child processes."""

    tasks: Counter[str]
    sockets: int
    children: int

    def beyond(self, young: "Held") -> list[str]:
        """Describe what is held in addition to `young`; up to IN_TURN additional sockets are
        tolerated.
        """
        more = [f"{count} tasks {name}" for name, count in (self.tasks - young.tasks).items()]
        if (sockets := self.sockets - young.sockets) > IN_TURN:
            more.append(f"{sockets} sockets")
        # The operator starts no child processes, so any child is an error.
        if self.children:
            more.append(f"{self.children} children")
        return more


def rss(pid: int) -> float:
    """Return the resident memory in MB. Raise OSError if the process has ended."""
    said = re.search(r"VmRSS:\s+(\d+)", Path(f"/proc/{pid}/status").read_text())
    return int(said[1]) / 1024 if said else 0.0


async def held(operator: Operator) -> Held:
    """Return the resources that the operator holds now."""
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
    # An old file could be mistaken for the answer to this signal.
    file.unlink(missing_ok=True)
    operator.signal(signal.SIGUSR1)

    async def missing() -> str:
        return "" if file.exists() else "no answer"

    await until_async("the operator's tasks", missing, TOLD_SECONDS, operator.evidence)
    said = json.loads(file.read_text())
    assert said["pid"] == operator.pid
    return Counter(said["tasks"])


async def both(two: Pair) -> dict[str, Held]:
    """Return the resources of the leader and of the standby."""
    acts = await two.holder()
    # Leader and standby hold different resources, so they are compared by role, not by name.
    operators = {"leader": two.a, "standby": two.b}
    if acts == "b":
        operators = {"leader": two.b, "standby": two.a}
    return {who: await held(operator) for who, operator in operators.items()}


async def leaks(two: Pair, young: dict[str, Held]) -> list[str]:
    """Describe what the operators hold after a rest but did not hold before the soak."""
    found: list[str] = []

    async def missing() -> str:
        now = await both(two)
        found[:] = [f"{who}: {what}" for who in young for what in now[who].beyond(young[who])]
        return "; ".join(found)

    # Connections that are still being closed are not leaks, so this waits for a while. After the
    # wait, all remaining differences are returned, and no exception is raised.
    with suppress(AssertionError):
        await two.lane.until("nothing more than before", missing, 2 * REST_SECONDS)
    return found
