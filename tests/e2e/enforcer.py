"""Enforces NetworkPolicies in the embedded cluster, whose network does not: rules for iptables in
the nodes' namespaces, made anew as pods and policies come and go.

Of the API it knows what the operator and these tests write: ingress, from pods of the same
namespace that labels select, at all ports or at numbered ones.
"""

import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from itertools import product
from typing import Any

from cluster import Cluster
from cluster.errors import ClusterError
from cluster.namespace import enter
from cluster.shell import run
from kubernetes import client, config

Body = dict[str, Any]
CHAIN = "TEST-POLICIES"
LOOK_SECONDS = 0.3


def rules(policies: Iterable[Body], pods: Iterable[Body]) -> list[str]:
    """Lines for iptables-restore: whom a policy selects is reached by those whom it names alone."""
    known = [pod for pod in pods if pod["status"].get("podIP")]
    lines = ["-m conntrack --ctstate ESTABLISHED,RELATED -j RETURN"]
    isolated: dict[str, None] = {}
    for policy in policies:
        namespace, spec = policy["metadata"]["namespace"], policy["spec"]
        there = [pod for pod in known if pod["metadata"]["namespace"] == namespace]
        for pod in _selected(there, spec["podSelector"]):
            to = pod["status"]["podIP"]
            isolated[to] = None
            for rule in spec.get("ingress") or ():
                pairs = product(_ports(rule), _sources(there, rule))
                lines += [f"{source}-d {to}/32 {ports}-j RETURN" for ports, source in pairs]
    return [*lines, *(f"-d {to}/32 -j REJECT" for to in isolated)]


def _selected(pods: list[Body], selector: Mapping[str, Any]) -> list[Body]:
    wanted = (selector.get("matchLabels") or {}).items()
    return [pod for pod in pods if wanted <= (pod["metadata"].get("labels") or {}).items()]


def _sources(pods: list[Body], rule: Body) -> list[str]:
    if not rule.get("from"):
        return [""]
    found = [pod for peer in rule["from"] for pod in _selected(pods, peer["podSelector"])]
    return [f"-s {pod['status']['podIP']}/32 " for pod in found]


def _ports(rule: Body) -> list[str]:
    return [f"-p tcp --dport {port['port']} " for port in rule.get("ports") or ()] or [""]


class Enforcer:
    """Writes the rules into all nodes as often as they change; `error` is why it has ended."""

    def __init__(self, cluster: Cluster) -> None:
        connection = config.new_client_from_config(str(cluster.kubeconfig))
        self._pods, self._policies = (
            client.CoreV1Api(connection),
            client.NetworkingV1Api(connection),
        )
        self._json = connection.sanitize_for_serialization
        self._holders = [cluster.node(name).holder for name in cluster.nodes]
        self._last: list[str] | None = None
        self.stopped = threading.Event()
        self.error: Exception | None = None

    def run(self) -> None:
        """Look until stopped."""
        try:
            while not self.stopped.wait(LOOK_SECONDS):
                policies = self._policies.list_network_policy_for_all_namespaces().items
                pods = self._pods.list_pod_for_all_namespaces().items
                self.write(rules(map(self._json, policies), map(self._json, pods)))
        except Exception as error:
            self.error = error

    def write(self, lines: list[str]) -> None:
        if lines == self._last:
            return
        text = "\n".join(
            [
                "*filter",
                f":{CHAIN} - [0:0]",
                *(f"-A {CHAIN} {line}" for line in lines),
                "COMMIT",
                "",
            ]
        )
        for holder in self._holders:
            run([*enter(holder), "iptables-restore", "--noflush", "--wait"], stdin=text)
            told = [*enter(holder), "iptables", "--wait"]
            try:
                run([*told, "-C", "FORWARD", "-j", CHAIN])
            except ClusterError:
                run([*told, "-I", "FORWARD", "-j", CHAIN])
        self._last = lines


@contextmanager
def enforced(cluster: Cluster) -> Iterator[None]:
    """All policies hold inside the block."""
    enforcer = Enforcer(cluster)
    enforcer.write(rules([], []))
    thread = threading.Thread(target=enforcer.run, name="enforcer")
    thread.start()
    try:
        yield
    finally:
        enforcer.stopped.set()
        thread.join()
        enforcer.write(rules([], []))
    if enforcer.error is not None:
        raise enforcer.error
