"""The HTTP server as a process with exactly the permissions that the chart grants, on a real
apiserver.
"""

import json
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.parse import quote
from urllib.request import Request, urlopen

import pytest
import yaml
from apiserver.plane import operator
from chart.lab import CHART, Lab, job
from chart.test_chart_operator import asked, kubeconfig
from cluster import CONTROL_PLANE, Cluster, Options, up
from cluster.shell import until_established
from cluster.waiting import until
from dijob.names import API_VERSION
from manifests import CRD, Body
from ports import free_port
from running import running_module

pytestmark = pytest.mark.e2e

HOME, TEAM, FAR = "dijob-system", "team", "far"
# The apiserver caches token reviews for 10 s, and so does the server.
TOKEN_ENDS_SECONDS = 30


@dataclass
class Served:
    """A running server and its cluster."""

    lab: Lab
    cluster: Cluster
    url: str
    log: Path

    def token(self, pod: str, audience: str = "di-server") -> str:
        """Return the token that the kubelet mounts into a pod."""
        uid = self.lab.get("pod", pod, "-n", TEAM)["metadata"]["uid"]
        bound = ("--bound-object-kind=Pod", f"--bound-object-name={pod}")
        audiences = [f"--audience={audience}"] if audience else []
        told = (*bound, f"--bound-object-uid={uid}", *audiences)
        return self.lab.kubectl("create", "token", "default", "-n", TEAM, *told)

    def ask(self, method: str, path: str, token: str, body: Any = None) -> tuple[int, Body]:
        """Return status code and body of a response; (0, error) without a response."""
        data = None if body is None else json.dumps(body).encode()
        headers = {"Authorization": f"Bearer {token}"}
        request = Request(f"{self.url}/v2alpha1/{path}", data, headers, method=method)
        try:
            with urlopen(request, timeout=20) as answer:
                return answer.status, json.loads(answer.read())
        except HTTPError as error:
            return error.code, json.loads(error.read())
        except URLError as error:
            return 0, {"message": str(error)}

    def status(self, name: str) -> Body:
        found: Body = self.lab.get("dij", name, "-n", TEAM).get("status", {})
        return found

    def until_status(self, name: str, seconds: float = 60, **fields: Any) -> None:
        def differs() -> str:
            status = self.status(name)
            found = {key: status.get(key) for key in fields}
            return "" if found == fields else f"{found}\n{self.log.read_text()[-2000:]}"

        until(f"{name} has {fields}", differs, seconds)


@contextmanager
def server(config: Path, log: Path) -> Iterator[str]:
    """Run the server as a process, and yield its URL."""
    port = free_port()
    told = (f"--kubeconfig={config}", f"--port={port}", "--health-port=0")
    with running_module("dijob.server", log, *told):
        yield f"http://127.0.0.1:{port}"


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """Yield operator and server on a control plane with simulated nodes and two running jobs."""
    folder = tmp_path_factory.mktemp("served")
    with up(Options(name="chart-server", mode=CONTROL_PLANE, kwok_nodes=2)) as cluster:
        lab = Lab(cluster.binaries, cluster.kubeconfig)
        for name in (HOME, TEAM, FAR):
            lab.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
        lab.helm("install", "dijob", str(CHART), "-n", HOME, "--set", "server.enabled=true")
        until_established(lab.kubectl, CRD)
        for account in ("bob", "eve"):
            lab.kubectl("create", "serviceaccount", account, "-n", TEAM)
        bound = ("--clusterrole=edit", f"--serviceaccount={TEAM}:bob")
        lab.kubectl("create", "rolebinding", "bob", "-n", TEAM, *bound)
        for each in ("operator", "server"):
            (folder / each).mkdir()
        acts = kubeconfig(lab, folder / "operator", "dijob", HOME)
        serves = kubeconfig(lab, folder / "server", "dijob-server", HOME)
        log = folder / "operator.log"
        with operator(acts, log), server(serves, folder / "server.log") as url:
            made = Served(lab, cluster, url, folder / "server.log")
            for name in ("one", "two"):
                body = job(name)
                body["spec"] |= {"replicas": 2, "minReplicas": 1, "maxReplicas": 4}
                lab.kubectl("create", "-n", TEAM, "-f", "-", stdin=yaml.safe_dump(body))
            for name in ("one", "two"):
                made.until_status(name, phase="Running")
            until("the server answers", lambda: _silent(made), 30)
            yield made


def _silent(served: Served) -> str:
    status, told = served.ask("GET", "none/replicas", "nothing")
    return "" if status else f"{told}\n{served.log.read_text()[-2000:]}"


def test_a_rank_changes_its_own_job_and_no_other(served: Served) -> None:
    uid = served.lab.get("dij", "one", "-n", TEAM)["metadata"]["uid"]
    begin = len(served.cluster.audit_log.read_text().splitlines())
    token = served.token("one-0")
    status, told = served.ask("GET", f"{uid}/replicas", token)
    assert (status, len(told["data"])) == (200, 2), told
    assert all(address.endswith(":50515") for address in told["data"])
    assert served.ask("PUT", f"{uid}/replicas", token, {"replicas": 3})[0] == 200
    served.until_status("one", readyReplicas=3)
    assert served.ask("POST", f"{TEAM}.one/replicas", token, {"replicas": 1})[0] == 200
    assert served.ask("DELETE", f"job/{uid}/replicas", token, {"replicas": 2})[0] == 200
    served.until_status("one", readyReplicas=2, replicas=2)
    for method, size, words in (("POST", 3, "allow 1 to 4"), ("DELETE", 2, "allow 1 to 4")):
        status, told = served.ask(method, f"{uid}/replicas", token, {"replicas": size})
        assert (status, words in told["message"]) == (422, True), told
    status, told = served.ask("PUT", f"{TEAM}.two/replicas", token, {"replicas": 3})
    assert (status, "its own job" in told["message"]) == (403, True), told
    assert served.lab.get("dij", "two", "-n", TEAM)["spec"]["replicas"] == 2
    requests = asked(served.cluster.audit_log, f"system:serviceaccount:{HOME}:dijob-server", begin)
    assert ("dijobs/scale", "patch") in requests
    assert not {right for right, codes in requests.items() if 403 in codes}


def test_a_pods_tokens_are_valid_for_their_server_only(served: Served) -> None:
    """The server's token is invalid for the apiserver, and vice versa."""
    lab = served.lab
    said = lab.try_kubectl("get", "pods", "-n", TEAM, f"--token={served.token('one-0')}")
    assert "Unauthorized" in said.text or "must be logged in" in said.text, said.text
    status, told = served.ask("GET", f"{TEAM}.one/replicas", served.token("one-0", ""))
    assert (status, "cannot get dijobs/scale" in told["message"]) == (403, True), told
    forged = served.token("two-0")
    assert served.ask("GET", f"{TEAM}.one/replicas", forged + "x")[0] == 401


def test_users_need_permission(served: Served) -> None:
    bob, eve = (served.lab.kubectl("create", "token", name, "-n", TEAM) for name in ("bob", "eve"))
    path = f"{TEAM}.two/replicas"
    assert served.ask("PUT", path, bob, {"replicas": 3})[0] == 200
    served.until_status("two", readyReplicas=3)
    assert served.ask("PUT", path, eve, {"replicas": 1})[0] == 403
    assert served.ask("GET", f"{HOME}.two/replicas", bob)[0] == 403
    assert served.ask("GET", "two/replicas", bob)[0] == 404


def test_no_name_gives_access_to_another_namespace(served: Served) -> None:
    """The names are in the path of a user's request, and in a forged owner of a pod."""
    lab = served.lab
    lab.kubectl("create", "-n", FAR, "-f", "-", stdin=yaml.safe_dump(job("far")))
    uid = lab.get("dij", "far", "-n", FAR)["metadata"]["uid"]
    bob = lab.kubectl("create", "token", "bob", "-n", TEAM)
    name = f"x/../../../{FAR}/dijobs/far"
    path = f"{TEAM}.{quote(name, safe='')}/replicas"
    assert served.ask("PUT", path, bob, {"replicas": 3})[0] == 404
    owner = {"apiVersion": API_VERSION, "kind": "DIJob", "name": name, "uid": uid}
    forged = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": "forged",
            "namespace": TEAM,
            "ownerReferences": [{**owner, "controller": True}],
        },
        "spec": {"containers": [{"name": "c", "image": "x"}]},
    }
    lab.apply(forged)
    status, told = served.ask("PUT", f"{uid}/replicas", served.token("forged"), {"replicas": 3})
    assert (status, "does not belong to a DIJob" in told["message"]) == (403, True), told
    # The operator sets the size 2, which follows from the bounds, if it has reconciled the job by
    # now.
    assert lab.get("dij", "far", "-n", FAR)["spec"].get("replicas") in (None, 2)


def test_reports_are_stored_in_the_status_and_kept(served: Served) -> None:
    token, uid = served.token("one-1"), served.lab.get("dij", "one", "-n", TEAM)["metadata"]["uid"]
    told = {"iteration": 1200, "env_step": 9600, "episode_return": 187.25}
    assert served.ask("POST", f"{uid}/progress", token, told)[0] == 200
    until(
        "the line is written",
        lambda: "" if served.status("one").get("progress") else "no progress",
        60,
    )
    profiling = {"cpu": {"0": 0.5}, "deep": [1, {"a": "b"}]}
    assert served.ask("POST", f"job/{uid}/profilings", token, profiling)[0] == 200
    # The operator writes the status many times meanwhile.
    assert served.ask("PUT", f"{uid}/replicas", token, {"replicas": 4})[0] == 200
    served.until_status("one", readyReplicas=4)
    status = served.status("one")
    assert status["progress"]["line"] == "iter 1200, step 9600, return 187.2"
    (kept,) = status["profilings"]
    assert (kept["pod"], kept["data"]) == ("one-1", profiling)
    assert "iter 1200" in served.lab.kubectl("get", "dij", "one", "-n", TEAM)
    fields = served.lab.kubectl(
        "get", "dij", "one", "-n", TEAM, "--show-managed-fields",
        "-o", "jsonpath={.metadata.managedFields[*].manager}",
    )  # fmt: skip
    assert "dijob-server" in fields


def test_the_token_of_a_deleted_pod_stops_working(served: Served) -> None:
    token, path = served.token("two-1"), f"{TEAM}.two/replicas"
    assert served.ask("GET", path, token)[0] == 200
    served.lab.kubectl("delete", "pod", "two-1", "-n", TEAM)

    def works() -> str:
        status, told = served.ask("GET", path, token)
        return "" if status == 401 else f"{status} {told}"

    until("the token does not work any more", works, TOKEN_ENDS_SECONDS)


@pytest.mark.long
@pytest.mark.parametrize("who", ["one-0", "bob", "nobody"])
def test_schemathesis_finds_no_undocumented_response(
    served: Served, tmp_path: Path, who: str
) -> None:
    """`make fuzz`, at the rate that the server allows for one job."""
    token = "nothing"
    if who == "one-0":
        token = served.token(who)
    elif who == "bob":
        token = served.lab.kubectl("create", "token", who, "-n", TEAM)
    config = tmp_path / "schemathesis.toml"
    config.write_text(f'[parameters]\njob = "{TEAM}.one"\n')
    # Requests that are valid by the schema can be rejected, since it does not have a job's bounds.
    checks = ["--exclude-checks", "positive_data_acceptance", "--max-examples", "30", "--seed", "1"]
    told = ["-H", f"Authorization: Bearer {token}", "--rate-limit", "10/s", *checks]
    program = [os.environ["DIJOB_SCHEMATHESIS"], f"--config-file={config}", "run"]
    argv = [*program, f"{served.url}/openapi.json", *told]
    # schemathesis stores its findings in the working directory.
    done = subprocess.run(argv, text=True, capture_output=True, check=False, cwd=tmp_path)
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
    print(done.stdout[-1500:])
    assert served.status("two").get("phase") == "Running"
