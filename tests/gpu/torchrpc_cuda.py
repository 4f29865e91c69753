"""torchrpc between GPUs: checks that need a GPU, and a table of rates. With DI-engine 0.5.3, torch
and pynng installed:

    PYTHONPATH=images/dijob-runtime python tests/gpu/torchrpc_cuda.py

Each node is a separate process that runs DI-engine's Parallel.runner as ditask does, on real ports
of the loopback interface. Node n uses GPU n if the machine has that many GPUs; with one GPU, all
nodes share it. Each check prints a line. The exit code is 1 if a check has failed. `--rehearse`
runs the same checks with tensors on the CPU, except those that need a GPU.
"""

from __future__ import annotations

import argparse
import multiprocessing as mp
import os
import queue
import socket
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

KIB, MIB = 2**10, 2**20
ANSWER_SECONDS = 240.0
# No call of emit may take longer, whatever has happened to the peer.
EMIT_SECONDS = 30.0
BURST, BURST_NUMBERS = 300, MIB
# (bytes, messages in one measurement)
SIZES = ((KIB, 200), (MIB, 100), (64 * MIB, 10), (512 * MIB, 3))
ROUNDS = 2
# The size in bytes of an event that does not fit on a GPU with only half of this free.
TOO_MUCH = 2 * 2**30
# The clock cycles for which a GPU is kept busy before it writes the emitted data: about a second.
BUSY_CYCLES = 2_000_000_000


# ---------------------------------------------------------------------------- what is sent


def made(kind: str, device: str, seed: int) -> Any:
    """Return the same values in every process: values on the GPU come from the CPU's generator."""
    generator = torch.Generator().manual_seed(seed)

    def some(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
        return (torch.rand(shape, generator=generator) * 100).to(dtype).to(device)

    if kind == "tensor":
        return some(64, 1024)
    if kind == "nested":
        return {
            "list": [some(3, 4), (some(5, dtype=torch.float16), some(0)), {"deep": some()}],
            "index": some(7, dtype=torch.int64),
            "mask": some(9) > 50,
            "brain": some(6, dtype=torch.bfloat16),
            "a view": some(40, 60).t()[3:],
            "number": seed,
        }
    if kind == "plain":
        return {
            "on the CPU": torch.rand(12, generator=generator),
            "numpy": torch.rand(300, 200, generator=generator).double().numpy(),
            "words": ["a", None, {"b": (1, 2.5)}, {3}, b"c" * seed],
        }
    if kind == "grad":
        leaf = some(8).requires_grad_()
        return {"leaf": leaf, "result": leaf * 2, "parameter": torch.nn.Parameter(some(3))}
    torch.manual_seed(seed)
    return model().to(device).state_dict()


def model() -> torch.nn.Module:
    return torch.nn.Sequential(
        torch.nn.Linear(64, 256), torch.nn.BatchNorm1d(256), torch.nn.Linear(256, 8)
    )


def differences(found: Any, expected: Any, device: str, at: str = "it") -> Iterator[str]:
    """Describe the differences between received and sent data. `expected` is on the CPU."""
    if type(found) is not type(expected):
        yield f"{at} is a {type(found).__name__}, not a {type(expected).__name__}"
    elif isinstance(expected, torch.Tensor):
        wanted = (device, expected.dtype, expected.shape, expected.requires_grad)
        got = (str(found.device), found.dtype, found.shape, found.requires_grad)
        if got != wanted:
            yield f"{at} is {got}, not {wanted}"
        elif not torch.equal(found.detach().cpu(), expected.detach()):
            yield f"{at} has other values"
    elif isinstance(expected, dict | list | tuple):
        mine, its = _parts(expected), _parts(found)
        if list(mine) != list(its):
            yield f"{at} has {list(its)}, not {list(mine)}"
        for key in mine.keys() & its.keys():
            yield from differences(its[key], mine[key], device, f"{at}[{key!r}]")
    elif hasattr(expected, "dtype"):  # numpy's
        if found.dtype != expected.dtype or found.tolist() != expected.tolist():
            yield f"{at} has other values"
    elif found != expected:
        yield f"{at} is {found!r}, not {expected!r}"


def _parts(whole: Any) -> dict[Any, Any]:
    return dict(whole) if isinstance(whole, dict) else dict(enumerate(whole))


# ---------------------------------------------------------------------------- in each process


@dataclass(frozen=True)
class Spec:
    """One process of a world. `device` has its own tensors."""

    number: int
    queue: str
    device: str
    port: int
    dials: tuple[int, ...]
    log: str
    cuda_map: str = ""
    named: str = ""
    rehearsed: bool = False


def begin(spec: Spec, pipe: Any) -> None:
    """Do what ditask does, then execute the commands from the pipe."""
    os.dup2(os.open(spec.log, os.O_WRONLY | os.O_CREAT | os.O_APPEND), 2)
    from dijob_runtime.torchrpc import runner
    from ding.framework import Parallel

    runner.install(runner.Flags(spec.cuda_map, spec.named))
    if spec.rehearsed:
        from dijob_runtime.torchrpc import direct

        direct.install(True)
    Parallel.runner(
        n_parallel_workers=1,
        mq_type=spec.queue,
        protocol="tcp",
        address="127.0.0.1",
        ports=spec.port,
        attach_to=[f"tcp://127.0.0.1:{port}" for port in spec.dials],
        topology="mesh",
        node_ids=[spec.number],
    )(serve, spec, pipe)


def serve(spec: Spec, pipe: Any) -> None:
    """Execute the commands from the pipe until it sends the end."""
    from ding.framework import Parallel

    actor = Actor(spec, Parallel())
    while True:
        name, args = pipe.recv()
        if name == "end":
            return
        try:
            pipe.send(("", getattr(actor, name)(*args)))
        except Exception as error:
            pipe.send((f"{type(error).__name__}: {error}", None))


class Actor:
    """The commands of a process, each by its name."""

    def __init__(self, spec: Spec, router: Any) -> None:
        self.spec = spec
        self.router = router
        self.heard: list[Any] = []
        self.hello: set[int] = set()
        self.burst: list[tuple[int, int, str]] = []
        self.acks: queue.Queue[int] = queue.Queue()
        self.held: list[torch.Tensor] = []
        # DI-engine's own executor has two threads, so two events can be handled in another order.
        router._event_loop._thread_pool = ThreadPoolExecutor(1)
        for name in ("heard", "hello", "burst", "data", "ack"):
            router.on(name, getattr(self, f"on_{name}"))

    def on_heard(self, what: Any) -> None:
        self.heard.append(what)

    def on_hello(self, number: int) -> None:
        self.hello.add(number)

    def on_burst(self, number: int, tensor: torch.Tensor) -> None:
        """Compute the sum at once, on this thread's stream: data that has not arrived yet has
        another sum.
        """
        self.burst.append((number, int(tensor.sum()), str(tensor.device)))

    def on_data(self, tensor: torch.Tensor) -> None:
        _wait_for(tensor.to(self.spec.device))
        self.router.emit("ack", 0)

    def on_ack(self, number: int) -> None:
        self.acks.put(number)

    def meet(self, others: list[int]) -> bool:
        """Wait until events of each of these nodes have arrived, and send them events meanwhile."""
        self.hello.clear()
        end = time.monotonic() + ANSWER_SECONDS / 2
        while not self.hello >= set(others) and time.monotonic() < end:
            self.router.emit("hello", self.spec.number)
            time.sleep(0.1)
        for _ in range(5):
            self.router.emit("hello", self.spec.number)
            time.sleep(0.1)
        return self.hello >= set(others)

    def emit(self, kind: str, seed: int) -> float:
        """Emit an event, and return how long it took."""
        what = made(kind, self.spec.device, seed)
        started = time.perf_counter()
        self.router.emit("heard", what)
        return time.perf_counter() - started

    def emit_and_overwrite(self, seed: int) -> None:
        """Emit data that the GPU is still computing, and overwrite it right afterwards."""
        what = made("tensor", self.spec.device, seed)
        expected = what.clone()
        what.zero_()
        if what.is_cuda:
            torch.cuda._sleep(BUSY_CYCLES)
        what.copy_(expected)
        words = ["as emitted"]
        for _ in range(3):  # the later ones wait until the first has arrived
            self.router.emit("heard", {"tensor": what, "words": words})
        what.zero_()
        words.append("afterwards")

    def emit_burst(self) -> None:
        for number in range(BURST):
            ones = torch.ones(BURST_NUMBERS, dtype=torch.int32, device=self.spec.device)
            self.router.emit("burst", number, ones * number)

    def emit_zeros(self, count: int) -> float:
        started = time.perf_counter()
        self.router.emit("heard", torch.zeros(count, dtype=torch.uint8, device=self.spec.device))
        return time.perf_counter() - started

    def wait_heard(self, count: int, seconds: float = 60.0) -> int:
        return _until(lambda: len(self.heard), count, seconds)

    def wait_burst(self) -> int:
        return _until(lambda: len(self.burst), BURST, 60.0)

    def burst_problem(self, device: str) -> str:
        for number, found in enumerate(self.burst):
            expected = (number, number * BURST_NUMBERS, device)
            if found != expected:
                return f"event {number} is {found}, not {expected}"
        return ""

    def compare(self, kind: str, seeds: list[int], device: str) -> str:
        """Compare the events since the last comparison; "" if they are as expected."""
        heard, self.heard = self.heard, []
        if len(heard) != len(seeds):
            return f"{len(heard)} events have come, not {len(seeds)}"
        for what, seed in zip(heard, seeds, strict=True):
            for difference in differences(what, made(kind, "cpu", seed), device):
                return f"event {seed}: {difference}"
        return ""

    def compare_overwritten(self, seed: int, device: str) -> str:
        heard, self.heard = self.heard, []
        expected = {"tensor": made("tensor", "cpu", seed), "words": ["as emitted"]}
        return "; ".join(each for what in heard for each in differences(what, expected, device))

    def load_model(self, seed: int) -> str:
        """Load the last event into a model, which must compute the same as the emitter's."""
        mine, other = (model().to(self.spec.device).eval() for _ in range(2))
        mine.load_state_dict(self.heard[-1])
        other.load_state_dict(made("model", self.spec.device, seed))
        given = torch.ones(4, 64, device=self.spec.device)
        return "" if torch.equal(mine(given), other(given)) else "the models differ"

    def forget(self) -> None:
        self.heard.clear()

    def free(self) -> int:
        return int(torch.cuda.mem_get_info(self.spec.device)[0])

    def hold(self, count: int) -> None:
        """Occupy GPU memory, so that no other process can have it."""
        self.held.append(torch.empty(count, dtype=torch.uint8, device=self.spec.device))

    def let_go(self) -> None:
        """Return the memory to torch's cache, so that this process can use it again."""
        self.held.clear()

    def exchange(self, size: int, count: int) -> float:
        """Return the seconds per event with a GPU tensor, until the peer has it on its GPU and
        responds.
        """
        tensor = torch.zeros(size, dtype=torch.uint8, device=self.spec.device)
        for number in range(count + 1):
            if number == 1:  # the first event creates connections and buffers
                started = time.perf_counter()
            self.router.emit("data", tensor if "cuda" in self.spec.queue else tensor.cpu())
            self.acks.get(timeout=ANSWER_SECONDS / 2)
        return (time.perf_counter() - started) / count


def _until(value: Callable[[], int], least: int, seconds: float) -> int:
    end = time.monotonic() + seconds
    while value() < least and time.monotonic() < end:
        time.sleep(0.02)
    return value()


def _wait_for(tensor: torch.Tensor) -> None:
    if tensor.is_cuda:
        torch.cuda.current_stream(tensor.device).synchronize()


# ---------------------------------------------------------------------------- a world of them


class Failed(Exception):
    """A problem that a check has found, as a sentence."""


class Node:
    """Controls one process through its pipe."""

    def __init__(self, spec: Spec) -> None:
        self.spec = spec
        context = mp.get_context("spawn")
        self._pipe, theirs = context.Pipe()
        self.process = context.Process(target=begin, args=(spec, theirs), daemon=True)
        self.process.start()
        theirs.close()

    def ask(self, name: str, *args: Any) -> Any:
        self.tell(name, *args)
        return self.answer(name)

    def tell(self, name: str, *args: Any) -> None:
        try:
            self._pipe.send((name, args))
        except OSError as error:
            raise Failed(f"node {self.spec.number} has ended before {name}") from error

    def answer(self, name: str) -> Any:
        if not self._pipe.poll(ANSWER_SECONDS):
            raise Failed(f"node {self.spec.number} does not answer {name}")
        try:
            problem, value = self._pipe.recv()
        except EOFError:
            self.process.join(10)
            raise Failed(
                f"node {self.spec.number} has ended with {self.process.exitcode} at {name}:"
                f" {self.said[-600:]}"
            ) from None
        if problem:
            raise Failed(f"node {self.spec.number}, {name}: {problem}")
        return value

    @property
    def said(self) -> str:
        return Path(self.spec.log).read_text(errors="replace")

    def kill(self) -> None:
        self.process.kill()
        self.process.join()

    def end(self) -> None:
        try:
            self.tell("end")
            self.process.join(20)
        except Failed:
            pass
        self.kill()


@dataclass
class Place:
    """The GPUs, the folder and the logs of a run, from which worlds are built."""

    gpus: int
    folder: str
    logs: list[str] = field(default_factory=list)

    @property
    def queue(self) -> str:
        return "torchrpc:cuda" if self.gpus else "torchrpc:cpu"

    def device(self, number: int) -> str:
        return f"cuda:{number % self.gpus}" if self.gpus else "cpu"

    def cuda_map(self, number: int, others: range) -> str:
        """Return the device map from this node's GPU to that of each other node."""
        count = self.gpus or 1
        return ",".join(
            f"{other}_{number % count}_{other % count}" for other in others if other != number
        )

    def specs(self, nodes: int, **changes: Any) -> list[Spec]:
        """Return the nodes of a mesh: each node dials all earlier ones."""
        ports, made_ = _free_ports(nodes), []
        for number in range(nodes):
            self.logs.append(f"{self.folder}/{len(self.logs)}")
            given = {
                "queue": self.queue,
                "cuda_map": self.cuda_map(number, range(nodes)) if self.gpus else "",
                "rehearsed": not self.gpus,
                **changes,
            }
            dials, log = tuple(ports[:number]), self.logs[-1]
            made_.append(
                Spec(
                    number,
                    given.pop("queue"),
                    self.device(number),
                    ports[number],
                    dials,
                    log,
                    **given,
                )
            )
        return made_


@contextmanager
def running(specs: list[Spec]) -> Iterator[list[Node]]:
    """Start processes, and wait until they know each other."""
    nodes = [Node(spec) for spec in specs]
    try:
        meet(nodes)
        yield nodes
    finally:
        for node in nodes:
            node.end()


def meet(nodes: list[Node]) -> None:
    numbers = [node.spec.number for node in nodes]
    for node in nodes:
        node.tell("meet", [number for number in numbers if number != node.spec.number])
    for node in nodes:
        if not node.answer("meet"):
            raise Failed(f"node {node.spec.number} does not hear all others: {node.said[-600:]}")


def _free_ports(count: int) -> list[int]:
    probes = [socket.socket() for _ in range(count)]
    for probe in probes:
        probe.bind(("127.0.0.1", 0))
    ports = [int(probe.getsockname()[1]) for probe in probes]
    for probe in probes:
        probe.close()
    return ports


# ---------------------------------------------------------------------------- the checks

# The name of a check, and what is wrong ("" if nothing is).
Results = Iterator[tuple[str, str]]


def events_arrive(place: Place) -> Results:
    """Check events between two processes."""
    with running(place.specs(2)) as (one, other):
        for kind, words in (("tensor", "tensors"), ("nested", "tensors in dicts, lists, tuples")):
            yield f"{words} arrive on the peer's GPU", _sent(one, other, kind)
        yield "and in the other direction", _sent(other, one, "nested")
        yield "CPU tensors, numpy arrays and objects arrive as they are", _sent(one, other, "plain")
        yield "requires_grad and parameters arrive", _sent(one, other, "grad")
        yield "a model's state_dict arrives", _sent(one, other, "model")
        one.ask("emit", "model", 3)
        other.ask("wait_heard", 1)
        yield "a model that loads it computes the same", other.ask("load_model", 3)
        other.ask("forget")
        one.ask("emit_and_overwrite", 4)
        other.ask("wait_heard", 3)
        problem = other.ask("compare_overwritten", 4, other.spec.device)
        yield "an event is as it was when it was emitted, whatever follows", problem
        one.ask("emit_burst")
        other.ask("wait_burst")
        problem = other.ask("burst_problem", other.spec.device)
        yield f"{BURST} events with 4 MB each arrive complete and in order", problem


def a_process_comes_back(place: Place) -> Results:
    """Kill a process, and start it again with the same node ID."""
    specs = place.specs(2)
    with running(specs) as nodes:
        one, other = nodes
        problem = _sent(one, other, "tensor")
        other.kill()
        took = max(one.ask("emit", "tensor", seed) for seed in range(20))
        took = max(took, one.ask("emit_zeros", 64 * MIB))
        late = "" if took < EMIT_SECONDS else f"emit took {took:.0f} s"
        yield f"a sender whose peer was killed goes on (emit took {took:.2f} s at most)", late
        nodes[1] = other = Node(specs[1])
        meet(nodes)
        other.ask("forget")
        problem = problem or _sent(one, other, "nested") or _sent(other, one, "nested")
        yield "a process that comes back is sent to, and sends", problem


def three_in_a_mesh(place: Place) -> Results:
    with running(place.specs(3)) as nodes:
        for sender in nodes:
            others = [node for node in nodes if node is not sender]
            sender.ask("emit", "nested", 5)
            problems = [_compared(node, "nested", [5]) for node in others]
            yield f"three in a mesh: both others hear node {sender.spec.number}", _first(problems)
        nodes[2].kill()
        problem = _sent(nodes[0], nodes[1], "nested") or _sent(nodes[1], nodes[0], "nested")
        yield "two of three that are left hear each other", problem


def a_process_without_gpus(place: Place) -> Results:
    """Combine torchrpc:cpu with torchrpc:cuda, outside and inside the device map."""
    for title, map_ in (("", place.cuda_map(0, range(2))), (", and is mapped", None)):
        specs = place.specs(3)
        specs[2] = _changed(specs[2], queue="torchrpc:cpu", cuda_map="", device="cpu")
        if map_ is not None:
            specs[0] = _changed(specs[0], cuda_map=map_)
            specs[1] = _changed(specs[1], cuda_map=place.cuda_map(1, range(2)))
        with running(specs) as nodes:
            nodes[0].ask("emit", "nested", 6)
            problem = _compared(nodes[1], "nested", [6]) or _compared(nodes[2], "nested", [6])
            yield f"a torchrpc:cpu process{title} hears GPUs' tensors on its CPU", problem
            nodes[2].ask("emit", "nested", 7)
            problems = [_compared(node, "nested", [7], "cpu") for node in nodes[:2]]
            yield f"and is heard{title}", _first(problems)
            if map_ is None:
                yield (
                    "which is said",
                    _says(nodes[0], "of node 2, which accepts tensors only on the CPU"),
                )


def a_map_that_does_not_fit(place: Place) -> Results:
    """Map to a GPU that the peer lacks, on which it accepts no tensors, or that is not here."""
    far = place.gpus
    specs = place.specs(2)
    specs[0] = _changed(specs[0], cuda_map=f"1_0_{far}")
    with running(specs) as (one, other):
        one.ask("emit", "nested", 8)
        problem = _compared(other, "nested", [8], "cpu")
        yield "a map to a GPU that the peer lacks: tensors go by way of the CPU", problem
        yield "which is said", _says(one, f"names GPU {far} of node 1, which has {place.gpus}")
        yield "the peer's own map is none the worse", _sent(other, one, "nested")
    for words, changes in (
        (f"names local GPU {far}, but this process has", {"cuda_map": f"1_{far}_0"}),
        ("--local-cuda-devices names GPU", {"named": str(far)}),
    ):
        node = Node(_changed(place.specs(1)[0], **changes))
        node.process.join(ANSWER_SECONDS)
        problem = _says(node, words) if node.process.exitcode == 1 else "it did not end with 1"
        yield f"ends with a sentence: {words}", problem
        node.kill()


def memory(place: Place) -> Results:
    """Send more than fits on the peer's GPU. The third process is on the CPU: with one GPU it would
    share the peer's, and have no room either.
    """
    specs = place.specs(3)
    specs[0] = _changed(specs[0], cuda_map=place.cuda_map(0, range(2)))
    specs[1] = _changed(specs[1], cuda_map=place.cuda_map(1, range(2)))
    specs[2] = _changed(specs[2], queue="torchrpc:cpu", cuda_map="", device="cpu")
    with running(specs) as nodes:
        sender, full, third = nodes
        size = TOO_MUCH
        sender.ask("hold", 2 * size)  # the emitted data, and the copy that is sent
        sender.ask("let_go")
        full.ask("hold", full.ask("free") - size // 2)
        took = sender.ask("emit_zeros", size)
        title = f"{size / 2**30:.0f} GB for a peer without room: emit took {took:.1f} s"
        yield title, "" if took < EMIT_SECONDS else "too long"
        full.process.join(10)  # it may end because of the error, or continue
        ended = full.process.exitcode
        fate = "lives" if ended is None else f"has ended ({ended})"
        print(f"      the peer without room {fate}; it says: {full.said.strip()[-300:]!r}")
        third.ask("wait_heard", 1)
        yield "the sender goes on, and a third hears it", _sent(sender, third, "tensor")


def _sent(one: Node, other: Node, kind: str) -> str:
    """Check events between three processes."""
    other.ask("forget")
    for seed in (1, 2, 3):
        one.ask("emit", kind, seed)
    return _compared(other, kind, [1, 2, 3])


def _compared(node: Node, kind: str, seeds: list[int], device: str = "") -> str:
    node.ask("wait_heard", len(seeds))
    where = "cpu" if kind == "plain" else device or node.spec.device
    return str(node.ask("compare", kind, seeds, where))


def _says(node: Node, words: str) -> str:
    return "" if words in node.said else f"it says: {node.said.strip()[-600:]}"


def _changed(spec: Spec, **changes: Any) -> Spec:
    return Spec(**{**spec.__dict__, **changes})


def _first(problems: list[str]) -> str:
    return next(filter(None, problems), "")


# ---------------------------------------------------------------------------- rates


def rates(place: Place) -> str:
    """Return a Markdown table: MB/s of tensors that are sent from GPU to GPU."""
    queues = ["torchrpc:cuda", "torchrpc:cpu", "nng"] if place.gpus else ["torchrpc:cpu", "nng"]
    sizes = [each for each in SIZES if place.gpus or each[0] <= 64 * MIB]
    found: dict[tuple[str, int], list[float]] = {}
    for _ in range(ROUNDS):
        for kind in queues:
            map_ = {} if kind == "torchrpc:cuda" else {"cuda_map": "", "rehearsed": False}
            with running(place.specs(2, queue=kind, **map_)) as (one, _other):
                for size, count in sizes:
                    found.setdefault((kind, size), []).append(one.ask("exchange", size, count))
    lines = [
        f"| tensor | {' | '.join(f'{kind}, ms (MB/s)' for kind in queues)} | ratios to the first |",
        f"|---|{'---|' * len(queues)}---|",
    ]
    for size, _ in sizes:
        seconds = [statistics.median(found[kind, size]) for kind in queues]
        words = f"{size // MIB} MB" if size >= MIB else f"{size // KIB} KB"
        cells = " | ".join(f"{each * 1e3:,.2f} ({size / each / MIB:,.1f})" for each in seconds)
        ratios = ", ".join(f"{each / seconds[0]:.2f}" for each in seconds[1:])
        lines.append(f"| {words} | {cells} | {ratios} |")
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--rehearse", action="store_true", help="on the CPU, without a GPU")
    parser.add_argument("--no-rates", action="store_true", help="the checks alone")
    parser.add_argument("--no-checks", action="store_true", help="the table of rates alone")
    flags = parser.parse_args()
    gpus = 0 if flags.rehearse else torch.cuda.device_count()
    if not gpus and not flags.rehearse:
        print("no GPU here; --rehearse takes the same way on the CPU")
        return 1
    names = {torch.cuda.get_device_name(number) for number in range(gpus)} or {"CPU"}
    print(f"torch {torch.__version__}, {gpus} GPUs ({', '.join(sorted(names))})", flush=True)
    checks: list[Callable[[Place], Results]] = [
        events_arrive,
        a_process_comes_back,
        three_in_a_mesh,
    ]
    if gpus:
        checks += [a_process_without_gpus, a_map_that_does_not_fit, memory]
    failed = 0
    with tempfile.TemporaryDirectory() as folder:
        place = Place(gpus, folder)
        for check in () if flags.no_checks else checks:
            failed += _report(check, place)
        if not flags.no_rates:
            print(rates(place), flush=True)
    print(f"{failed} failed" if failed else "all passed")
    return 1 if failed else 0


def _report(check: Callable[[Place], Results], place: Place) -> int:
    """Print one line per check, and return how many have failed."""
    failed = 0
    try:
        for title, problem in check(place):
            failed += bool(problem)
            print(f"FAIL  {title}: {problem}" if problem else f"pass  {title}", flush=True)
    except Failed as error:
        failed += 1
        print(f"FAIL  {check.__name__}: {error}", flush=True)
    return failed


if __name__ == "__main__":
    sys.exit(main())
