"""Measures a start on real nodes step by step, and the recovery from a lost pod: python
bench/nodes.py.

The two nodes of the test cluster share this machine, so there must be no other load on it.
"""

import argparse
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from archives import archive
from cluster import Cluster, Options, find, up
from diary import kept
from faults.lab.audit import Audit
from identity import begun, identities, until_healed
from jobs import DITASK, LIGHT, REAL_SECONDS, config_map, job, mounted
from release import install
from space import GATE, MAIN, Api, Body, Space, opened
from traces import Sources
from verdict import GATED, IP, LOSS, NAMES, PLAIN, REAL, VOLUME, VOLUME_LOSS, Findings

NAME = "bench-nodes"
IMAGES = ("light", "ditask", "launcher", "operator")
RANKS, REAL_RANKS, VICTIM = 4, 3, 2
IDLE_SECONDS = 20.0
FIRST_LINE = "date +%s.%N; exec "
# A DI-engine program that prints the same lines as light-peer: the time when it is imported, and
# the time until the kernel has a connection with every peer.
MESHED = """
import os, time

BEGIN = time.time()
print(f"started at {BEGIN:.3f}", flush=True)

def connected():
    with open("/proc/net/tcp") as table:
        rows = [line.split() for line in table][1:]
    return sum(row[3] == "01" and "C553" in (row[1][-4:], row[2][-4:]) for row in rows)  # 50515

def main():
    peers = int(os.environ["DI_NUM_NODES"]) - 1
    while connected() < peers:
        time.sleep(0.01)
    print(f"complete: {peers} edges after {time.time() - BEGIN:.3f} s", flush=True)
    time.sleep(3600)
"""


def light(name: str, **spec: Any) -> list[Body]:
    """Return a job of light peers whose first line of output is the time at which it is printed."""
    command = ["/bin/bash", "-c", f"{FIRST_LINE}light-peer --forever"]
    return [job(name, {"command": command}, **{"replicas": RANKS, "backoffLimit": 0, **spec})]


def real(name: str) -> list[Body]:
    """Return the same kind of job with DI-engine."""
    mount, volume = mounted(f"{name}-code", "/code")
    command = ["/bin/bash", "-c", f"{FIRST_LINE}ditask --package /code --main meshed.main"]
    env = [{"name": "OMP_NUM_THREADS", "value": "1"}]
    main = {"image": DITASK, "command": command, "env": env, **mount}
    code = config_map(f"{name}-code", meshed_py=MESHED)
    return [code, job(name, main, pod=volume, replicas=REAL_RANKS, backoffLimit=0)]


def plain(name: str) -> Body:
    """Return a pod without any part of the operator: an init container and a container. Gates and
    launchers are compared with it.
    """
    common = {"image": LIGHT, "imagePullPolicy": "IfNotPresent"}
    init = {**common, "name": GATE, "command": ["date"]}
    # The containers have the same names as in a rank's pod, so that the same code reads the traces.
    main = {**common, "name": MAIN, "command": ["/bin/bash", "-c", f"{FIRST_LINE}sleep 3600"]}
    # Without a grace period, because `sleep` as PID 1 ignores SIGTERM.
    spec = {"initContainers": [init], "containers": [main], "terminationGracePeriodSeconds": 0}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}


@dataclass(frozen=True)
class Lab:
    """One namespace, and the measurements in it."""

    sources: Sources
    findings: Findings

    @property
    def space(self) -> Space:
        return self.sources.space

    def start(self, entrant: str, objects: list[Body]) -> list[str]:
        """Start a job, record the times of its steps, and return the names of its pods."""
        name, ranks = objects[-1]["metadata"]["name"], objects[-1]["spec"]["replicas"]
        pods = [f"{name}-{rank}" for rank in range(ranks)]
        self.space.apply(*objects)
        begun(self.space, pods, REAL_SECONDS)
        begin = self.sources.began("create", "dijobs", name)
        self.findings.add(entrant, self.sources.start(pods, begin))
        return pods

    def remove(self, *kinds: str) -> None:
        """Remove all jobs, or all objects of these kinds, and wait until all pods are gone."""
        self.space.kubectl("delete", ",".join(kinds or ("dijobs",)), "--all", "--wait=false")
        self.space.until_gone("all", self._pods, 90)

    def _pods(self) -> list[str]:
        return self.space.kubectl("get", "pods", "-o", "name").split()

    def lose(self, entrant: str) -> None:
        """Delete a rank of a job that has just started, and record the recovery. A rank that dials
        it restarts in place.
        """
        self.space.apply(*light("world"))
        self.space.until_true("world", "PeersReady")
        before = identities(self.space, "world")
        lost = f"world-{VICTIM}"
        renewed = [f"world-{rank}" for rank in range(VICTIM, RANKS)]
        self.space.kubectl("delete", "pod", lost, "--wait=false")
        until_healed(self.space, "world", before, set(renewed), 2)
        begun(self.space, renewed)
        begin = self.sources.began("delete", "pods", lost)
        self.findings.add(entrant, self.sources.start(renewed, begin))
        self.remove()

    def start_plain(self) -> None:
        """Start as many pods as a job has, without the operator."""
        pods = [f"plain-{number}" for number in range(RANKS)]
        self.space.apply(*map(plain, pods))
        self.space.until(
            "all have begun", lambda: " ".join(pod for pod in pods if not self.space.logs(pod)), 60
        )
        begin = self.sources.began("create", "pods", pods[0])
        self.findings.add(PLAIN, self.sources.start(pods, begin))
        self.remove("pods")

    def rest(self, pods: list[str]) -> None:
        """Measure the CPU that the launchers of these pods use at rest."""
        # PID 1 of the main container is the launcher; its program is another process.
        launchers = [self.space.cluster.pids(self.space.name, pod, MAIN)[0] for pod in pods]
        before, begin = sum(map(cpu, launchers)), time.monotonic()
        time.sleep(IDLE_SECONDS)
        used, passed = sum(map(cpu, launchers)) - before, time.monotonic() - begin
        self.findings.idle = 3600 * used / passed / len(pods)


def cpu(pid: int) -> float:
    """Return the CPU seconds that the threads of a process have used. /proc/PID/schedstat counts
    nanoseconds; /proc/PID/stat would be too coarse for a launcher at rest.
    """
    threads = Path(f"/proc/{pid}/task").glob("*/schedstat")
    return sum(int(thread.read_text().split()[0]) for thread in threads) / 1e9


@contextmanager
def laboratory(cluster: Cluster, findings: Findings) -> Iterator[Lab]:
    """Open a namespace whose pods are watched."""
    with opened(cluster, Api.of(cluster), NAME) as space, kept(space, "pods") as diary:
        yield Lab(Sources(space, diary, Audit(cluster.audit_log)), findings)


def measure(cluster: Cluster, runs: int) -> Findings:
    """Run each measurement `runs` times. DI-engine's programs take longest, so they get a third of
    the runs. Delivery and channel are settings of the operator, so it is installed three times.
    """
    findings, operator = Findings(), archive("operator")
    copied = "launcher.delivery=InitContainer"
    install(cluster, operator, copied, "launcher.channel=false")
    with laboratory(cluster, findings) as lab:
        for number in range(runs):
            lab.start(GATED, light(f"gate{number}"))
            lab.remove()
            lab.start_plain()
    install(cluster, operator, copied)
    with laboratory(cluster, findings) as lab:
        for number in range(runs):
            lab.start(IP, light(f"ip{number}"))
            lab.remove()
            lab.lose(LOSS)
    # The defaults: on this cluster, they mean an image volume.
    install(cluster, operator)
    with laboratory(cluster, findings) as lab:
        for number in range(runs):
            pods = lab.start(VOLUME, light(f"volume{number}"))
            # Once is enough: the CPU at rest does not depend on the start.
            if number == runs - 1:
                lab.rest(pods)
            lab.remove()
            lab.start(NAMES, light(f"names{number}", addressing="Hostname"))
            lab.remove()
            lab.lose(VOLUME_LOSS)
        for number in range(max(1, runs // 3)):
            lab.start(REAL, real(f"real{number}"))
            lab.remove()
    return findings


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=4, help="of each kind of start (default 4)")
    parser.add_argument("--name", default=NAME, help="of the cluster; one that is up is used")
    given = parser.parse_args()
    # A cluster that was already running is used, and is not removed at the end.
    begin, before = time.monotonic(), find(given.name)
    archives = tuple(archive(image) for image in IMAGES)
    cluster = up(Options(name=given.name, images=archives))
    try:
        findings = measure(cluster, given.runs)
    finally:
        if before is None:
            cluster.down()
    print(findings.table(), "", findings.goals(), sep="\n")
    print(f"\n{given.runs} runs in {time.monotonic() - begin:.0f} s")


if __name__ == "__main__":
    main()
