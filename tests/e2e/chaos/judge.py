"""Judges one look at a job: whether it is whole, and what is missing where it is not."""

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from sockets import dialler_side, listener_side, mesh, rows, star

from chaos.shapes import PORT, REDIS_PORT, Shape, Wiring

Env = Mapping[str, str]
# Programs that work together write it down several times a second.
BEAT_SECONDS = 5.0


@dataclass(frozen=True)
class Seen:
    """One pod as the apiserver and the machine show it.

    `rank`: of its label, -1 without one. `running`: it runs, all its containers are Ready, and
    nobody deletes it. `sandbox`: its pause process is there, and below a shim. `programs`: the
    processes that its launcher has started. `envs`: the environments of all processes of its main
    container that know the job. `topology`: the text of topology.json. `sockets`: /proc/net/tcp
    and tcp6. `beat`: for how many seconds its program has not worked with the others, None where it
    never has.
    """

    name: str
    uid: str
    ip: str
    rank: int
    running: bool
    sandbox: bool = False
    programs: int = 0
    envs: tuple[Env, ...] = ()
    topology: str = ""
    sockets: str = ""
    beat: float | None = None


@dataclass(frozen=True)
class Job:
    """One job as it is seen: its status, its ranks' pods, its Redis server."""

    status: Mapping[str, Any]
    pods: tuple[Seen, ...]
    server: Seen | None = None

    def condition(self, type_: str) -> Mapping[str, Any]:
        """A condition, {} where it has none of that type."""
        found = self.status.get("conditions") or ()
        return next((c for c in found if c["type"] == type_), {})

    @property
    def failed(self) -> bool:
        return bool(self.condition("Failed").get("status") == "True")


@dataclass(frozen=True)
class Problem:
    """Something that is not as it has to be, by the check that has found it."""

    check: str
    text: str

    def __str__(self) -> str:
        return f"{self.check}: {self.text}"


@dataclass
class Checks:
    """What each check looks at, and what it says about it."""

    shape: Shape
    job: Job
    ips: list[str] = field(init=False)

    def __post_init__(self) -> None:
        self.ips = [pod.ip for pod in self.job.pods]

    def conditions(self) -> Iterator[str]:
        """Running and PeersReady are True."""
        for type_ in ("Running", "PeersReady"):
            found = self.job.condition(type_)
            if found.get("status") != "True":
                yield f"{type_} {found.get('reason')}: {found.get('message')}"

    def pods(self) -> Iterator[str]:
        """Each rank has its pod, which runs in a sandbox of its own."""
        names, ranks = [p.name for p in self.job.pods], [p.rank for p in self.job.pods]
        if names != list(self.shape.pods) or ranks != list(range(len(names))):
            yield f"there are {dict(zip(names, ranks, strict=True))}"
        server = [self.job.server] if self.job.server else []
        if self.shape.server and not server:
            yield f"there is no {self.shape.server}"
        for pod in (*self.job.pods, *server):
            if not (pod.running and pod.sandbox and pod.ip):
                yield f"{pod.name} runs: {pod.running}, in a sandbox: {pod.sandbox}, at {pod.ip!r}"

    def programs(self) -> Iterator[str]:
        """Each launcher has its program, and the programs work together."""
        for pod in self.job.pods:
            if not pod.programs:
                yield f"no program runs in {pod.name}"
            elif self.shape.beats and (pod.beat is None or pod.beat > BEAT_SECONDS):
                yield f"{pod.name} works with nobody for {pod.beat} s"

    def environment(self) -> Iterator[str]:
        """What processes know of themselves and of those that they dial are the pods' addresses."""
        for rank, pod in enumerate(self.job.pods):
            if not pod.envs:
                yield f"no process of {pod.name} knows its job"
            for env in pod.envs:
                yield from (f"{pod.name}: {said}" for said in self._known(env, rank))

    def _known(self, env: Env, rank: int) -> Iterator[str]:
        for name, wanted in (("DI_RANK", str(rank)), ("DI_POD_IP", self.ips[rank])):
            if env.get(name) != wanted:
                yield f"{name} is {env.get(name)}, not {wanted}"
        for name in ("DI_NODES", "DI_NODE_IPS"):
            known = env.get(name, "").split(",")
            if len(known) != len(self.ips):
                yield f"{name} is {known}"
                continue
            wrong = [n for n in (*self.shape.dials(rank), rank) if known[n] != self.ips[n]]
            if wrong:
                yield f"{name} is {known}, wrong for {wrong}: the pods have {self.ips}"

    def topology(self) -> Iterator[str]:
        """topology.json has the addresses of all pods."""
        for pod in self.job.pods:
            try:
                told = json.loads(pod.topology)["nodeIps"]
            except (ValueError, KeyError):
                told = pod.topology
            if told != self.ips:
                yield f"{pod.name} is told {told}: the pods have {self.ips}"

    def edges(self) -> Iterator[str]:
        """The connections are those that they have to be, at both ends."""
        if self.shape.wiring is Wiring.REDIS:
            yield from self._with_server()
        elif self.shape.wiring is Wiring.TORCH:
            yield from self._each_with_each()
        else:
            wanted = mesh(self.ips, 1) if self.shape.wiring is Wiring.MESH else star(self.ips)
            tables = [pod.sockets for pod in self.job.pods]
            heard = listener_side(tables, self.ips, (PORT,))
            dialled = dialler_side(tables, self.ips, (PORT,))
            if not heard == dialled == wanted:
                yield f"{dict(heard)} listening, {dict(dialled)} dialling, not {dict(wanted)}"

    def _with_server(self) -> Iterator[str]:
        table = self.job.server.sockets if self.job.server else ""
        clients = {remote for _, port, remote, _ in rows(table) if port == REDIS_PORT}
        if absent := [ip for ip in self.ips if ip not in clients]:
            yield f"{absent} have no connection to {self.shape.server}"

    def _each_with_each(self) -> Iterator[str]:
        for pod in self.job.pods:
            peers = {remote for _, _, remote, _ in rows(pod.sockets)}
            if absent := [ip for ip in self.ips if ip not in peers and ip != pod.ip]:
                yield f"{pod.name} has no connection to {absent}"


# By the names that the table has for them.
CHECKS: Mapping[str, Callable[[Checks], Iterator[str]]] = {
    "conditions": Checks.conditions,
    "pods and sandboxes": Checks.pods,
    "programs": Checks.programs,
    "/proc/PID/environ": Checks.environment,
    "topology.json": Checks.topology,
    "connections": Checks.edges,
}


def problems(shape: Shape, job: Job) -> list[Problem]:
    """What is missing for the job to be whole; [] where it is."""
    checks = Checks(shape, job)
    return [Problem(name, text) for name, check in CHECKS.items() for text in check(checks)]


def said(shape: Shape, job: Job) -> str:
    """What is wrong with how a job that has failed says why; "" where it does so.

    The only end that is right is that by its own limit. The message names the pod whose failure was
    the first.
    """
    failed, first = job.condition("Failed"), job.status.get("firstFailure") or {}
    limit = shape.backoff_limit
    right = (
        failed.get("reason") == "BackoffLimitExceeded"
        and job.status.get("restarts") == limit + 1
        and first.get("pod") in shape.pods
        and str(first.get("pod")) in str(failed.get("message"))
    )
    return "" if right else f"{dict(failed)}, restarts {job.status.get('restarts')}, first {first}"
