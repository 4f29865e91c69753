"""The floor: the same four processes, started by hand on the two nodes with containerd's own
client, without Kubernetes. A process that ends is started again at once.
"""

import subprocess
import threading
import time
from pathlib import Path

from cluster import Cluster
from cluster.namespace import enter
from cluster.node import BINARIES, SOCKET, Node
from jobs import DITASK

from compared.program import BEGIN, CODE, CONNECTED, RANKS
from compared.record import Connected, parse

NAME = "by hand"
PORT = 29500
# This folder is in the node's own /var.
SOURCE = "/var/tmp/peers"


class Processes:
    """A group without Kubernetes. Ranks 0 and 1 are on the first node, 2 and 3 on the second."""

    def __init__(self, cluster: Cluster) -> None:
        self.nodes = [cluster.node(cluster.nodes[2 * rank // RANKS]) for rank in range(RANKS)]
        self.folder = cluster.state / "by-hand"
        self.folder.mkdir(exist_ok=True)
        self.ended = threading.Event()
        self.threads: list[threading.Thread] = []
        # The number of starts of each rank. The output of an earlier start is not read.
        self.starts = [0] * RANKS
        self.mark = time.time_ns() // 1_000_000 % 100_000_000
        for node in self.nodes:
            code = node.state / node.name / SOURCE.lstrip("/")
            code.mkdir(parents=True, exist_ok=True)
            (code / "connected.py").write_text(CONNECTED.files["connected_py"])

    def start(self) -> None:
        for rank in range(RANKS):
            thread = threading.Thread(target=self._supervise, args=(rank,), daemon=True)
            thread.start()
            self.threads.append(thread)

    def lines(self) -> list[Connected]:
        logs = (self._log(rank) for rank in range(RANKS))
        found = (parse(log.read_text()) for log in logs if log.exists())
        return [line for line in found if line]

    def lose(self, rank: int) -> None:
        self._kill(rank)

    def settled(self) -> None:
        """Return immediately: nothing happens after the last connection."""

    def state(self) -> str:
        return f"starts of the ranks: {self.starts}"

    def remove(self) -> None:
        self.ended.set()
        for rank in range(RANKS):
            self._kill(rank)
        for thread in self.threads:
            thread.join(60)

    def _supervise(self, rank: int) -> None:
        while not self.ended.is_set():
            self.starts[rank] += 1
            with self._log(rank).open("w") as log:
                subprocess.run(self._command(rank), stdout=log, stderr=log, check=False)

    def _log(self, rank: int) -> Path:
        return self.folder / f"{self._id(rank)}.log"

    def _id(self, rank: int) -> str:
        return f"rank-{rank}-{self.starts[rank]}-{self.mark}"

    def _ctr(self, node: Node, *arguments: str) -> list[str]:
        client = [f"{BINARIES}/ctr", f"--address={SOCKET}", "--namespace=k8s.io"]
        return [*enter(node.holder), *client, *arguments]

    def _command(self, rank: int) -> list[str]:
        node = self.nodes[rank]
        env = {
            "MASTER_ADDR": self.nodes[0].addresses[0],
            "MASTER_PORT": PORT,
            "RANK": rank,
            "WORLD_SIZE": RANKS,
            "OMP_NUM_THREADS": 1,
            # The name of the machine does not resolve to the address of the node.
            "GLOO_SOCKET_IFNAME": "eth0",
        }
        script = f"{BEGIN}\n{CONNECTED.command}"
        return self._ctr(
            node,
            *("run", "--rm", "--net-host", f"--cgroup={node.cgroup}/{self._id(rank)}"),
            *(f"--env={name}={value}" for name, value in env.items()),
            f"--mount=type=bind,src={SOURCE},dst={CODE},options=rbind:ro",
            *(f"docker.io/{DITASK}", self._id(rank), "/bin/bash", "-c", script),
        )

    def _kill(self, rank: int) -> None:
        command = self._ctr(self.nodes[rank], "tasks", "kill", "--signal=SIGKILL", self._id(rank))
        # The process may have ended already.
        subprocess.run(command, capture_output=True, check=False)
