"""The command line of the page in the cluster, and how it finds the API server."""

from pathlib import Path

import pytest
from click.testing import CliRunner
from dijob.kube.config import ConfigError
from dijob_extras.ui.cluster.__main__ import main
from dijob_extras.ui.cluster.targets import (
    ApiServer,
    connect_by_impersonation,
    connect_with_token,
    find_api_server,
)
from dijob_extras.ui.cluster.users import AccessDenied, PageUser
from kubernetes.aio.client.configuration import Configuration


@pytest.mark.parametrize(
    ("host", "address"),
    [
        pytest.param("10.0.0.1", "https://10.0.0.1:443", id="IPv4"),
        pytest.param("fd00::1", "https://[fd00::1]:443", id="IPv6"),
    ],
)
def test_the_api_server_of_the_pod(tmp_path: Path, host: str, address: str) -> None:
    ca = tmp_path / "ca.crt"
    ca.write_text("x")
    assert find_api_server(host, "443", str(ca)) == ApiServer(address, str(ca))


@pytest.mark.parametrize(
    ("host", "ca", "message"),
    [
        pytest.param("", "/etc/hostname", "KUBERNETES_SERVICE_HOST", id="not in a pod"),
        pytest.param("10.0.0.1", "/nowhere", "no certificate", id="no certificate"),
    ],
)
def test_a_pod_without_an_api_server_is_an_error(host: str, ca: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        find_api_server(host, "443", ca)


def test_a_token_is_the_only_credential_and_an_impersonation_needs_a_name() -> None:
    target = connect_with_token(ApiServer("https://a", ""))(PageUser(token="x"))
    assert target.settings.api_key == {"BearerToken": "Bearer x"}
    assert (target.settings.cert_file, target.impersonation) == (None, ())
    connect = connect_by_impersonation(Configuration())
    assert connect(PageUser(name="alice")).impersonation == (("Impersonate-User", "alice"),)
    with pytest.raises(AccessDenied):
        connect(PageUser(token="x"))


@pytest.mark.parametrize(
    ("secret", "message"),
    [
        pytest.param(None, "needs --proxy-secret-file", id="no file"),
        pytest.param("short\n", "fewer than 16 characters", id="a short secret"),
    ],
)
def test_a_proxy_without_a_good_secret_is_not_trusted(
    tmp_path: Path, secret: str | None, message: str
) -> None:
    file = tmp_path / "secret"
    flags = ["--auth=proxy"]
    if secret is not None:
        file.write_text(secret)
        flags.append(f"--proxy-secret-file={file}")
    done = CliRunner().invoke(main, flags)
    assert (done.exit_code, message in done.output) == (2, True), done.output
