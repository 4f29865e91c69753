"""A simulated apiserver on loopback with one job. Tests write the logs of its pods line by line."""

import asyncio
import json
from asyncio.subprocess import PIPE
from collections.abc import AsyncGenerator, Callable, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import yaml
from aiohttp import web
from aiohttp.typedefs import Handler
from dijob import names
from manifests import dijob

Body = dict[str, Any]
JOBS = "/apis/diengine.opendilab.org/v2alpha1/namespaces/default/dijobs"
ALL_JOBS = "/apis/diengine.opendilab.org/v2alpha1/dijobs"
PODS = "/api/v1/namespaces/default/pods"
EVENTS = "/api/v1/namespaces/default/events"
OWNER: Body = {"apiVersion": names.API_VERSION, "kind": names.KIND, "name": "test", "uid": "job"}
OWNER |= {"controller": True}


@dataclass
class Log:
    """The output of one run of a container, and whether it has ended."""

    lines: list[str] = field(default_factory=list)
    ended: bool = False


class Kubelets:
    """A job and its pods. Each change wakes all watches and logs."""

    def __init__(self) -> None:
        self.version = 1
        self._states: dict[int, dict[str, Body]] = {}
        """The objects by version and path."""
        self.job: Body | None = dijob("test", {"image": "x"}, replicas=2)
        self.job["metadata"] |= {"namespace": "default", "uid": "job", "resourceVersion": "1"}
        self.pods: dict[str, Body] = {}
        self.logs: dict[str, list[Log]] = {}
        self.changed = asyncio.Condition()
        self.broken = 0
        """How often a log's connection is cut after its next line."""
        self.busy = 0
        """How many requests for the job are rejected with 429."""
        self.programs: tuple[str, ...] = ("tar", "test")
        """The programs on this machine that containers can run."""
        self.looked = ""
        """The output of an ephemeral container; "" for one that never runs."""
        self.forbidden: set[str] = set()
        """Paths that the user may not list."""
        self.down = ""
        """The error of every request for the version; "" while the apiserver is healthy."""

    async def change(self) -> None:
        self.version += 1
        self._states[self.version] = {path: self._copy(path) for path in (JOBS, PODS)}
        async with self.changed:
            self.changed.notify_all()

    async def start(self, rank: int, uid: str = "") -> None:
        """Start the pod of a rank, or restart its container."""
        name = f"test-{rank}"
        uid = uid or f"uid-{rank}"
        before = self.pods.get(name)
        if before is None or before["metadata"]["uid"] != uid:
            self.logs[name] = []
        self.logs[name].append(Log())
        state = {"name": "di-container", "restartCount": len(self.logs[name]) - 1}
        self.pods[name] = {
            "metadata": {
                "name": name,
                "namespace": "default",
                "uid": uid,
                "ownerReferences": [OWNER],
            },
            "spec": {"containers": [{"name": "di-container"}]},
            "status": {"containerStatuses": [{**state, "state": {"running": {}}}]},
        }
        await self.change()

    async def say(self, rank: int, at: float, text: str) -> None:
        """Print a line at a time, in seconds."""
        moment = datetime.fromtimestamp(at, UTC)
        self.logs[f"test-{rank}"][-1].lines.append(f"{moment:%Y-%m-%dT%H:%M:%S.%fZ} {text}")
        await self.change()

    async def stop(self, rank: int) -> None:
        """End the container."""
        self.logs[f"test-{rank}"][-1].ended = True
        state = self.pods[f"test-{rank}"]["status"]["containerStatuses"][0]
        state["state"] = {"terminated": {"exitCode": 0}}
        await self.change()

    async def remove(self, rank: int) -> None:
        """Remove the pod, and end its container."""
        self.logs[f"test-{rank}"][-1].ended = True
        del self.pods[f"test-{rank}"]
        await self.change()

    async def finish(self) -> None:
        """Let the job succeed."""
        assert self.job is not None
        kinds = ("Succeeded", "Finished")
        conditions = [{"type": kind, "status": "True", "message": "done"} for kind in kinds]
        self.job["status"] = {"phase": "Succeeded", "conditions": conditions}
        await self.change()

    async def objects(self, request: web.Request) -> web.StreamResponse:
        """Serve a list, or a watch that sends all objects again after each change, and those that
        were deleted since the version of the request.
        """
        if request.path in self.forbidden:
            message = f'events is forbidden: User "u" cannot list {request.path}'
            return web.json_response({"message": message, "reason": "Forbidden"}, status=403)
        if request.query.get("watch"):
            return await self._watch(request)
        items = list(self._now(request.path).values())
        meta = {"resourceVersion": str(self.version)}
        return web.json_response({"items": items, "metadata": meta})

    async def one(self, request: web.Request) -> web.StreamResponse:
        if self.busy:
            self.busy -= 1
            return web.json_response({}, status=429, headers={"Retry-After": "0"})
        if self.job is None:
            return web.json_response({"message": "gone"}, status=404)
        return web.json_response(self.job)

    async def log(self, request: web.Request) -> web.StreamResponse:
        if request.query["container"] != "di-container":
            return web.Response(text=self.looked)
        runs = self.logs.get(request.match_info["name"], [])
        at = len(runs) - (2 if request.query.get("previous") else 1)
        if at < 0:
            return web.json_response({"message": "no such container"}, status=400)
        response = web.StreamResponse()
        await response.prepare(request)
        log, since, done = runs[at], request.query.get("sinceTime", ""), 0
        while True:
            for line in log.lines[done:]:
                if line[:19] >= since[:19]:
                    await response.write(line.encode() + b"\n")
                    if self.broken:
                        self.broken -= 1
                        assert request.transport is not None
                        request.transport.abort()
                        return response
            done = len(log.lines)
            if log.ended or not request.query.get("follow"):
                return response
            async with self.changed:
                if done == len(log.lines) and not log.ended:
                    await self.changed.wait()

    async def add(self, request: web.Request) -> web.StreamResponse:
        """Add an ephemeral container, which ends immediately if it has an output."""
        (made,) = (await request.json())["spec"]["ephemeralContainers"]
        pod = self.pods[request.match_info["name"]]
        state: Body = {"terminated": {"exitCode": 0}} if self.looked else {"waiting": {}}
        row = {"name": made["name"], "state": state}
        pod["status"].setdefault("ephemeralContainerStatuses", []).append(row)
        await self.change()
        return web.json_response(pod)

    async def execute(self, request: web.Request) -> web.StreamResponse:
        """Run a command: `cat` returns its input, `false` fails, `tar` and `test` are those of this
        machine, and anything else is rejected.
        """
        command = request.query.getall("command")
        if "*/*" not in request.headers["Accept"]:
            return web.json_response({"message": "Not Acceptable"}, status=406)
        if command[0] not in ("cat", "false", *self.programs):
            message = 'pods "test-0" is forbidden: you cannot create pods/exec'
            return web.json_response({"message": message, "reason": "Forbidden"}, status=403)
        socket = web.WebSocketResponse(protocols=("v5.channel.k8s.io",))
        await socket.prepare(request)
        ended: Body = {"status": "Success"}
        if command[0] in self.programs:
            ended = await _run(socket, command)
        elif command[0] == "false":
            await socket.send_bytes(b"\x02it fails")
            cause = {"reason": "ExitCode", "message": "3"}
            ended = {"status": "Failure", "details": {"causes": [cause]}}
        elif request.query.get("stdin"):
            async for frame in socket:
                if frame.data == b"\xff\x00":
                    break
                await socket.send_bytes(b"\x01" + frame.data[1:])
        await socket.send_bytes(b"\x03" + json.dumps(ended).encode())
        await socket.close()
        return socket

    async def _watch(self, request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        since = int(request.query.get("resourceVersion") or 0)
        before: Body = self._states.get(since, {}).get(request.path, {})
        while True:
            version, now = self.version, self._copy(request.path)
            gone = [("DELETED", before[name]) for name in before.keys() - now.keys()]
            for kind, body in [*gone, *(("MODIFIED", body) for body in now.values())]:
                body["metadata"]["resourceVersion"] = str(version)
                event = json.dumps({"type": kind, "object": body})
                await response.write(event.encode() + b"\n")
            before = now
            await self._after(version)

    async def _after(self, version: int) -> None:
        async with self.changed:
            await self.changed.wait_for(lambda: self.version > version)

    def _copy(self, path: str) -> Body:
        found: Body = json.loads(json.dumps(self._now(path)))
        return found

    def _now(self, path: str) -> dict[str, Body]:
        if path == EVENTS:
            return {}
        if path == PODS:
            return self.pods
        return {} if self.job is None else {"test": self.job}


async def _run(socket: web.WebSocketResponse, command: list[str]) -> Body:
    """Run a program of this machine with the input of the socket, and return its status."""
    process = await asyncio.create_subprocess_exec(*command, stdin=PIPE, stdout=PIPE, stderr=PIPE)
    assert process.stdin is not None

    async def feed(pipe: asyncio.StreamWriter) -> None:
        async for frame in socket:
            if frame.data == b"\xff\x00":
                break
            pipe.write(frame.data[1:])
            await pipe.drain()
        pipe.close()

    feeder = asyncio.create_task(feed(process.stdin))
    assert process.stdout is not None
    assert process.stderr is not None
    try:
        out, errors = await asyncio.gather(process.stdout.read(), process.stderr.read())
        for channel, text in ((b"\x01", out), (b"\x02", errors)):
            if text:
                await socket.send_bytes(channel + text)
        code = await process.wait()
    finally:
        feeder.cancel()
        await asyncio.gather(feeder, return_exceptions=True)
        # If the client has gone, sending fails, and only this closes the pipes. Otherwise a later
        # test fails with the garbage collector's warning about them. asyncio has no public way.
        process._transport.close()  # type: ignore[attr-defined]
        # It kills a program that still runs, and does not wait for its end.
        await process.wait()
    if not code:
        return {"status": "Success"}
    cause = {"reason": "ExitCode", "message": str(code)}
    return {"status": "Failure", "details": {"causes": [cause]}}


def _version(made: Kubelets) -> Handler:
    async def version(request: web.Request) -> web.StreamResponse:
        if made.down:
            return web.json_response({"message": made.down}, status=503)
        return web.json_response({"major": "1"})

    return version


@asynccontextmanager
async def kubelets(
    tmp_path: Any, more: Callable[[Kubelets], Iterable[web.RouteDef]] = lambda made: ()
) -> AsyncGenerator[tuple[Kubelets, str]]:
    """Serve the apiserver with `more` routes, and write a kubeconfig for it."""
    made = Kubelets()
    app = web.Application(client_max_size=2**24)
    app.router.add_get(JOBS, made.objects)
    app.router.add_get(ALL_JOBS, made.objects)
    app.router.add_get(f"{JOBS}/test", made.one)
    app.router.add_get(EVENTS, made.objects)
    app.router.add_get("/version", _version(made))
    app.router.add_get(PODS, made.objects)
    app.router.add_get(f"{PODS}/{{name}}/log", made.log)
    app.router.add_get(f"{PODS}/{{name}}/exec", made.execute)
    app.router.add_patch(f"{PODS}/{{name}}/ephemeralcontainers", made.add)
    app.add_routes(more(made))
    runner = web.AppRunner(app, handler_cancellation=True, shutdown_timeout=0)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    host, port = runner.addresses[0][:2]
    named = {"name": "c", "cluster": {"server": f"http://{host}:{port}"}}
    context = {"name": "c", "context": {"cluster": "c", "user": "c"}}
    user = {"name": "c", "user": {"token": "t"}}
    config = {"clusters": [named], "contexts": [context], "users": [user], "current-context": "c"}
    file = tmp_path / "kubeconfig"
    file.write_text(yaml.safe_dump(config))
    try:
        yield made, str(file)
    finally:
        await runner.cleanup()
