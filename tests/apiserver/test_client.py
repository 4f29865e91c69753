"""The client and its commands on a real apiserver with a running operator."""

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import yaml
from apiserver.plane import Body, Plane, job
from click.testing import CliRunner, Result
from dijob.cli.main import group
from dijob.client import ApiError, AsyncClient, Client, Job, LogOptions, NotFound, TimedOut, dump
from dijob.client.connection import ClientRequest
from planes import ROOT

pytestmark = pytest.mark.apiserver


def dijob(plane: Plane, *words: str, stdin: str = "") -> Result:
    """Run `kubectl dijob` with the cluster's kubeconfig."""
    return CliRunner().invoke(
        group, [*words, "--kubeconfig", str(plane.cluster.kubeconfig)], input=stdin
    )


def said(plane: Plane, *words: str, stdin: str = "") -> str:
    result = dijob(plane, *words, stdin=stdin)
    assert result.exit_code == 0, result.output
    return result.stdout


@contextmanager
def made(plane: Plane, name: str, **spec: Any) -> Iterator[Body]:
    body = job(name, service="Auto", **spec)
    try:
        yield body
    finally:
        plane.remove(f"dijob/{name}")


def test_a_jobs_life_by_commands(plane: Plane) -> None:
    with made(plane, "by-cli", minReplicas=1, maxReplicas=3, replicas=2) as body:
        text = yaml.safe_dump(body)
        trial = said(plane, "apply", "-f", "-", "--dry-run", "server", stdin=text)
        assert trial == "dijob/by-cli applied (server dry run)\n"
        assert plane.get("dijob", "by-cli") is None
        assert said(plane, "apply", "-f", "-", stdin=text) == "dijob/by-cli applied\n"
        running = dijob(plane, "wait", "by-cli", "--for", "running", "--timeout", "60s")
        assert running.exit_code == 0
        assert "by-cli: Running: all 2 ranks are running" in running.stdout
        listed = said(plane, "list").splitlines()
        assert listed[0].split()[:5] == ["NAME", "PHASE", "DESIRED", "READY", "RESTARTS"]
        assert any(line.startswith("by-cli") and "Running" in line for line in listed)
        assert said(plane, "scale", "by-cli", "--replicas", "3")
        plane.until_condition("by-cli", "Running", "True", "all 3 ranks are running")
        said(plane, "suspend", "by-cli")
        plane.until_condition("by-cli", "Suspended", "True")
        said(plane, "resume", "by-cli")
        plane.until_condition("by-cli", "Running", "True", "all 3 ranks are running")
        # With a timeout of 0, the command always gets the current state first.
        late = dijob(plane, "wait", "by-cli", "--timeout", "0s")
        assert late.exit_code == 6, late.output
        assert "its phase is Running: all 3 ranks are running" in late.stderr
        got = json.loads(said(plane, "get", "by-cli", "-o", "json"))
        assert (got["kind"], got["spec"]["replicas"]) == ("DIJob", 3)
        # The file has 2, and kubectl dijob scale has written 3: a conflict of field managers.
        conflict = dijob(plane, "apply", "-f", "-", stdin=text)
        assert conflict.exit_code == 4, conflict.output
        assert ".spec.replicas" in conflict.stderr
        assert "--force-conflicts" in conflict.stderr
        assert said(plane, "delete", "by-cli", "--timeout", "100s") == "dijob/by-cli deleted\n"
        assert not plane.pods("by-cli")
        assert dijob(plane, "get", "by-cli").exit_code == 3


def test_a_typo_in_the_template_is_reported_at_once(plane: Plane) -> None:
    with made(plane, "slip", replicas=2) as body:
        container = body["spec"]["template"]["spec"]["containers"][0]
        container["workingdir"] = "/code"
        trial = dijob(plane, "apply", "-f", "-", "--dry-run", "server", stdin=yaml.safe_dump(body))
        assert (trial.exit_code, trial.stdout) == (4, "")
        told = 'the cluster rejects a pod like slip-0: .*unknown field "spec.containers'
        assert re.search(rf"^Error: nothing was applied: {told}", trial.stderr), trial.stderr
        del container["workingdir"]
        right = dijob(plane, "apply", "-f", "-", "--dry-run", "server", stdin=yaml.safe_dump(body))
        assert (right.exit_code, right.stderr) == (0, "")


def test_a_failed_job_fails_its_wait(plane: Plane) -> None:
    with made(plane, "failing", activeDeadlineSeconds=1) as body:
        result = dijob(plane, "apply", "-f", "-", "--wait", "--timeout", "60s", stdin=dump(body))
        assert result.exit_code == 1, result.output
        assert "Error: failing: Failed: " in result.stderr
        assert "activeDeadlineSeconds" in result.stderr
        again = dijob(plane, "wait", "failing", "--for", "running")
        assert again.exit_code == 1


async def test_errors_are_the_apiservers(plane: Plane) -> None:
    async with AsyncClient(str(plane.cluster.kubeconfig)) as client:
        with pytest.raises(NotFound, match="there is no DIJob nobody in namespace default"):
            await client.wait("nobody")
        with pytest.raises(NotFound, match=r"has no kind Nothing in example.com/v1"):
            await client.apply(
                {"apiVersion": "example.com/v1", "kind": "Nothing", "metadata": {"name": "x"}}
            )
        with pytest.raises(NotFound, match="install the operator"):
            await client.connection.json(ClientRequest("GET", "/apis/example.com/v1/dijobs"))
        claim = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "x"}}
        with pytest.raises(ApiError, match=r"spec\.size"):
            await client.apply({**claim, "spec": {"size": 1}})
        with pytest.raises(NotFound, match="no DIJob nobody"):
            await client.scale("nobody", 2)


async def test_a_job_that_is_deleted_ends_its_wait(plane: Plane) -> None:
    with made(plane, "deleted") as body:
        async with AsyncClient(str(plane.cluster.kubeconfig)) as client:
            await client.apply(body)
            states = client.watch("deleted")
            asked = False
            # Another change of the running job may already be on its way.
            async for state in states:
                if state.is_true("Running") and not asked:
                    await client.delete("deleted")
                    asked = True
            with pytest.raises(NotFound):
                await client.get("deleted")


def test_restart_recreates_a_failed_job_with_the_objects_that_it_owns(plane: Plane) -> None:
    volume = {"name": "code", "configMap": {"name": "again-code", "optional": True}}
    with made(plane, "again", activeDeadlineSeconds=1) as body:
        body["spec"]["template"]["spec"]["volumes"] = [volume]
        with Client(str(plane.cluster.kubeconfig)) as client:
            first = client.apply(body)
            assert isinstance(first, Job)
            code = config_map("again-code", "a")
            client.apply_owned(code, first)
            assert client.wait("again", timeout=60).phase == "Failed"
            body["spec"].pop("activeDeadlineSeconds")
            recreated = client.restart("again", body, timeout=100)
            assert recreated.metadata.uid != first.metadata.uid
            assert client.wait("again", "running", timeout=60).phase == "Running"
            kept = plane.get("configmap", "again-code")
            assert kept is not None
            assert kept["data"] == {"main.py": "a"}
            assert kept["metadata"]["ownerReferences"][0]["uid"] == recreated.metadata.uid


def test_code_that_is_applied_again_is_still_deleted_with_its_job(plane: Plane) -> None:
    with made(plane, "coded") as body, Client(str(plane.cluster.kubeconfig)) as client:
        job = client.apply(body)
        assert isinstance(job, Job)
        client.apply_owned(config_map("coded-code", "a"), job)
        client.apply(config_map("coded-code", "b"))
        kept = plane.get("configmap", "coded-code")
        assert kept is not None
        assert kept["data"] == {"main.py": "b"}
        assert [owner["uid"] for owner in kept["metadata"]["ownerReferences"]] == [job.metadata.uid]


def config_map(name: str, text: str) -> Body:
    meta = {"name": name}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": {"main.py": text}}


def test_pods_and_logs_without_kubelets(plane: Plane, running: str) -> None:
    with Client(str(plane.cluster.kubeconfig)) as client:
        pods = client.pods(running)
        assert [(pod.rank, pod.state, pod.list_number) for pod in pods] == [
            (0, "Ready", 1),
            (1, "Ready", 1),
        ]
        assert [event["reason"] for event in client.events(running)]
        with pytest.raises(NotFound, match=f"rank 7 of {running} currently has no pod"):
            client.exec(running, 7, ["true"])
        assert not list(client.logs(running, LogOptions(ranks=frozenset({9}))))
        with pytest.raises(TimedOut):
            client.wait(running, timeout=0.2)


def test_the_example_of_the_page_runs(
    plane: Plane, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    page = (ROOT / "docs/client.md").read_text()
    # The first examples of the page wait for the end of a job, and without kubelets none ends.
    example = page.split("## Apply a job")[1].split("```python\n")[1].split("```")[0]
    monkeypatch.setenv("KUBECONFIG", str(plane.cluster.kubeconfig))
    try:
        exec(compile(example, "docs/client.md", "exec"), {})
    finally:
        plane.remove("dijob/hello")
    said = capsys.readouterr().out
    assert "hello: Running: all 2 ranks are running" in said
    assert "Ready" in said
