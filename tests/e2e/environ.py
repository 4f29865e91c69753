"""Reads the real environments of processes in a pod, and computes what the README promises."""

from dataclasses import dataclass

from cluster.addresses import in_url
from space import Body, Space

# One block per process: a line with id and command, then one environment variable per line.
_SCRIPT = r"""for p in /proc/[0-9]*; do
  [ -r "$p/environ" ] || continue
  printf 'PROCESS %s ' "${p#/proc/}"; tr '\n\0' '  ' <"$p/cmdline"; echo
  tr '\n\0' ' \n' <"$p/environ"
done 2>/dev/null"""
# Variables of future versions, which must not exist yet.
LATER = ("DI_SERVER_URL",)


@dataclass(frozen=True)
class Process:
    """One process of a pod: its id in the pod, its command line, its environment."""

    pid: int
    command: str
    env: dict[str, str]

    @property
    def di(self) -> dict[str, str]:
        """Return the variables that the operator promises."""
        return {name: value for name, value in self.env.items() if name.startswith("DI_")}


def processes(space: Space, pod: str) -> list[Process]:
    """Return all processes in the main container except for the one that reads them."""
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
    """Return the first process that the launcher has started in the main container. The launcher
    itself, and processes of `kubectl exec`, do not have the variables of the peer list.
    """
    found: list[Process] = []

    def problem() -> str:
        found[:] = [each for each in processes(space, pod) if "DI_LIST_NUMBER" in each.env]
        return "" if found else "no process has the list's variables"

    space.until(f"a program runs in {pod}", problem, 120)
    return min(found, key=lambda process: process.pid)


def program(space: Space, pod: str, name: str) -> Process:
    """Wait for the process whose command line contains `name`: a container runs before its program
    does.
    """
    found: list[Process] = []

    def problem() -> str:
        found[:] = [process for process in processes(space, pod) if name in process.command]
        return (
            "" if len(found) == 1 else f"{name} in {pod}: {[process.command for process in found]}"
        )

    space.until(f"{name} runs", problem, 120)
    return found[0]


@dataclass(frozen=True)
class Shape:
    """The size of a job and its topology."""

    pods: int
    workers: int
    topology: str


def expected(job: Body, ips: list[str], rank: int, shape: Shape) -> dict[str, str]:
    """Return the variables in the README's table for one rank, from the job as the apiserver has it
    and the requested shape.
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
