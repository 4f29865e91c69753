"""Certificates, tokens and kubeconfigs of a cluster, created at each start."""

import secrets
from base64 import b64encode
from collections.abc import Sequence
from pathlib import Path

import trustme
import yaml

ADMIN = "admin"
# User name -> group. Tokens are sufficient for a cluster on one machine, and need no certificates.
USERS = {
    ADMIN: "system:masters",
    "system:kube-controller-manager": "",
    "system:kube-scheduler": "",
    "system:kube-proxy": "",
    "coredns": "",
}
# The names that clients in the cluster and on the apiserver's machine use for the apiserver.
SERVER_NAMES = (
    "kubernetes",
    "kubernetes.default",
    "kubernetes.default.svc",
    "kubernetes.default.svc.cluster.local",
    "localhost",
)


class Pki:
    """The files below DIRECTORY: ca.crt, apiserver and kubelet-client key pairs, sa.key,
    tokens.csv, *.kubeconfig.
    """

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    def __getitem__(self, name: str) -> Path:
        return self.directory / name

    def create(self, server: str, addresses: Sequence[str], nodes: Sequence[str]) -> None:
        """Create all files. `server` is the apiserver's URL, `addresses` are its IPs."""
        self.directory.mkdir(mode=0o700)
        authority = trustme.CA(organization_unit_name="dijob-test-cluster")
        self._write("ca.crt", authority.cert_pem.bytes())
        self._pair(
            "apiserver",
            authority.issue_cert(*SERVER_NAMES, *addresses, common_name="kube-apiserver"),
        )
        # For logs and exec, the apiserver is a client of the kubelet. The group system:masters has
        # all permissions. A client certificate needs no names, but trustme marks the list of names
        # as critical, and Go rejects a critical list that is empty.
        client = "kube-apiserver-kubelet-client"
        self._pair(
            "kubelet-client",
            authority.issue_cert(client, common_name=client, organization_name="system:masters"),
        )
        # The key that signs service account tokens. trustme creates a key only together with a
        # certificate. This certificate is not used.
        self._write("sa.key", trustme.CA(key_type=trustme.KeyType.RSA).private_key_pem.bytes())
        users = {**USERS, **{f"system:node:{node}": "system:nodes" for node in nodes}}
        tokens = {user: secrets.token_hex(16) for user in users}
        lines = [f'{tokens[user]},{user},{user},"{group}"' for user, group in users.items()]
        self._write("tokens.csv", ("\n".join(lines) + "\n").encode())
        for user in users:
            self._write(f"{user}.kubeconfig", self._kubeconfig(server, user, tokens[user]).encode())

    def _pair(self, name: str, made: trustme.LeafCert) -> None:
        self._write(f"{name}.crt", made.cert_chain_pems[0].bytes())
        self._write(f"{name}.key", made.private_key_pem.bytes())

    def _write(self, name: str, content: bytes) -> None:
        path = self[name]
        path.touch(mode=0o600)
        path.write_bytes(content)

    def _kubeconfig(self, server: str, user: str, token: str) -> str:
        # Embedded, so that the kubeconfig can be copied.
        authority = b64encode(self["ca.crt"].read_bytes()).decode()
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [
                {
                    "name": "dijob",
                    "cluster": {"server": server, "certificate-authority-data": authority},
                }
            ],
            "users": [{"name": user, "user": {"token": token}}],
            "contexts": [{"name": "dijob", "context": {"cluster": "dijob", "user": user}}],
            "current-context": "dijob",
        }
        return yaml.safe_dump(config, sort_keys=False)
