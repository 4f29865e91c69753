"""Judges one observation of a job: whether it is healthy and, if not, what is wrong."""

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from sockets import dialler_side, listener_side, mesh, rows, star

from faults.real_pods.shapes import PORT, REDIS_PORT, Shape, Wiring

Env = Mapping[str, str]
# While a program exchanges data, it touches a file several times a second (bodies.py).
BEAT_SECONDS = 5.0


@dataclass(frozen=True)
class Seen:
    """One pod as the apiserver and the machine show it.

    `rank` is the rank in its label, or -1 if it has no such label. `running` means that the pod is
    running, that all its containers are Ready, and that it is not being deleted. `sandbox` means
    that its pause process exists and is the child of a shim. `programs` is the number of processes
    that its launcher has started, and `envs` are the environments of all processes in its main
    container that have the job's variables. `topology` is the text of topology.json, `sockets` that
    of /proc/net/tcp and tcp6. `beat` is the number of seconds since its program last exchanged data
    with the programs of all other ranks, or None if it never did.
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
    """One observed job: its status, the pods of its ranks, and its Redis server."""

    status: Mapping[str, Any]
    pods: tuple[Seen, ...]
    server: Seen | None = None

    def condition(self, type_: str) -> Mapping[str, Any]:
        """Return the condition of a type; {} if there is none."""
        found = self.status.get("conditions") or ()
        return next((c for c in found if c["type"] == type_), {})

    @property
    def failed(self) -> bool:
        return bool(self.condition("Failed").get("status") == "True")


@dataclass(frozen=True)
class Problem:
    """A violation, with the name of the check that found it."""

    check: str
    text: str

    def __str__(self) -> str:
        return f"{self.check}: {self.text}"


@dataclass
class Checks:
    """The checks of one job. Each method yields descriptions of violations."""

    shape: Shape
    job: Job
    ips: list[str] = field(init=False)

    def __post_init__(self) -> None:
        self.ips = [pod.ip for pod in self.job.pods]

    def conditions(self) -> Iterator[str]:
        """Check that Running and PeersReady are True."""
        for type_ in ("Running", "PeersReady"):
            found = self.job.condition(type_)
            if found.get("status") != "True":
                yield f"{type_} {found.get('reason')}: {found.get('message')}"

    def pods(self) -> Iterator[str]:
        """Check that each rank has its pod, and that the pod runs in a sandbox."""
        # The pod names are derived from the job, so a pod with another name is an error even if its
        # rank is right.
        names, ranks = [p.name for p in self.job.pods], [p.rank for p in self.job.pods]
        if names != list(self.shape.pods) or ranks != list(range(len(names))):
            yield f"found pods {dict(zip(names, ranks, strict=True))}"
        server = [self.job.server] if self.job.server else []
        if self.shape.server and not server:
            yield f"{self.shape.server} is missing"
        for pod in (*self.job.pods, *server):
            if not (pod.running and pod.sandbox and pod.ip):
                yield f"{pod.name}: running {pod.running}, sandbox {pod.sandbox}, IP {pod.ip!r}"

    def programs(self) -> Iterator[str]:
        """Check that each launcher runs its program, and that the programs exchange data."""
        for pod in self.job.pods:
            if not pod.programs:
                yield f"no program runs in {pod.name}"
            elif self.shape.beats and (pod.beat is None or pod.beat > BEAT_SECONDS):
                yield f"{pod.name} has exchanged no data for {pod.beat} s"

    def environment(self) -> Iterator[str]:
        """Check that processes have the addresses of their own rank and of the ranks they dial."""
        for rank, pod in enumerate(self.job.pods):
            # Without a process that has the variables, the loop below would check nothing.
            if not pod.envs:
                yield f"no process of {pod.name} has the variables of the job"
            for env in pod.envs:
                yield from (f"{pod.name}: {said}" for said in self._known(env, rank))

    def _known(self, env: Env, rank: int) -> Iterator[str]:
        for name, wanted in (("DI_RANK", str(rank)), ("DI_POD_IP", self.ips[rank])):
            if env.get(name) != wanted:
                yield f"{name} is {env.get(name)}, not {wanted}"
        for name in ("DI_NODES", "DI_NODE_IPS"):
            known = env.get(name, "").split(",")
            # A list of a different length cannot be compared rank by rank.
            if len(known) != len(self.ips):
                yield f"{name} is {known}"
                continue
            wrong = [n for n in (*self.shape.dials(rank), rank) if known[n] != self.ips[n]]
            if wrong:
                yield f"{name} is {known}, wrong for {wrong}: the pods have {self.ips}"

    def topology(self) -> Iterator[str]:
        """Check that topology.json contains the current addresses of all pods."""
        for pod in self.job.pods:
            try:
                told = json.loads(pod.topology)["nodeIps"]
            except (ValueError, KeyError):
                told = pod.topology
            if told != self.ips:
                yield f"topology.json of {pod.name} has {told}, the pods have {self.ips}"

    def edges(self) -> Iterator[str]:
        """Check that exactly the expected connections exist, at both ends."""
        if self.shape.wiring is Wiring.REDIS:
            yield from self._with_server()
        elif self.shape.wiring is Wiring.TORCH:
            yield from self._each_with_each()
        else:
            # The sets must be equal: an additional connection would be one to an old pod.
            wanted = mesh(self.ips, 1) if self.shape.wiring is Wiring.MESH else star(self.ips)
            tables = [pod.sockets for pod in self.job.pods]
            heard = listener_side(tables, self.ips, (PORT,))
            dialled = dialler_side(tables, self.ips, (PORT,))
            if not heard == dialled == wanted:
                yield f"{dict(heard)} listening, {dict(dialled)} dialling, not {dict(wanted)}"

    def _with_server(self) -> Iterator[str]:
        table = self.job.server.sockets if self.job.server else ""
        # The server may have other clients for a moment, so only a missing client is an error.
        clients = {remote for _, port, remote, _ in rows(table) if port == REDIS_PORT}
        if absent := [ip for ip in self.ips if ip not in clients]:
            yield f"{absent} have no connection to {self.shape.server}"

    def _each_with_each(self) -> Iterator[str]:
        for pod in self.job.pods:
            peers = {remote for _, _, remote, _ in rows(pod.sockets)}
            if absent := [ip for ip in self.ips if ip not in peers and ip != pod.ip]:
                yield f"{pod.name} has no connection to {absent}"


# Maps the name of each check in the table of results to the check.
CHECKS: Mapping[str, Callable[[Checks], Iterator[str]]] = {
    "conditions": Checks.conditions,
    "pods and sandboxes": Checks.pods,
    "programs": Checks.programs,
    "/proc/PID/environ": Checks.environment,
    "topology.json": Checks.topology,
    "connections": Checks.edges,
}


def problems(shape: Shape, job: Job) -> list[Problem]:
    """Return the violations of a job; [] if it is healthy."""
    checks = Checks(shape, job)
    return [Problem(name, text) for name, check in CHECKS.items() for text in check(checks)]


def said(shape: Shape, job: Job) -> str:
    """Return what is wrong with the failure that a job reports; "" if it is correct.

    A job may fail only because backoffLimit was exceeded. Its message must name the pod that failed
    first.
    """
    failed, first = job.condition("Failed"), job.status.get("firstFailure") or {}
    # backoffLimit failures are allowed; one more fails the job.
    limit = shape.backoff_limit
    right = (
        failed.get("reason") == "BackoffLimitExceeded"
        and job.status.get("restarts") == limit + 1
        and first.get("pod") in shape.pods
        and str(first.get("pod")) in str(failed.get("message"))
    )
    return "" if right else f"{dict(failed)}, restarts {job.status.get('restarts')}, first {first}"
