"""What a notebook shows: short objects, help that explains, and errors that suggest."""

import inspect
import textwrap
from pathlib import Path
from typing import Any

import dijob.client as module
import pytest
from dijob.client import AsyncClient, BadValue, Client, Job, RankPod, build
from manifests import dijob
from unit.client.kubelets import kubelets
from unit.client.stores import Store


def job() -> Job:
    body = dijob("test", {"image": "x"}, replicas=2)
    body["metadata"] |= {"namespace": "team", "uid": "u"}
    return Job(body | {"status": {"phase": "Running", "message": "1 of 2 ranks run"}})


def test_objects_are_shown_in_one_line() -> None:
    assert repr(job()) == "<Job team/test: Running: 1 of 2 ranks run>"
    body = {"metadata": {"name": "test-0"}, "spec": {"nodeName": "n"}, "status": {}}
    assert repr(RankPod(body, 0)) == "<RankPod test-0: rank 0, Pending on n>"


@pytest.mark.parametrize(
    ("replicas", "namespace", "shown"),
    [(2, "team", "<DIJob team/test: 2 pods>"), (1, None, "<DIJob test: 1 pod>")],
)
def test_a_job_that_was_built_is_shown_in_one_line(
    replicas: int, namespace: str | None, shown: str
) -> None:
    body = dijob("test", {"image": "x", "command": ["a"]}, replicas=replicas)
    made = build("test", body["spec"], namespace)
    assert (repr(made), str(made)) == (shown, shown)


def test_the_module_lists_all_its_names() -> None:
    assert {"Client", "AsyncClient", "as_job"} <= set(dir(module))


@pytest.mark.parametrize("name", [one for one in vars(Client) if not one.startswith("_")])
def test_each_method_has_its_own_help(name: str) -> None:
    text = inspect.getdoc(getattr(Client, name)) or ""
    assert len(text) > 20
    assert "AsyncClient" not in text


def test_the_help_of_run_lists_the_options() -> None:
    for client in (Client, AsyncClient):
        names = list(inspect.signature(client.run).parameters)
        assert names[:4] == ["self", "name", "image", "command"]
        assert {"replicas", "workers", "env", "backoff_limit", "code", "replace"} <= set(names)
        assert "options" not in names


@pytest.mark.parametrize(
    ("goal", "said"),
    [("runing", "did you mean 'running'\\?"), ("x", "'finished', 'succeeded', 'running'")],
)
async def test_a_misspelled_goal_is_rejected(tmp_path: Path, goal: Any, said: str) -> None:
    async with kubelets(tmp_path) as (_, kubeconfig), AsyncClient(kubeconfig) as client:
        with pytest.raises(BadValue, match=said):
            await client.wait("test", goal, timeout=5)


async def test_run_creates_a_job_with_a_function_as_its_code(tmp_path: Path) -> None:
    store = Store()
    async with (
        kubelets(tmp_path, store.routes) as (made, kubeconfig),
        AsyncClient(kubeconfig) as client,
    ):
        made.job = None
        await client.run("test", image="x", code=textwrap.dedent, replicas=3, workers=2)
        found: Any = made.job
    (main,) = found["spec"]["template"]["spec"]["containers"]
    assert (found["spec"]["replicas"], found["spec"]["parallelWorkers"]) == (3, 2)
    assert main["command"] == ["python3", "job_main.py"]
    assert "def dedent(" in store.bodies["test-code"]["data"]["job_main.py"]
