"""Each command works with exactly the permissions of docs/platform.md, and sends no other request.

The users are impersonated. Simulated nodes have no containers, so commands that read logs or run
programs in pods fail after the API server has permitted their request.
"""

import asyncio
import json
import re
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import aclosing, contextmanager, nullcontext
from dataclasses import dataclass, field
from functools import partial
from http import HTTPStatus
from pathlib import Path
from typing import Any

import pytest
import yaml
from apiserver.plane import NAMESPACE, Body, Plane, job
from click.testing import CliRunner
from cluster.waiting import until_true
from dijob.cli.main import group
from dijob.client import AsyncClient
from dijob.client.connection import ClientConnection, ClientRequest
from dijob_extras.stacks import take
from dijob_extras.ui.hub import Hub
from planes import ROOT

pytestmark = pytest.mark.apiserver

# (resource, verb, whether in the whole cluster)
Right = tuple[str, str, bool]
GROUPS = {
    "dijobs": "diengine.opendilab.org",
    "leases": "coordination.k8s.io",
    "networkpolicies": "networking.k8s.io",
    "poddisruptionbudgets": "policy",
    "priorityclasses": "scheduling.k8s.io",
    "storageclasses": "storage.k8s.io",
}
METRICS = "metrics.k8s.io"
VERBS = {"POST": "create", "PATCH": "patch", "DELETE": "delete"}
# The API server checks these in addition to the request's own verb: server-side apply of a new
# object, and a WebSocket to a subresource.
IMPLIED: tuple[tuple[Right, Right], ...] = (
    (("dijobs", "patch", False), ("dijobs", "create", False)),
    (("configmaps", "patch", False), ("configmaps", "create", False)),
    (("pods/exec", "get", False), ("pods/exec", "create", False)),
)
# A list that the user may not read is not watched, and without nodes no pods are listed. These
# users have both columns, so that the commands send all their requests.
WITH_BOTH = ("watch", "ui", "explain")
# Commands that update an existing job create none.
UPDATES = ("suspend", "resume")


def rights_in(cell: str) -> set[Right]:
    """Return the permissions of a cell such as `pods list, watch; nodes list (cluster)`."""
    found = set[Right]()
    for part in filter(None, map(str.strip, cell.split(";"))):
        resource, _, verbs = part.removesuffix(" (cluster)").partition(" ")
        found |= {(resource, verb, part.endswith("(cluster)")) for verb in verbs.split(", ")}
    return found


def table() -> dict[str, tuple[set[Right], set[Right]]]:
    """Return what each command needs and also uses, from the page."""
    page = (ROOT / "docs/platform.md").read_text()
    rows = re.findall(
        r"^\| ([^|]+?) \|([^|]*)\|([^|]*)\|$", page.partition("## The cluster")[0], re.M
    )
    return {name: (rights_in(needs), rights_in(uses)) for name, needs, uses in rows[1:]}


TABLE = table()


def user_of(command: str) -> str:
    return re.sub(r"[^a-z]+", "-", command).strip("-")


def group_of(resource: str) -> str:
    return METRICS if METRICS in resource else GROUPS.get(resource.partition("/")[0], "")


def grants(command: str, needs: set[Right]) -> Iterator[Body]:
    """Yield the roles of a user who has exactly these permissions."""
    user = user_of(command)
    for cluster in (False, True):
        mine = sorted((resource, verb) for resource, verb, wide in needs if wide is cluster)
        kind = "ClusterRole" if cluster else "Role"
        meta = {"name": f"can-{user}", **({} if cluster else {"namespace": NAMESPACE})}
        rules = [
            {
                "apiGroups": [group_of(resource)],
                "resources": [resource.removesuffix(f".{METRICS}")],
                "verbs": [verb],
            }
            for resource, verb in mine
        ]
        api = "rbac.authorization.k8s.io"
        yield {"apiVersion": f"{api}/v1", "kind": kind, "metadata": meta, "rules": rules}
        yield {
            "apiVersion": f"{api}/v1",
            "kind": f"{kind}Binding",
            "metadata": meta,
            "roleRef": {"apiGroup": api, "kind": kind, "name": f"can-{user}"},
            "subjects": [{"apiGroup": api, "kind": "User", "name": user}],
        }


@dataclass
class Requests:
    """The permissions that the requests of a command needed, and those that it lacked."""

    sent: set[Right] = field(default_factory=set)
    denied: set[Right] = field(default_factory=set)

    def add(self, call: ClientRequest, status: int) -> None:
        if right := right_of(call):
            self.sent.add(right)
            if status == HTTPStatus.FORBIDDEN:
                self.denied.add(right)


def right_of(call: ClientRequest) -> Right | None:
    """Return the permission that a request needs; None for the discovery, which all users have."""
    api, *parts = call.path.strip("/").split("/")
    parts = parts[1:] if api == "api" else parts[2:]
    inside = len(parts) > 2 and parts[0] == "namespaces"
    if not (parts := parts[2:] if inside else parts):
        return None
    resource, name, below = (*parts, "", "")[:3]
    watches = dict(call.query).get("watch") in ("1", "true")
    reads = "watch" if watches else "get" if name else "list"
    verb = VERBS.get(call.method, reads)
    # The only resource whose name another group uses, too.
    kind = f"{resource}.{METRICS}" if f"/{METRICS}/" in call.path else resource
    return f"{kind}/{below}" if below else kind, verb, not inside


@pytest.fixture
def requests(monkeypatch: pytest.MonkeyPatch) -> Requests:
    """Record all requests of the client."""
    found = Requests()
    send, shake = ClientConnection._request, ClientConnection._shake_hands

    async def recorded(self: ClientConnection, call: ClientRequest, *more: Any) -> Any:
        response = await send(self, call, *more)
        found.add(call, response.status)
        return response

    async def shaken(self: ClientConnection, call: ClientRequest) -> Any:
        found.add(call, HTTPStatus.OK)
        return await shake(self, call)

    monkeypatch.setattr(ClientConnection, "_request", recorded)
    monkeypatch.setattr(ClientConnection, "_shake_hands", shaken)
    # Nothing runs py-spy here.
    monkeypatch.setattr(take, "_SECONDS", 2)
    return found


@pytest.fixture(scope="module")
def users(plane: Plane) -> Plane:
    """Return the cluster with a user for each command."""
    rights = {
        name: needs | uses if name in WITH_BOTH else needs for name, (needs, uses) in TABLE.items()
    }
    plane.apply(*(one for name, given in rights.items() for one in grants(name, given)))
    return plane


JOB = "permitted"
# A job whose pods need an object of each kind that `explain` looks up.
NEEDING = {
    "serviceAccountName": "x",
    "priorityClassName": "x",
    "volumes": [
        {"name": "a", "configMap": {"name": "x"}},
        {"name": "b", "secret": {"secretName": "x"}},
        {"name": "c", "persistentVolumeClaim": {"claimName": "x"}},
        {
            "name": "d",
            "ephemeral": {
                "volumeClaimTemplate": {
                    "spec": {
                        "storageClassName": "x",
                        "accessModes": ["ReadWriteOnce"],
                        "resources": {"requests": {"storage": "1Gi"}},
                    }
                }
            },
        },
    ],
}


def on_volume(name: str) -> Body:
    """Return a job whose path /data is on a volume, from which `cp` copies without the rank."""
    body = job(name)
    pod = body["spec"]["template"]["spec"]
    # Pods with a claim would wait for a volume.
    pod["volumes"] = [{"name": "data", "nfs": {"server": "example", "path": "/"}}]
    pod["containers"][0]["volumeMounts"] = [{"name": "data", "mountPath": "/data"}]
    return body


def config_of(plane: Plane, command: str, folder: Path) -> Path:
    """Return a kubeconfig that impersonates the user of a command."""
    config = yaml.safe_load(Path(plane.cluster.kubeconfig).read_text())
    config["users"][0]["user"]["as"] = user_of(command)
    path = folder / "config"
    path.write_text(yaml.safe_dump(config))
    return path


def expected(command: str) -> set[Right]:
    needs, uses = TABLE[command]
    return needs | uses


def complete(command: str, requests: Requests) -> set[Right]:
    """Return the permissions of the requests with those that the API server also checks, and with
    those of the watches that were left out because a list was denied, or because the pod ran at the
    first look.
    """
    more = {also for one, also in IMPLIED if one in requests.sent and command not in UPDATES}
    if command in WAITS_FOR_A_POD:
        more.add(("pods", "watch", False))
    watched = {(resource, "watch", wide) for resource, _, wide in requests.denied}
    return requests.sent | more | (watched & TABLE[command][1])


# Each command in an order in which it works, and its arguments.
COMMANDS = {
    "run": ["run", "permitted-run", "--image", "example/x", "--", "sh"],
    "run --code": ["run", "permitted-code", "--image", "example/x", "--code", "{}", "--", "sh"],
    "run --code --replace": ["run", "permitted-code", "--code", "{}", "--replace", "--no-follow"],
    "list": ["list"],
    "get": ["get", JOB],
    "report": ["report", JOB],
    "logs": ["logs", JOB],
    "topology": ["topology", JOB],
    "doctor": ["doctor", JOB],
    "doctor --stacks": ["doctor", JOB, "--stacks"],
    "cp": ["cp", f"{JOB}:/data/x", "{}/x"],
    "drill": ["drill", JOB, "--yes", "--timeout", "60s"],
    "scale": ["scale", JOB, "--replicas", "2"],
    "suspend": ["suspend", JOB],
    "cp (the rank does not run)": ["cp", f"{JOB}:/data/x", "{}/x"],
    "resume": ["resume", JOB],
    "restart": ["restart", JOB],
    "delete": ["delete", JOB],
}
WAITS_FOR_A_POD = {"cp (the rank does not run)"}
HELD = "test.dijob/held"
# The jobs that commands delete.
DELETED = {"delete": JOB, "restart": JOB, "run --code --replace": "permitted-code"}
# They fail here: see above.
WITHOUT_CONTAINERS = ("logs", "topology", "cp", "cp (the rank does not run)")


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_needs_exactly_the_permissions_of_the_table(
    users: Plane, requests: Requests, tmp_path: Path, command: str
) -> None:
    if command == "run":
        users.apply(on_volume(JOB))
        users.until_condition(JOB, "Running", "True", seconds=60)
    if command == "cp (the rank does not run)":
        users.until_no_pods(JOB)
    (tmp_path / "main.py").write_text("")
    verb, *words = (word.format(tmp_path) for word in COMMANDS[command])
    config = str(config_of(users, command, tmp_path))
    with deletion_waits(users, DELETED[command], requests) if command in DELETED else nullcontext():
        done = CliRunner().invoke(group, [verb, "--kubeconfig", config, *words])
    needs, uses = TABLE[command]
    assert complete(command, requests) == expected(command), done.output
    assert requests.denied <= uses - needs, done.output
    assert done.exit_code == 0 or command in WITHOUT_CONTAINERS, done.output
    if command == "delete":
        users.remove("dijob/permitted-run", "dijob/permitted-code")


@pytest.mark.parametrize("command", ["wait", "watch", "logs -f"])
def test_a_command_that_follows_a_job(
    users: Plane, requests: Requests, tmp_path: Path, command: str
) -> None:
    name = f"permitted-{user_of(command)}"
    users.apply(job(name))
    users.until_condition(name, "Running", "True", seconds=60)
    config = str(config_of(users, command, tmp_path))
    argv = [*command.split(), name, "--kubeconfig", config]
    follows = partial(ends, users, name, lambda: requests.sent == expected(command))
    with in_background(follows):
        done = CliRunner().invoke(group, argv)
    assert (requests.sent, requests.denied) == (expected(command), set()), done.output


def ends(plane: Plane, name: str, true: Callable[[], bool]) -> None:
    """Delete a job once a condition is true, so that its followers end."""
    try:
        until_true("the command follows the job", true, 60, lambda: "")
    finally:
        plane.lab.kubectl("delete", "dijob", name, "--wait=false")


@contextmanager
def deletion_waits(plane: Plane, name: str, requests: Requests) -> Iterator[None]:
    """Let the deletion of a job wait until the command watches the job. Otherwise, the job may
    already be gone when the command lists it, and then the command needs no watch.
    """

    def patch(kind: str, body: object) -> None:
        plane.lab.kubectl("patch", "dijob", name, f"--type={kind}", "-p", json.dumps(body))

    def releases() -> None:
        try:
            watched = ("dijobs", "watch", False)
            until_true("the command watches the job", lambda: watched in requests.sent, 60)
        finally:
            # The API server adds its own finalizer after this one.
            first = "/metadata/finalizers/0"
            test = {"op": "test", "path": first, "value": HELD}
            patch("json", [test, {"op": "remove", "path": first}])

    patch("merge", {"metadata": {"finalizers": [HELD]}})
    with in_background(releases):
        yield


@contextmanager
def in_background(act: Callable[[], None]) -> Iterator[None]:
    """Call a function in another thread during the block, and wait for it at the end."""
    thread = threading.Thread(target=act)
    thread.start()
    try:
        yield
    finally:
        thread.join()


@pytest.mark.parametrize("command", ["apply", "explain"])
def test_a_command_that_reads_a_file(
    users: Plane, requests: Requests, tmp_path: Path, command: str
) -> None:
    body = job("permitted-file")
    if command == "explain":
        body["spec"]["template"]["spec"] |= NEEDING
    file = tmp_path / "job.yaml"
    file.write_text(yaml.safe_dump(body))
    argv = ["apply", "-f", str(file)] if command == "apply" else ["explain", str(file)]
    config = str(config_of(users, command, tmp_path))
    done = CliRunner().invoke(group, [*argv, "--kubeconfig", config])
    assert complete(command, requests) == expected(command), done.output
    assert requests.denied <= TABLE[command][1], done.output
    # The objects that the file of `explain` needs do not exist.
    assert done.exit_code == (0 if command == "apply" else 1), done.output
    if command == "apply":
        users.remove("dijob/permitted-file")


async def test_the_page(users: Plane, running: str, requests: Requests, tmp_path: Path) -> None:
    config = str(config_of(users, "ui", tmp_path))
    # The log's stream sends the other two.
    first = expected("ui") - {("pods/log", "get", False), ("dijobs", "get", False)}
    async with AsyncClient(config, None, NAMESPACE) as client:
        await client.list()
        hub = Hub(client)
        work = asyncio.ensure_future(hub.run())
        try:
            async with asyncio.timeout(60), aclosing(hub.job(NAMESPACE, running)) as states:
                async for _ in states:
                    if first <= requests.sent:
                        break
            async with asyncio.timeout(60), aclosing(hub.log(NAMESPACE, running, None)) as lines:
                async for _ in lines:
                    break
        finally:
            work.cancel()
    assert (requests.sent, requests.denied) == (expected("ui"), set())


VIEWING = ("list", "get", "report", "wait", "watch", "logs", "logs -f", "ui")


@pytest.mark.parametrize(
    ("role", "commands", "lacking"),
    [
        pytest.param("edit", TABLE, {("pods/ephemeralcontainers", "patch")}, id="edit"),
        pytest.param("view", VIEWING, set(), id="view"),
    ],
)
def test_the_roles_of_kubernetes_contain_the_permissions(
    plane: Plane, role: str, commands: Iterable[str], lacking: set[tuple[str, str]]
) -> None:
    rules = json.loads(plane.kubectl("get", "clusterrole", role, "-o", "json"))["rules"]
    granted = {
        (resource, verb)
        for rule in rules
        for resource in rule.get("resources", ())
        for verb in rule["verbs"]
    }
    # The chart adds the permissions on dijobs, and the metrics server those on its pods.
    asked = {
        (resource, verb)
        for name in commands
        for resource, verb, cluster in expected(name)
        if not cluster and not resource.startswith("dijobs") and METRICS not in resource
    }
    assert asked - granted == lacking


def test_the_table_has_all_commands() -> None:
    without_cluster = {"local, from-slurm, completion, explain --offline"}
    # tests/chart/test_chart_history.py runs `history` with users of different permissions.
    elsewhere = {"history"}
    tested = {*COMMANDS, "wait", "watch", "logs -f", "apply", "explain", "ui"} | elsewhere
    tested |= without_cluster
    assert tested == TABLE.keys()
    listed = {name for row in TABLE for name in re.split(r", | --?\w+| \(.*\)", row) if name}
    assert listed == set(group.list_commands(None))  # type: ignore[arg-type]
