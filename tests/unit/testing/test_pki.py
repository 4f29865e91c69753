"""The test cluster's certificates: the apiserver's names, and its client identity."""

import ssl
from contextlib import suppress
from typing import Any

import pytest
from cluster.pki import Pki

SERVER = "https://127.0.0.1:6443"


@pytest.fixture(scope="module")
def pki(tmp_path_factory: pytest.TempPathFactory) -> Pki:
    made = Pki(tmp_path_factory.mktemp("cluster") / "pki")
    made.create(SERVER, ["127.0.0.1", "10.96.0.1"], ["worker"])
    return made


def context(pki: Pki, purpose: ssl.Purpose, own: str) -> ssl.SSLContext:
    """Return the TLS context of one side. It has a certificate, and requires one of the same
    authority from the peer.
    """
    made = ssl.create_default_context(purpose, cafile=str(pki["ca.crt"]))
    made.load_cert_chain(pki[f"{own}.crt"], pki[f"{own}.key"])
    made.verify_mode = ssl.CERT_REQUIRED
    made.verify_flags |= ssl.VERIFY_X509_STRICT
    return made


def shaken(pki: Pki, name: str) -> ssl.SSLObject:
    """Return the server side of a connection to the apiserver with a name."""
    up, down = ssl.MemoryBIO(), ssl.MemoryBIO()
    server = context(pki, ssl.Purpose.CLIENT_AUTH, "apiserver").wrap_bio(up, down, server_side=True)
    client = context(pki, ssl.Purpose.SERVER_AUTH, "kubelet-client").wrap_bio(
        down, up, server_hostname=name
    )
    for side in (client, server, client):
        with suppress(ssl.SSLWantReadError):
            side.do_handshake()
    server.do_handshake()
    return server


@pytest.mark.parametrize(
    "name", ["127.0.0.1", "10.96.0.1", "localhost", "kubernetes.default.svc.cluster.local"]
)
def test_the_apiservers_certificate_is_valid_for_each_of_its_names(pki: Pki, name: str) -> None:
    assert shaken(pki, name).getpeercert()


def test_the_apiservers_certificate_is_invalid_for_other_names(pki: Pki) -> None:
    with pytest.raises(ssl.SSLCertVerificationError):
        shaken(pki, "10.96.0.2")


def test_the_kubelets_client_belongs_to_the_admin_group(pki: Pki) -> None:
    told: Any = shaken(pki, "localhost").getpeercert()
    subject = dict(part for (part,) in told["subject"])
    assert (subject["commonName"], subject["organizationName"]) == (
        "kube-apiserver-kubelet-client",
        "system:masters",
    )
    # Go rejects a certificate with an empty list of names that is critical, as trustme's is.
    assert told["subjectAltName"]


def test_only_the_owner_can_read_the_keys(pki: Pki) -> None:
    found = list(pki.directory.iterdir())
    assert {path.name for path in found} >= {
        "ca.crt",
        "sa.key",
        "tokens.csv",
        "system:node:worker.kubeconfig",
    }
    assert {path.stat().st_mode & 0o777 for path in found} == {0o600}
