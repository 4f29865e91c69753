"""Certificates, tokens and kubeconfigs of one cluster, made anew at each start with openssl."""

import secrets
from base64 import b64encode
from collections.abc import Sequence
from pathlib import Path

import yaml

from cluster.shell import run

ADMIN = "admin"
DAYS = "3650"
# user name -> group; a token is enough for a cluster that lives on one machine, and needs no certificate per user
USERS = {
    ADMIN: "system:masters",
    "system:kube-controller-manager": "",
    "system:kube-scheduler": "",
    "system:kube-proxy": "",
    "coredns": "",
}


class Pki:
    """The files below DIRECTORY: ca, apiserver and kubelet-client key pairs, sa.key, tokens.csv, *.kubeconfig."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    def __getitem__(self, name: str) -> Path:
        return self.directory / name

    def create(self, server: str, addresses: Sequence[str], nodes: Sequence[str]) -> None:
        """Make everything; `server` is the apiserver's URL, `addresses` the IPs it is reached by."""
        self.directory.mkdir(mode=0o700)
        self._certificate("ca", "/CN=dijob-test-cluster", ["basicConstraints=critical,CA:TRUE"], signed=False)
        names = [
            "kubernetes",
            "kubernetes.default",
            "kubernetes.default.svc",
            "kubernetes.default.svc.cluster.local",
            "localhost",
        ]
        subject_names = [*(f"DNS:{name}" for name in names), *(f"IP:{address}" for address in addresses)]
        self._certificate(
            "apiserver",
            "/CN=kube-apiserver",
            [f"subjectAltName={','.join(subject_names)}", "extendedKeyUsage=serverAuth"],
        )
        # For logs and exec the apiserver is the kubelet's client; this group may do all.
        self._certificate(
            "kubelet-client", "/O=system:masters/CN=kube-apiserver-kubelet-client", ["extendedKeyUsage=clientAuth"]
        )
        run(["openssl", "genrsa", "-out", str(self["sa.key"]), "2048"])
        users = {**USERS, **{f"system:node:{node}": "system:nodes" for node in nodes}}
        tokens = {user: secrets.token_hex(16) for user in users}
        lines = [f'{tokens[user]},{user},{user},"{group}"' for user, group in users.items()]
        self._write("tokens.csv", "\n".join(lines) + "\n")
        for user in users:
            self._write(f"{user}.kubeconfig", self._kubeconfig(server, user, tokens[user]))

    def _certificate(self, name: str, subject: str, extensions: Sequence[str], signed: bool = True) -> None:
        argv = [
            "openssl",
            "req",
            "-x509",
            "-newkey",
            "ec",
            "-pkeyopt",
            "ec_paramgen_curve:prime256v1",
            "-nodes",
            "-days",
            DAYS,
            "-subj",
            subject,
            "-keyout",
            str(self[f"{name}.key"]),
            "-out",
            str(self[f"{name}.crt"]),
        ]
        if signed:
            argv += ["-CA", str(self["ca.crt"]), "-CAkey", str(self["ca.key"])]
            extensions = ["basicConstraints=critical,CA:FALSE", *extensions]
        for extension in extensions:
            argv += ["-addext", extension]
        # an empty config: Debian's own would add a second basicConstraints
        run([*argv, "-config", "/dev/stdin"], stdin="[req]\ndistinguished_name=dn\n[dn]\n")

    def _write(self, name: str, text: str) -> None:
        path = self[name]
        path.touch(mode=0o600)
        path.write_text(text)

    def _kubeconfig(self, server: str, user: str, token: str) -> str:
        authority = b64encode(self["ca.crt"].read_bytes()).decode()  # in the file, so that it may be copied away
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "dijob", "cluster": {"server": server, "certificate-authority-data": authority}}],
            "users": [{"name": user, "user": {"token": token}}],
            "contexts": [{"name": "dijob", "context": {"cluster": "dijob", "user": user}}],
            "current-context": "dijob",
        }
        return yaml.safe_dump(config, sort_keys=False)
