"""Reads what processes in a pod really have in their environment, and says what the README promises
them.
"""

from dataclasses import dataclass

from cluster.addresses import in_url
from space import Body, Space

# One block a process: a line with its id and command, then its environment, a variable a line.
_SCRIPT = r"""for p in /proc/[0-9]*; do
  [ -r "$p/environ" ] || continue
  printf 'PROCESS %s ' "${p#/proc/}"; tr '\n\0' '  ' <"$p/cmdline"; echo
  tr '\n\0' ' \n' <"$p/environ"
done 2>/dev/null"""
# What later work adds; until then nothing may claim to.
LATER = ("DI_SERVER_URL",)


@dataclass(frozen=True)
class Process:
    """One process of a pod: its id there, its command line, its environment."""

    pid: int
    command: str
    env: dict[str, str]

    @property
    def di(self) -> dict[str, str]:
        """The variables of the contract."""
        return {name: value for name, value in self.env.items() if name.startswith("DI_")}


def processes(space: Space, pod: str) -> list[Process]:
    """All processes in the main container, but for the one that reads them."""
    found: list[Process] = []
    for line in space.execute(pod, "sh", "-c", _SCRIPT).splitlines():
        if line.startswith("PROCESS "):
            _, pid, command = line.split(" ", 2)
            found.append(Process(int(pid), command, {}))
        elif "=" in line:
            name, _, value = line.partition("=")
            found[-1].env[name] = value
    return [process for process in found if "PROCESS" not in process.command]


def first(space: Space, pod: str) -> Process:
    """The first process that the launcher has started in the main container. The launcher itself
    does not have the variables of the address list, nor has what `kubectl exec` starts.
    """
    found: list[Process] = []

    def problem() -> str:
        found[:] = [each for each in processes(space, pod) if "DI_LIST_NUMBER" in each.env]
        return "" if found else "no process has the list's variables"

    space.until(f"a program runs in {pod}", problem, 30)
    return min(found, key=lambda process: process.pid)


def program(space: Space, pod: str, name: str) -> Process:
    """The one process whose command line has `name` in it; a container runs before its program
    does.
    """
    found: list[Process] = []

    def problem() -> str:
        found[:] = [process for process in processes(space, pod) if name in process.command]
        return (
            "" if len(found) == 1 else f"{name} in {pod}: {[process.command for process in found]}"
        )

    space.until(f"{name} runs", problem, 30)
    return found[0]


@dataclass(frozen=True)
class Shape:
    """How big a job's world is, and who dials whom in it."""

    pods: int
    workers: int
    topology: str


def expected(job: Body, ips: list[str], rank: int, shape: Shape) -> dict[str, str]:
    """The README's table for one rank, from the apiserver's view of the job and the shape that was
    asked.
    """
    first = rank * shape.workers
    return {
        "DI_JOB_ID": job["metadata"]["uid"],
        "DI_JOB_NAME": job["metadata"]["name"],
        "DI_JOB_NAMESPACE": job["metadata"]["namespace"],
        "DI_RANK": str(rank),
        "DI_NODES": ",".join(map(in_url, ips)),
        "DI_NODE_IPS": ",".join(ips),
        "DI_NODE_IDS": ",".join(str(first + worker) for worker in range(shape.workers)),
        "DI_WORLD_SIZE": str(shape.pods * shape.workers),
        "DI_NUM_NODES": str(shape.pods),
        "DI_PARALLEL_WORKERS": str(shape.workers),
        "DI_TOPOLOGY": shape.topology,
        "DI_LABELS": "",
        "DI_LIST_NUMBER": str(job["status"]["listNumber"]),
        "DI_POD_IP": ips[rank],
    }
