"""The defaults of DI-engine's ditask in a job, on a command with its interface."""

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import click
import pytest
from dijob_runtime.hook import ditask
from dijob_runtime.hook.kept import OWN_WIRING


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The environment of rank 1 of two. Changes are reverted after the test."""
    before = dict(os.environ)
    monkeypatch.setenv("DI_NODES", "10.0.0.1,10.0.0.2")
    monkeypatch.setenv("DI_RANK", "1")
    yield
    os.environ.clear()
    os.environ.update(before)


def test_ditasks_defaults_are_the_jobs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DI_LABELS", "learner")
    assert ditask_with() == {
        **dict.fromkeys(OPTIONS),
        "platform": "k8s",
        "topology": "mesh",
        "parallel_workers": 1,
        "labels": "learner",
        "mq_type": "nng",
    }


OPTIONS = (
    *("platform", "topology", "parallel_workers", "labels", "mq_type", "node_ids", "main"),
    *("address", "protocol", "ports"),
)


def ditask_with(*words: str) -> dict[str, Any]:
    """Return what DI-engine's ditask gets from this command line, after the patch."""
    options = [click.Option(["--" + name.replace("_", "-")]) for name in OPTIONS]
    options[2].type, options[2].default = click.INT, 1
    found: dict[str, Any] = {}
    command = click.Command("ditask", params=[*options], callback=found.update)
    module: Any = SimpleNamespace(cli_ditask=command)
    ditask.patch(module)
    command.main(list(words), standalone_mode=False)
    return found


@pytest.mark.parametrize(
    ("words", "queue_", "own"),
    [
        (["--address", "127.0.0.1"], "nng", True),
        (["--address=127.0.0.1", "--topology", "alone"], "nng", True),
        (["--protocol", "ipc"], "nng", True),
        (["--address", "127.0.0.1"], "torchrpc:cpu", True),
        (["--address", "127.0.0.1"], "redis", False),
        (["--address", "127.0.0.1", "--mq-type", "nng"], "redis", True),
        (["--address=", "--topology", "alone"], "nng", False),
        (["--platform", "k8s", "--address", "127.0.0.1"], "nng", False),
        (["--protocol", "tcp"], "nng", False),
        (["--", "--address", "127.0.0.1"], "nng", False),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else None,
)
def test_c5_a_ditask_with_its_own_address_runs_as_outside_a_job(
    monkeypatch: pytest.MonkeyPatch, words: list[str], queue_: str, own: bool
) -> None:
    """C5: this also applies to commands that bypass the launcher's ditask."""
    monkeypatch.setenv("DI_MQ_TYPE", queue_)
    monkeypatch.setenv("DI_REDIS_HOST", "10.0.0.9")
    with suppress(click.UsageError):  # an argument after `--`
        assert (ditask_with(*words)["platform"] is None) is own
    assert (OWN_WIRING in os.environ) is own


@pytest.mark.parametrize(
    ("words", "ports"),
    [
        ("--parallel-workers 2 --ports 6000,6001", "6000"),
        ("--ports=6000", "6000"),
        ("--ports 6000,x", "6000,x"),
        ("--address 127.0.0.1 --parallel-workers 2 --ports 6000,7000", "6000,7000"),
        ("--platform slurm --ports 6000,7000", "6000,7000"),
    ],
)
def test_a_list_of_consecutive_ports_becomes_its_first_port(words: str, ports: str) -> None:
    assert ditask_with(*words.split())["ports"] == ports


def test_a_list_of_other_ports_ends_the_program_with_the_port_to_pass(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    log = tmp_path / "log"
    log.touch()
    monkeypatch.setenv("DIJOB_TERMINATION_LOG", str(log))
    with pytest.raises(SystemExit):
        ditask_with("--parallel-workers", "2", "--ports", "6000,7000")
    assert log.read_text().endswith("With 2 workers, pass only the first port: 6000")
