"""The command lines of operator and server: an error is one sentence without a traceback."""

import asyncio
import os
import signal
from pathlib import Path

import click
import pytest
from click.testing import CliRunner
from dijob import __main__ as operator
from dijob.kube import config
from dijob.kube.connection import OperatorConnection
from dijob.server import __main__ as server


@pytest.fixture(autouse=True)
def process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep the process's log, garbage collector and environment unchanged."""
    for name in (
        "dijob.controller.logs.configure",
        "logging.basicConfig",
        "gc.freeze",
        "gc.set_threshold",
    ):
        monkeypatch.setattr(name, lambda *_, **__: None)
    monkeypatch.setenv("KUBECONFIG", "")  # the operator sets it for kopf


OPTIONS = {
    "a lease in a folder": (["--lease", "a/b/c"], "--lease 'a/b/c' must be NAMESPACE/NAME"),
    "a lease without a name": (["--lease", "a/"], "--lease 'a/' must be NAMESPACE/NAME"),
    "a class without a priority": (["--priority-class", "high"], "'high' must be PRIORITY=NAME"),
    "a class without a name": (["--priority-class", "high="], "'high=' must be PRIORITY=NAME"),
    "an unknown priority": (["--priority-class", "low=x"], "'low=x' must be PRIORITY=NAME"),
}


@pytest.mark.parametrize(("arguments", "said"), OPTIONS.values(), ids=OPTIONS)
def test_an_invalid_option_is_rejected(arguments: list[str], said: str) -> None:
    done = CliRunner().invoke(operator.main, arguments)
    assert (done.exit_code, said in done.output) == (2, True), done.output


CONTEXT = "current-context: a\ncontexts: [{name: a, context: {cluster: c, user: u}}]\n"
CLUSTER = "users: [{name: u, user: {}}]\nclusters: [{name: c, cluster: {server: 'https://x', %s}}]"
FILES = {
    "empty": ("", "is not a valid kubeconfig"),
    "text": ("just text", "is not a valid kubeconfig"),
    "invalid YAML": ("a: [", "cannot be used: while parsing"),
    "no context": ("kind: Config", "Expected key current-context"),
    "no cluster": (CONTEXT + "clusters: []", "Expected object with name c"),
    "an invalid certificate": (
        CONTEXT + CLUSTER % "certificate-authority-data: AAAA",
        "cannot be used",
    ),
}


@pytest.mark.parametrize("main", [operator.main, server.main], ids=["operator", "server"])
@pytest.mark.parametrize(("text", "said"), FILES.values(), ids=FILES)
def test_an_invalid_kubeconfig_is_named_in_the_error(
    main: click.Command, text: str, said: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "config"
    file.write_text(text)
    assert CliRunner().invoke(main, ["--kubeconfig", str(file)]).exit_code == 1
    (sentence,) = caplog.messages
    assert f"--kubeconfig {file} " in sentence
    assert said in sentence


@pytest.mark.parametrize("main", [operator.main, server.main], ids=["operator", "server"])
def test_outside_a_cluster_the_error_asks_for_a_kubeconfig(
    main: click.Command, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    assert CliRunner().invoke(main, []).exit_code == 1
    (sentence,) = caplog.messages
    assert "Outside a cluster, pass --kubeconfig FILE" in sentence


def test_a_sigterm_during_startup_ends_the_operator(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def away(*_: str) -> OperatorConnection:
        os.kill(os.getpid(), signal.SIGTERM)
        return await asyncio.Future[OperatorConnection]()

    # Without a handler, the signal would end the tests.
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    monkeypatch.setattr(OperatorConnection, "of", away)
    try:
        assert CliRunner().invoke(operator.main, []).exit_code == 0
    finally:
        signal.signal(signal.SIGTERM, before)


@pytest.mark.parametrize("main", [operator.main, server.main], ids=["operator", "server"])
def test_an_unreadable_service_account_is_named_in_the_error(
    main: click.Command, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """R12: the error named "--kubeconfig None"."""

    def broken(**_: object) -> None:
        raise TypeError("no token")

    monkeypatch.setattr(config, "load_incluster_config", broken)
    assert CliRunner().invoke(main, []).exit_code == 1
    (sentence,) = caplog.messages
    assert sentence == "the pod's service account cannot be read: TypeError('no token')"
