"""Compares nng with torchrpc: run `python -m dijob_runtime.bench` in an image with DI-engine, torch
and this package.

One process (the hub) and several peers run on one machine and communicate over loopback TCP,
through DI-engine's own queue classes. nng drops messages that do not fit into its buffers. So
messages are sent in small windows, and a window is sent only after the previous one has been
acknowledged. The queues are measured alternately, so that a slow phase of the machine affects both.
The table shows medians.
"""

from __future__ import annotations

import argparse
import multiprocessing as mp
import signal
import statistics
import time
from collections import Counter
from typing import Any, Callable

BASE_PORT = 52515
KIB, MIB = 2**10, 2**20
# Each entry: bytes per message, messages per measurement, messages per window.
SIZES = ((KIB, 1600, 4), (MIB, 160, 4), (64 * MIB, 4, 1))
QUEUES = ("nng", "torchrpc:cpu")
ROUNDS = 3
MEASURE_SECONDS = 180
# Enough time to connect to a hub that is already listening.
SETTLE_SECONDS = 2.0
GO, DATA, ACK, END = "go", "data", "ack", "end"


def make_queue(kind: str, number: int, port: int) -> Any:
    """Return the queue of process `number`. The queue is already listening. All other processes
    connect to process 0, the hub.
    """
    listen, dial = f"tcp://127.0.0.1:{port + number}", [f"tcp://127.0.0.1:{port}"] if number else []
    if kind == "nng":
        from ding.framework.message_queue.nng import NNGMQ

        queue = NNGMQ(listen_to=listen, attach_to=dial)
    else:
        from dijob_runtime.torchrpc.mq import TorchRpcMQ

        queue = TorchRpcMQ(listen_to=listen, attach_to=dial, node=number)
    queue.listen()
    return queue


def run_peer(kind: str, number: int, port: int) -> None:
    """Run a peer: acknowledge each window and, on request, send a window or exit."""
    queue, data = make_queue(kind, number, port), b""
    time.sleep(SETTLE_SECONDS)
    while True:
        queue.publish(ACK, b"")
        topic, message = _receive_message(queue)
        if topic == END:
            queue.stop()
            return
        if topic == GO:
            count, size = map(int, bytes(message).split())
            data = data if len(data) == size else bytes(size)
            for _ in range(count):
                queue.publish(DATA, data)
        else:
            for _ in range(int(topic) - 1):
                queue.recv()


def _receive_message(queue: Any) -> tuple[str, Any]:
    message = queue.recv()
    assert message is not None, "the queue has ended"
    return message[0], message[1]


def one_to_all(queue: Any, peers: int, size: int, window: int) -> None:
    """Send a window from the hub to all peers, and wait for their acknowledgements."""
    data = bytes(size)
    for _ in range(window):
        queue.publish(str(window), data)
    _until_answered(queue, peers, 0)


def all_to_one(queue: Any, peers: int, size: int, window: int) -> None:
    """Request a window from each peer, and wait until all windows have arrived."""
    queue.publish(GO, f"{window} {size}".encode())
    _until_answered(queue, peers, peers * window)


def _until_answered(queue: Any, peers: int, messages: int) -> None:
    """Wait for the acknowledgements of all peers. A peer's messages arrive in order. So when
    the acknowledgement arrives, any message of this peer that is still missing has been lost.
    """
    heard: Counter[str] = Counter()
    while heard[ACK] < peers:
        heard[_receive_message(queue)[0]] += 1
    assert heard[DATA] == messages, f"{messages - heard[DATA]} of {messages} messages were lost"


Direction = Callable[[Any, int, int, int], None]
DIRECTIONS: tuple[tuple[str, Direction], ...] = (("1→N", one_to_all), ("N→1", all_to_one))


def measure_rates(kind: str, peers: int, port: int) -> dict[tuple[int, str], float]:
    """Return the messages per second for each size and direction. The rate is per peer: every peer
    receives (1→N) or sends (N→1) this many messages.
    """
    context = mp.get_context("spawn")
    others = [
        context.Process(target=run_peer, args=(kind, number, port), daemon=True)
        for number in range(1, peers + 1)
    ]
    hub = make_queue(kind, 0, port)
    for process in others:
        process.start()
    _until_answered(hub, peers, 0)
    rates = {}
    for size, messages, window in SIZES:
        for name, send in DIRECTIONS:
            send(hub, peers, size, window)  # warm-up: buffers grow, connections are established
            begin = time.perf_counter()
            for _ in range(messages // window):
                send(hub, peers, size, window)
            rates[size, name] = messages / (time.perf_counter() - begin)
    hub.publish(END, b"")
    for process in others:
        process.join(30)
    hub.stop()
    return rates


def format_table(found: dict[str, list[dict[tuple[int, str], float]]], peers: int) -> str:
    """Return the medians as a Markdown table."""
    lines = [
        (
            f"| message | direction (N = {peers}) |"
            f" {' | '.join(f'{kind}, messages/s' for kind in QUEUES)} | ratio |"
        ),
        "|---|---|---|---|---|",
    ]
    for size, _, _ in SIZES:
        for name, _ in DIRECTIONS:
            rates = [statistics.median(each[size, name] for each in found[kind]) for kind in QUEUES]
            words = f"{size // MIB} MB" if size >= MIB else f"{size // KIB} KB"
            cells = " | ".join(f"{rate:,.1f}" for rate in rates)
            lines.append(f"| {words} | {name} | {cells} | {rates[1] / rates[0]:.2f} |")
    return "\n".join(lines)


def _in_a_process_of_its_own(kind: str, peers: int, port: int, answers: Any) -> None:
    """Measure one queue. Each measurement runs in its own process, because torch allows only one
    agent per process. The alarm kills the process if it hangs.
    """
    signal.alarm(MEASURE_SECONDS)
    answers.put(measure_rates(kind, peers, port))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--peers", type=int, default=3)
    peers = parser.parse_args().peers
    found: dict[str, list[dict[tuple[int, str], float]]] = {kind: [] for kind in QUEUES}
    for number in range(ROUNDS * len(QUEUES)):
        # Each measurement uses new ports, because the previous ports may not be free yet.
        kind, context = QUEUES[number % len(QUEUES)], mp.get_context("spawn")
        answers = context.SimpleQueue()
        port = BASE_PORT + number * (peers + 1)
        hub = context.Process(target=_in_a_process_of_its_own, args=(kind, peers, port, answers))
        hub.start()
        hub.join()
        if hub.exitcode:
            raise SystemExit(f"{kind} was not measured: its hub exited with {hub.exitcode}")
        found[kind].append(answers.get())
        print(f"round {number // len(QUEUES) + 1} of {ROUNDS}: {kind} measured", flush=True)
    print(format_table(found, peers))


if __name__ == "__main__":
    main()
