"""The command lines of the operator and its server: a mistake is one sentence, and no traceback."""

import asyncio
import os
import signal
from pathlib import Path

import click
import pytest
from click.testing import CliRunner
from dijob import __main__ as operator
from dijob.server import __main__ as server
from dijob.shell import connection
from dijob.shell.connection import Connection


@pytest.fixture(autouse=True)
def process(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is the process's own stays the tests': its log, its collector, its environment."""
    for name in (
        "dijob.shell.logs.configure",
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
def test_an_option_of_another_form_is_refused(arguments: list[str], said: str) -> None:
    done = CliRunner().invoke(operator.main, arguments)
    assert (done.exit_code, said in done.output) == (2, True), done.output


CONTEXT = "current-context: a\ncontexts: [{name: a, context: {cluster: c, user: u}}]\n"
CLUSTER = "users: [{name: u, user: {}}]\nclusters: [{name: c, cluster: {server: 'https://x', %s}}]"
FILES = {
    "empty": ("", "is not a valid kubeconfig"),
    "text": ("just text", "is not a valid kubeconfig"),
    "no YAML": ("a: [", "cannot be used: while parsing"),
    "no context": ("kind: Config", "Expected key current-context"),
    "no cluster": (CONTEXT + "clusters: []", "Expected object with name c"),
    "a certificate that is none": (
        CONTEXT + CLUSTER % "certificate-authority-data: AAAA",
        "cannot be used",
    ),
}


@pytest.mark.parametrize("main", [operator.main, server.main], ids=["operator", "server"])
@pytest.mark.parametrize(("text", "said"), FILES.values(), ids=FILES)
def test_a_kubeconfig_that_is_none_is_named(
    main: click.Command, text: str, said: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "config"
    file.write_text(text)
    assert CliRunner().invoke(main, ["--kubeconfig", str(file)]).exit_code == 1
    (sentence,) = caplog.messages
    assert f"--kubeconfig {file} " in sentence
    assert said in sentence


@pytest.mark.parametrize("main", [operator.main, server.main], ids=["operator", "server"])
def test_outside_a_cluster_a_kubeconfig_is_asked_for(
    main: click.Command, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    assert CliRunner().invoke(main, []).exit_code == 1
    (sentence,) = caplog.messages
    assert "Outside a cluster, pass --kubeconfig FILE" in sentence


def test_a_sigterm_ends_an_operator_that_has_not_begun_yet(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def away(*_: str) -> Connection:
        os.kill(os.getpid(), signal.SIGTERM)
        return await asyncio.Future[Connection]()

    # So that the tests go on where nothing handles it.
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    monkeypatch.setattr(Connection, "of", away)
    try:
        assert CliRunner().invoke(operator.main, []).exit_code == 0
    finally:
        signal.signal(signal.SIGTERM, before)


@pytest.mark.parametrize("main", [operator.main, server.main], ids=["operator", "server"])
def test_a_service_account_that_cannot_be_read_is_named(
    main: click.Command, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """R12: it said "--kubeconfig None"."""

    def broken(**_: object) -> None:
        raise TypeError("no token")

    monkeypatch.setattr(connection, "load_incluster_config", broken)
    assert CliRunner().invoke(main, []).exit_code == 1
    (sentence,) = caplog.messages
    assert sentence == "the pod's service account cannot be read: TypeError('no token')"
