"""Run by ditask.sh under the image's Python: does this rank reach each address that it dials?"""

# Python 3.7 or newer, the standard library only. NNG retries an address that refuses, but never one
# that is unroutable or has no such name: its thread ends, the port still listens, and the job hangs
# without a word. A connection that is closed at once does a listening NNG no harm.
from __future__ import annotations

import os
import socket
import struct
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from itertools import repeat

UNREACHABLE = 3
BROKER = "redis"
SAY_EVERY = 10.0


def say(text: str) -> None:
    """To the container's log."""
    print("dijob:", text, file=sys.stderr, flush=True)


def dialled(topology: str, port: str, workers: str, attach: str) -> dict[tuple[str, int], str]:
    """Address -> whose it is, for all that this rank dials by DI-engine's k8s parser."""
    # `attach` replaces all. A broker's host and port come in the places of port and workers.
    if topology == BROKER:
        return {(port, int(workers)): BROKER}
    if attach:
        links = [link.strip().rpartition(":") for link in attach.split(",") if "tcp://" in link]
        # What has no port is ditask's to complain of.
        ends = [(host.replace("tcp://", ""), end) for host, _, end in links if end.isdecimal()]
        return {(host, int(end)): "--attach-to" for host, end in ends}
    rank = int(os.environ["DI_RANK"])
    nodes = os.environ["DI_NODES"].split(",")
    below = {"mesh": rank, "star": min(rank, 1)}.get(topology, 0)
    ports = range(int(port), int(port) + int(workers))
    return {(nodes[i], each): f"rank {i}" for i in range(below) for each in ports}


def problem(address: tuple[str, int], seconds: float, broker: bool) -> str:
    """Connects once. "" when somebody is there; a peer may refuse (it is late), a `broker` not."""
    try:
        with socket.create_connection((address[0].strip("[]"), address[1]), seconds) as link:
            # Closed by a reset: no TIME_WAIT that could hold a port which this rank is about to
            # listen on.
            link.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            return redis_problem(link) if broker else ""
    except (ConnectionRefusedError, ConnectionResetError, ConnectionAbortedError) as error:
        return str(error.strerror) if broker else ""
    except OSError as error:
        return error.strerror or str(error)
    return ""


def redis_problem(link: socket.socket) -> str:
    """What a Redis server says to PING, where that is no PONG."""
    link.sendall(b"PING\r\n")
    answer = link.recv(200).decode(errors="replace").strip()
    if answer.startswith("-NOAUTH"):
        return "it asks for a password, which DI-engine does not know"
    return "" if answer == "+PONG" else f"no Redis server: it says {answer[:80]!r}"


def describe(names: dict[tuple[str, int], str], missing: dict[tuple[str, int], str]) -> str:
    """Each rank once, at most ten: a termination message holds 4 KiB."""
    lines = list({f"{names[a]} ({a[0]}": why for a, why in missing.items()}.items())
    more = f" and {len(lines) - 10} more" if len(lines) > 10 else ""
    return ", ".join(f"{who}: {why})" for who, why in lines[:10]) + more


def unreachable(names: dict[tuple[str, int], str], bound: float) -> str:
    """Tries until all are reached or `bound` seconds are over; says who is not, "" for nobody."""
    end, said = time.monotonic() + bound, -SAY_EVERY
    missing = dict.fromkeys(names, "")
    # 128 threads: one round of 1,499 peers that do not answer fits into the default bound of 60 s.
    with ThreadPoolExecutor(128) as pool:
        while True:
            # 3 s: a SYN that is lost once is repeated after 1 s. 1 s in the last round too: who is
            # slow is not gone.
            seconds = max(1.0, min(3.0, end - time.monotonic()))
            asked = list(missing)
            answers = pool.map(problem, asked, repeat(seconds), (names[a] == BROKER for a in asked))
            missing = {a: why for a, why in zip(asked, answers) if why}  # noqa: B905 strict= came with 3.10
            now = time.monotonic()
            if not missing or now >= end:
                return describe(names, missing)
            if now >= said + SAY_EVERY:
                said = now
                say(f"cannot reach {describe(names, missing)}; tries for {bound:g} s")
            time.sleep(min(0.5, max(0.0, end - now)))


def main(args: list[str]) -> int:
    """0, or UNREACHABLE after a message in the log and in the container's termination message."""
    bound = float(os.environ.get("DIJOB_REACH_SECONDS") or 60)
    lost = unreachable(dialled(*args), bound)
    if not lost:
        return 0
    what = "those pods, their nodes and network policies"
    what = "that server (spec.messageQueue)" if args[0] == BROKER else what
    text = f"rank {os.environ['DI_RANK']} cannot reach {lost}. After {bound:g} s it ends, for it"
    text += f" would hang without a word. Look at {what}"
    say(text)
    log = os.environ.get("DIJOB_TERMINATION_LOG") or "/dev/termination-log"
    # Outside a container there is none, and none is made.
    if os.access(log, os.W_OK):
        with open(log, "w") as file:
            file.write(text)
    return UNREACHABLE


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
