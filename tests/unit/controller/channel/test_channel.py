"""The channel over real sockets: which reports the operator accepts, and how it answers them."""

import asyncio
import hmac
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any

import pytest
from dijob.controller.cache.children import Children
from dijob.controller.channel import launchers as launchers_module
from dijob.controller.channel import server as server_module
from dijob.controller.channel.launchers import NOTHING, Launchers
from dijob.controller.channel.server import ChannelServer, LauncherConnection
from dijob.core.observed.progress import ProgressReport, RankProgress
from dijob.core.observed.views import Pod
from dijob.names import GROUP
from fakes.server_lab import Standing
from samples.builders import LIST, OWNER, STARTED, view

HOME = "127.0.0.1"
ELSEWHERE = "127.0.0.2"
FIRST = {f"{GROUP}/list-number": "1", f"{GROUP}/node-ips": LIST}
SECOND = {f"{GROUP}/list-number": "2", f"{GROUP}/node-ips": LIST, f"{GROUP}/renew-from": "2"}


def pod(rank: int = 0, **fields: Any) -> Pod:
    given = {"ip": HOME, "channel_key": f"key-{rank}", "started": STARTED, "version": "1"}
    return view(rank, **{**given, **fields})


@dataclass
class Lab:
    """A channel on loopback, and the jobs that it has reported as changed."""

    launchers: Launchers
    server: ChannelServer
    port: int
    changed: list[str]
    clock: Standing
    peers: list["Peer"] = field(default_factory=list)

    async def connect(self, address: str = HOME) -> "Peer":
        given = await asyncio.open_connection(HOME, self.port, local_addr=(address, 0))
        self.peers.append(Peer(*given))
        return self.peers[-1]

    async def reported(self) -> "Peer":
        """Return the launcher of rank 0, whose first report the operator has received."""
        peer = await self.connect()
        peer.report()
        await until(lambda: self.changed)
        return peer

    def seen(self, rank: int = 0) -> Pod:
        pods = self.launchers.pods.of(OWNER)
        return next(p for p in self.launchers.views(pods) if p.rank == rank)


@dataclass
class Peer:
    """The launcher's end of a connection."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    nonces: int = 0
    reason: str = ""

    def report(self, rank: int = 0, key: str = "", **fields: Any) -> None:
        self.nonces += 1
        given = {"job": OWNER, "pod": f"job-{rank}", "ip": HOME, "nonce": f"n{self.nonces}"}
        self.send(
            json.dumps({**given, "state": "waiting", "has": {}, **fields}), key or f"key-{rank}"
        )

    def send(self, body: str, key: str, line: str = "POST /v1/report HTTP/1.1") -> None:
        made = hmac.digest(key.encode(), body.encode(), "sha256").hex()
        head = f"{line}\r\nAuthorization: dijob {made}\r\nContent-Length: {len(body)}\r\n\r\n"
        self.writer.write((head + body).encode())

    async def answer(self) -> tuple[int, dict[str, str]]:
        """Return the status and the content of the next response. Its signature must be genuine."""
        async with asyncio.timeout(5):
            head = (await self.reader.readuntil(b"\r\n\r\n")).decode()
            _, code, self.reason = head.partition("\r\n")[0].split(" ", 2)
            status = int(code)
            fields = dict(one.split(": ") for one in head.split("\r\n")[1:-2])
            body = await self.reader.readexactly(int(fields.get("Content-Length", 0)))
        if status != 200:
            return status, {}
        made = hmac.digest(b"key-0", f"n{self.nonces}\n".encode() + body, "sha256").hex()
        assert fields["Authorization"] == f"dijob {made}"
        return status, json.loads(body)

    async def is_closed(self) -> bool:
        async with asyncio.timeout(5):
            try:
                return await self.reader.read() == b""
            except ConnectionError:
                return True


@asynccontextmanager
async def channel(*pods: Pod, serving: bool = True) -> AsyncIterator[Lab]:
    """Yield a channel that knows these pods."""
    children, clock = Children.of(()), Standing()
    for each in pods:
        children.pods.put(each)
    changed: list[str] = []
    launchers = Launchers(children.pods, clock, changed.append)
    if serving:
        launchers.serve()
    launchers.listen()
    server = ChannelServer(launchers)
    listening = await asyncio.get_running_loop().create_server(
        lambda: LauncherConnection(server), HOME, 0
    )
    try:
        port = listening.sockets[0].getsockname()[1]
        lab = Lab(launchers, server, port, changed, clock)
        yield lab
    finally:
        listening.close()
        server.close()
        for peer in lab.peers:
            peer.writer.close()
            with suppress(ConnectionError):
                await peer.writer.wait_closed()
        await until(lambda: not server.open)


async def until(condition: Any) -> None:
    async with asyncio.timeout(5):
        while not condition():  # noqa: ASYNC110 (there is no event for it)
            await asyncio.sleep(0.001)


async def test_a_launcher_gets_the_list_as_soon_as_there_is_one() -> None:
    async with channel(pod()) as lab:
        peer = await lab.reported()
        lab.launchers.send(lab.seen(), FIRST)
        assert await peer.answer() == (200, {"list-number": "1", "node-ips": LIST})
        assert lab.seen().copy.address_list.number == 1
        assert lab.changed == [OWNER]


async def test_a_list_waits_for_the_launcher() -> None:
    async with channel(pod(started="")) as lab:
        lab.launchers.send(pod(started=""), FIRST)
        peer = await lab.connect()
        peer.report()
        assert (await peer.answer())[1]["list-number"] == "1"


async def test_a_state_is_reported_while_a_request_is_open() -> None:
    async with channel(pod()) as lab:
        peer = await lab.connect()
        peer.report()
        peer.report(state="ready", has=None)
        assert await peer.answer() == (204, {})
        await until(lambda: lab.seen().ready)
        lab.launchers.send(lab.seen(), FIRST)
        assert (await peer.answer())[0] == 200


async def test_after_a_restart_the_operator_learns_what_the_launcher_has() -> None:
    async with channel(pod()) as lab:
        peer = await lab.connect()
        has = {key.rpartition("/")[2]: text for key, text in SECOND.items()}
        peer.report(state="ready", has=has)
        await until(lambda: lab.changed)
        copy = lab.seen().copy
        assert (copy.address_list.number, copy.address_list.text, copy.renew_from) == (2, LIST, 2)
        # The launcher has this list already.
        lab.launchers.send(lab.seen(), SECOND)
        peer.report(state="started", has=None)
        assert await peer.answer() == (204, {})


async def test_a_list_that_comes_right_after_another_is_not_lost() -> None:
    async with channel(pod()) as lab:
        peer = await lab.reported()
        lab.launchers.send(lab.seen(), FIRST)
        # The launcher has not sent its next request yet.
        lab.launchers.send(lab.seen(), SECOND)
        assert (await peer.answer())[1]["list-number"] == "1"
        peer.report(has=None)
        assert (await peer.answer())[1]["list-number"] == "2"


async def test_a_launcher_that_lost_the_response_gets_it_again() -> None:
    async with channel(pod()) as lab:
        peer = await lab.reported()
        lab.launchers.send(lab.seen(), FIRST)
        peer.writer.close()
        again = await lab.connect()
        again.report()
        assert (await again.answer())[1]["list-number"] == "1"


async def test_a_newer_connection_replaces_the_older_one() -> None:
    async with channel(pod()) as lab:
        old = await lab.connect()
        old.report()
        await until(lambda: lab.changed)
        new = await lab.connect()
        new.report()
        assert await old.is_closed()
        lab.launchers.send(lab.seen(), FIRST)
        assert (await new.answer())[0] == 200


REFUSED: dict[str, tuple[dict[str, Any], int]] = {
    "the key of another pod": ({"key": "key-1"}, 403),
    "no key": ({"key": "x"}, 403),
    "another source address": ({"ip": ELSEWHERE}, 403),
    "a pod that does not exist": ({"rank": 7}, 503),
    "a pod with a gate": ({"rank": 2}, 403),
    "another job": ({"job": "ns/other/uid"}, 503),
    "a state that does not exist": ({"state": "asleep"}, 400),
    "a list that is no object": ({"has": [1]}, 400),
}


@pytest.mark.parametrize("case", REFUSED)
async def test_which_reports_are_refused(case: str) -> None:
    fields, status = REFUSED[case]
    async with channel(pod(), pod(1), pod(2, channel_key="")) as lab:
        peer = await lab.connect()
        peer.report(**{"key": "key-0", **fields})
        assert await peer.answer() == (status, {})
        assert await peer.is_closed()
        assert lab.changed == []


async def test_an_address_that_the_kubelet_has_not_reported_yet_is_tried_again() -> None:
    async with channel(pod(ip="10.0.0.1")) as lab:
        peer = await lab.connect()
        peer.report()
        assert await peer.answer() == (503, {})


async def test_a_report_cannot_be_repeated_from_another_pod() -> None:
    async with channel(pod()) as lab:
        peer = await lab.connect(ELSEWHERE)
        peer.report()
        assert await peer.answer() == (403, {})


async def test_a_standby_refuses_launchers() -> None:
    async with channel(pod(), serving=False) as lab:
        peer = await lab.connect()
        peer.report()
        assert await peer.answer() == (503, {})
        assert peer.reason == "this replica is a standby"


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        pytest.param("job-0\r\nA: b", "pod job-0 A: b is not known", id="a header"),
        pytest.param("job-\ud800é", r"pod job-\ud800\xe9 is not known", id="not ASCII"),
    ],
)
async def test_the_reason_of_a_refusal_is_one_line_of_ascii(name: str, reason: str) -> None:
    async with channel(pod()) as lab:
        peer = await lab.connect()
        peer.report(pod=name)
        assert await peer.answer() == (503, {})
        assert peer.reason == reason
        assert await peer.is_closed()


RAW: dict[str, tuple[bytes, int]] = {
    "another path": (b"GET / HTTP/1.1\r\nContent-Length: 0\r\n\r\n", 404),
    "no length": (b"POST /v1/report HTTP/1.1\r\n\r\n", 413),
    "a negative length": (b"POST /v1/report HTTP/1.1\r\nContent-Length: -1\r\n\r\n", 413),
    "a huge body": (b"POST /v1/report HTTP/1.1\r\nContent-Length: 999999\r\n\r\n", 413),
    "an endless header": (b"x" * 4096, 431),
    "not JSON": (b"POST /v1/report HTTP/1.1\r\nContent-Length: 2\r\n\r\n{]", 400),
    "deep JSON": (
        b"POST /v1/report HTTP/1.1\r\nContent-Length: 90000\r\n\r\n" + b"[" * 90000,
        400,
    ),
    "binary": (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(4000), 431),
}


@pytest.mark.parametrize("case", RAW)
async def test_whatever_is_sent_gets_an_error(case: str) -> None:
    data, status = RAW[case]
    async with channel(pod()) as lab:
        peer = await lab.connect()
        peer.writer.write(data)
        assert await peer.answer() == (status, {})
        assert await peer.is_closed()
        assert lab.server.buffered == 0


async def test_a_connection_without_a_report_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_module, "PROOF_SECONDS", 0.05)
    async with channel(pod()) as lab:
        slow = await lab.connect()
        slow.writer.write(b"POST /v1/report HTTP/1.1\r\n")
        assert await slow.is_closed()
        assert (lab.server.unproven, lab.server.buffered) == (0, 0)


async def test_a_launcher_cannot_flood_the_operator(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_module, "PER_SECOND", 0.0)
    async with channel(pod()) as lab:
        peer = await lab.connect()
        for _ in range(30):
            peer.report()
        statuses: list[int] = []
        while not statuses or statuses[-1] == 204:
            statuses.append((await peer.answer())[0])
        assert statuses[-1] == 429
        assert len(statuses) <= server_module.BURST + 2


@pytest.mark.parametrize("limit", ["MOST_OF_ADDRESS", "MOST_CONNECTIONS", "MOST_UNPROVEN"])
async def test_there_is_a_limit_of_connections(limit: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_module, limit, 2)
    async with channel(pod()) as lab:
        peers = [await lab.connect() for _ in range(2)]
        await until(lambda: lab.server.unproven == 2)
        third = await lab.connect()
        assert await third.is_closed()
        peers[0].writer.close()
        await until(lambda: lab.server.unproven == 1)
        last = await lab.connect()
        last.report()
        await until(lambda: lab.changed)


async def test_the_memory_of_incomplete_requests_is_limited(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(server_module, "MOST_BUFFERED", 1000)
    async with channel(pod()) as lab:
        peer = await lab.connect()
        peer.writer.write(
            b"POST /v1/report HTTP/1.1\r\nContent-Length: 90000\r\n\r\n" + bytes(2000)
        )
        assert await peer.answer() == (503, {})


async def test_a_launcher_without_a_connection_gets_annotations() -> None:
    async with channel(pod()) as lab:
        assert lab.launchers.reaches(lab.seen())
        lab.clock.seconds += launchers_module.PATIENCE_SECONDS
        assert not lab.launchers.reaches(lab.seen())


async def test_a_launcher_that_connects_late_gets_the_list_without_its_annotations() -> None:
    async with channel(pod()) as lab:
        lab.seen()
        lab.clock.seconds += launchers_module.PATIENCE_SECONDS
        assert not lab.launchers.reaches(lab.seen())
        lab.launchers.send(lab.seen(), FIRST)
        # The launcher does not have the list yet.
        assert lab.seen().copy == NOTHING
        peer = await lab.reported()
        assert (await peer.answer())[1]["list-number"] == "1"


async def test_after_the_first_such_launcher_the_others_of_its_namespace_do_not_wait() -> None:
    async with channel(pod(), pod(1)) as lab:
        assert lab.launchers.reaches(lab.seen())
        lab.clock.seconds += launchers_module.PATIENCE_SECONDS
        assert not lab.launchers.reaches(lab.seen())
        fresh = pod(2)
        lab.launchers.pods.put(fresh)
        assert not lab.launchers.reaches(fresh)
        await lab.reported()
        another = replace(fresh, uid="another")
        lab.launchers.pods.put(another)
        assert lab.launchers.reaches(another)


async def test_a_pod_that_is_gone_is_forgotten() -> None:
    async with channel(pod()) as lab:
        peer, gone = await lab.reported(), lab.seen()
        lab.launchers.pods.drop("uid-0")
        assert await peer.is_closed()
        # A reconciliation that began before may still send a list.
        lab.launchers.send(gone, FIRST)
        again = await lab.connect()
        again.report()
        assert await again.answer() == (503, {})
        assert lab.launchers.known == {}


async def test_progress_in_a_report_is_passed_on_and_triggers_no_reconciliation() -> None:
    async with channel(pod()) as lab:
        received: list[tuple[str, ProgressReport]] = []
        lab.launchers.on_progress = lambda owner, report: received.append((owner, report))
        peer = await lab.reported()
        peer.report(has=None, progress={"iteration": 7, "idleSeconds": 2})
        await until(lambda: received)
        assert received == [(OWNER, ProgressReport(iteration=7, idle_seconds=2))]
        assert lab.changed == [OWNER]


@pytest.mark.parametrize(
    "forged",
    [[1], "x", {"iteration": -1}, {"signal": "NaN"}, {"iteration": {"deep": [[]]}}, {"x": "y" * 9}],
    ids=["list", "text", "negative", "no number", "deep", "unknown"],
)
async def test_forged_progress_is_ignored_and_the_report_counts(forged: object) -> None:
    async with channel(pod()) as lab:
        received: list[ProgressReport] = []
        lab.launchers.on_progress = lambda _, report: received.append(report)
        peer = await lab.reported()
        peer.report(state="ready", has=None, progress=forged)
        assert await peer.answer() == (204, {})
        await until(lambda: lab.seen().ready)
        assert received == []


def known(lab: Lab) -> RankProgress:
    (one,) = lab.launchers.pods.of(OWNER)
    return lab.launchers.progress_of(one, lab.clock.now())


async def test_a_launcher_is_asked_for_the_stack_once_and_its_answer_is_news() -> None:
    async with channel(pod()) as lab:
        peer = await lab.reported()
        peer.report(has=None, progress={"iteration": 7, "idleSeconds": 30})
        assert await peer.answer() == (204, {})
        moved = lab.clock.now() - timedelta(seconds=30)
        assert known(lab) == RankProgress(connected=True, moved=moved, iteration=7)
        lab.clock.seconds += 60
        lab.launchers.ask_stack(*lab.launchers.pods.of(OWNER))
        status, said = await peer.answer()
        assert (status, known(lab).asked, known(lab).stack) == (200, True, None)
        lab.changed.clear()
        # The launcher repeats its progress. Rounding makes it look a second newer.
        answer = {"asked": said["stacks"], "text": "a stack"}
        peer.report(has=None, progress={"iteration": 7, "idleSeconds": 89}, stack=answer)
        await until(lambda: lab.changed)
        assert known(lab) == RankProgress(
            connected=True, moved=moved, iteration=7, asked=True, stack="a stack"
        )
        peer.report(has=None, progress={"iteration": 8, "idleSeconds": 0})
        await until(lambda: known(lab).iteration == 8)
        assert (known(lab).asked, known(lab).stack, len(lab.changed)) == (False, None, 2)


async def test_the_first_progress_is_news_only_if_the_job_is_watched_for_stalls() -> None:
    async with channel(pod()) as lab:
        peer = await lab.reported()
        lab.changed.clear()
        peer.report(has=None, progress={"iteration": 6})
        await until(lambda: known(lab).iteration == 6)
        assert lab.changed == []
        peer.report(has=None)
        await until(lambda: known(lab).moved is None)
        lab.launchers.await_progress(lab.launchers.pods.of(OWNER))
        peer.report(has=None, progress={"iteration": 7})
        await until(lambda: lab.changed)
        lab.clock.seconds += 60
        peer.report(has=None, progress={"iteration": 8})
        await until(lambda: known(lab).iteration == 8)
        assert lab.changed == [OWNER]


async def test_a_request_for_a_stack_waits_for_the_next_report() -> None:
    async with channel(pod()) as lab:
        peer = await lab.reported()
        (one,) = lab.launchers.pods.of(OWNER)
        lab.launchers.send(one, FIRST)
        assert (await peer.answer())[0] == 200
        lab.launchers.ask_stack(one)
        peer.report(has=None)
        status, said = await peer.answer()
        assert (status, said["list-number"]) == (200, "1")
        assert said["stacks"]


async def test_a_program_that_has_restarted_has_made_no_progress_yet() -> None:
    async with channel(pod()) as lab:
        peer = await lab.reported()
        peer.report(has=None, progress={"iteration": 7})
        await until(lambda: known(lab).moved)
        again = await lab.connect()
        again.report()
        await until(lambda: known(lab).moved is None)
        assert known(lab) == RankProgress(connected=True)


@pytest.mark.parametrize(
    "forged", ["x", {}, {"text": 3}, {"text": ["a"]}], ids=["text", "empty", "number", "list"]
)
async def test_a_forged_stack_is_ignored(forged: object) -> None:
    async with channel(pod()) as lab:
        peer = await lab.reported()
        lab.launchers.ask_stack(*lab.launchers.pods.of(OWNER))
        assert (await peer.answer())[0] == 200
        peer.report(state="ready", has=None, stack=forged)
        await until(lambda: lab.seen().ready)
        assert known(lab).stack is None


def these(**given: Any) -> Mapping[str, Any]:
    return given


@pytest.mark.parametrize(
    ("given", "waits"),
    [
        (these(started="2026-05-04T11:00:00Z"), True),
        (these(started=""), False),
        (these(channel_key=""), False),
        (these(number=1, ips=LIST), False),
        (these(started="2999-01-01T00:00:00Z"), False),
    ],
    ids=[
        "it ran before",
        "it has not started",
        "it has a gate",
        "its annotations have the list",
        "it is newer",
    ],
)
async def test_after_a_restart_the_operator_waits_for_launchers_that_ran_before(
    given: Mapping[str, Any], waits: bool
) -> None:
    async with channel(pod(**given)) as lab:
        pods = lab.launchers.pods.of(OWNER)
        assert (lab.launchers.seconds_to_wait(pods) > 0) is waits
        lab.clock.seconds += launchers_module.RETURN_SECONDS
        assert lab.launchers.seconds_to_wait(pods) == 0


async def test_the_time_for_launchers_to_connect_begins_when_the_port_is_open() -> None:
    """A new operator opens its port when it has listed the pods."""
    children, clock = Children.of(()), Standing()
    children.pods.put(pod(started="2026-05-04T11:00:00Z"))
    launchers = Launchers(children.pods, clock)
    launchers.serve()
    pods = launchers.pods.of(OWNER)
    for _ in range(2):
        clock.seconds += launchers_module.RETURN_SECONDS
        assert launchers.seconds_to_wait(pods) == launchers_module.RETURN_SECONDS
        # The launcher could not connect yet, so nothing is written in its place.
        assert launchers.reaches(pods[0])
    launchers.listen()
    clock.seconds += launchers_module.RETURN_SECONDS
    assert launchers.seconds_to_wait(pods) == 0
