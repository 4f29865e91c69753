"""The parts of every entrant: its installation, its job with the common pods, and how its ranks
find each other.
"""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import yaml
from cluster import Cluster
from cluster.addresses import IPV4
from cluster.images import write_archive
from cluster.namespace import ip
from cluster.process import require
from cluster.waiting import until
from jobs import DITASK, config_map
from space import Body

from compared.program import BEGIN, CODE, STATE, Work

# With every entrant, a pod on a node that has lost power is evicted after this many seconds.
LOST_NODE_SECONDS = 10
# All operators run on the first node, so that the loss of the second node does not affect them.
HOME_NODE, LOST_NODE = "node-1", "node-2"
FAILURES = 20  # more than a measurement causes


@dataclass(frozen=True)
class Entrant:
    """One way to start the ranks on Kubernetes."""

    name: str
    version: str
    kind: str  # the resource of its jobs, for kubectl
    install: Callable[[Cluster], AbstractContextManager[None]]
    job: Callable[[Work], Body]


def pod_spec(
    work: Work, container: str, labels: Body, prelude: str = "", restart: str = ""
) -> Body:
    """Return the pod spec of a rank. `prelude` is the shell script that this entrant's users write,
    so that the program finds its peers; `labels` select the pods of the job.
    """
    script = "\n".join(filter(None, (BEGIN, prelude, work.program.command)))
    main = {
        "name": container,
        "image": DITASK,
        "imagePullPolicy": "IfNotPresent",
        "command": ["/bin/bash", "-c", script],
        "env": [
            {"name": "OMP_NUM_THREADS", "value": "1"},
            {"name": "PYTHONUNBUFFERED", "value": "1"},
        ],
        # After the loss of a node, the other one needs room for all ranks and the operator.
        "resources": {"requests": {"cpu": "250m"}},
        "volumeMounts": [
            {"name": "code", "mountPath": CODE},
            {"name": "state", "mountPath": STATE},
        ],
    }
    away = {"operator": "Exists", "effect": "NoExecute", "tolerationSeconds": LOST_NODE_SECONDS}
    states = ("not-ready", "unreachable")
    spread = {
        "maxSkew": 1,
        "topologyKey": "kubernetes.io/hostname",
        "whenUnsatisfiable": "ScheduleAnyway",
        "labelSelector": {"matchLabels": labels},
    }
    return {
        "containers": [main],
        "volumes": [
            {"name": "code", "configMap": {"name": f"{work.name}-code"}},
            # Both nodes share this machine, so a folder of the machine replaces a network file
            # system.
            {"name": "state", "hostPath": {"path": work.state}},
        ],
        "terminationGracePeriodSeconds": 2,
        "tolerations": [{"key": f"node.kubernetes.io/{each}", **away} for each in states],
        "topologySpreadConstraints": [spread],
        **({"restartPolicy": restart} if restart else {}),
    }


def objects(entrant: Entrant, work: Work) -> list[Body]:
    """Return what a user applies: the ConfigMap with the program, and the job."""
    return [config_map(f"{work.name}-code", **work.program.files), entrant.job(work)]


@dataclass(frozen=True)
class Release:
    """A peer's program and its own manifests, which install it as its documentation says."""

    variable: str  # the environment variable that names the program
    image: str  # the image's name in the cluster
    program: str  # the program's path in its image
    deployment: str  # NAMESPACE/NAME of its controller
    manifests: str  # in the checkout: a file, or a folder for `kubectl kustomize`
    build: str  # how to build it, for the message about a missing program
    arguments: tuple[str, ...] = ()  # in addition to those of the manifests
    files: Mapping[str, str] = field(default_factory=dict)  # further files of its image

    @property
    def binary(self) -> Path | None:
        """Return the program, DIR/bin/NAME in a checkout; None if it is not given."""
        given = os.environ.get(self.variable)
        return Path(given) if given else None

    @contextmanager
    def installed(self, cluster: Cluster) -> Iterator[None]:
        """Install the peer from its checkout, and remove it at the end."""
        assert self.binary is not None
        self._load(cluster, self.binary)
        reach_services(cluster)
        objects = self._objects(cluster, self.binary.parents[1] / self.manifests)
        told = yaml.safe_dump_all(objects)
        # Server-side apply, because a job's CRD is too large for the annotation of a client-side
        # apply.
        apply = ("apply", "--server-side", "--force-conflicts", "-f", "-")
        try:
            cluster.run_kubectl(*apply, stdin=told)
            space, _, name = self.deployment.partition("/")
            self._certified(cluster, objects)
            ready = ("rollout", "status", f"deployment/{name}", "--timeout=180s")
            cluster.run_kubectl("-n", space, *ready, timeout=190)
            yield
        finally:
            gone = ("delete", "--ignore-not-found", "--wait", "--timeout=90s", "-f", "-")
            cluster.run_kubectl(*gone, stdin=told, timeout=120)

    def _certified(self, cluster: Cluster, objects: Sequence[Body]) -> None:
        """If the controller writes its own certificate into a Secret, wait for that and restart the
        controller. A kubelet delivers a change of a mounted Secret only after a minute or more.
        """
        for secret in (each for each in objects if each["kind"] == "Secret"):
            space, name = (secret["metadata"][key] for key in ("namespace", "name"))
            asked = ("-n", space, "get", "secret", name, "-o", "jsonpath={.data}")

            def empty(asked: tuple[str, ...] = asked) -> str:
                return "" if cluster.run_kubectl(*asked) not in ("", "{}") else "it is empty"

            until(f"{name} has a certificate", empty, 60)
            cluster.run_kubectl("-n", space, "delete", "pods", "--all", "--timeout=60s", timeout=70)

    def _load(self, cluster: Cluster, binary: Path) -> None:
        """Load the image into the nodes, if they do not have it."""
        folder = cluster.state / "peers"
        folder.mkdir(exist_ok=True)
        archive = folder / f"{self.image.partition(':')[0].replace('/', '-')}.tar"
        if archive.exists():
            return
        more = {path: text.encode() for path, text in self.files.items()}
        files = {self.program: binary.read_bytes(), **more}
        cluster.load([write_archive(archive, self.image, files, [])])

    def _objects(self, cluster: Cluster, source: Path) -> list[Body]:
        """Return the peer's manifests, changed only so that they run here: the image is the one
        that has been loaded, and the controller runs on HOME_NODE.
        """
        text = cluster.run_kubectl("kustomize", str(source)) if source.is_dir() else None
        objects = [each for each in yaml.safe_load_all(text or source.read_text()) if each]
        for each in objects:
            each.pop("status", None)
            if each["kind"] == "Deployment":
                spec = each["spec"]["template"]["spec"]
                spec["nodeSelector"] = {"kubernetes.io/hostname": HOME_NODE}
                # The image defines no user, and some manifests forbid root.
                spec.setdefault("securityContext", {})["runAsUser"] = 65532
                for container in spec["containers"]:
                    container |= {"image": self.image, "imagePullPolicy": "IfNotPresent"}
                    container["args"] = [*(container.get("args") or ()), *self.arguments]
        space = self.deployment.partition("/")[0]
        if not any(each["kind"] == "Namespace" for each in objects):
            meta = {"name": space}
            objects.append({"apiVersion": "v1", "kind": "Namespace", "metadata": meta})
        # A namespace comes before its objects.
        return sorted(objects, key=lambda each: str(each["kind"]) != "Namespace")


def reach_services(cluster: Cluster) -> None:
    """Route the control plane's calls to Services (webhooks) through HOME_NODE, whose kube-proxy
    knows the Services. The test cluster's control plane has no kube-proxy.
    """
    via = cluster.node(HOME_NODE).addresses[0]
    ip(require(cluster.state, "network"), "route", "replace", IPV4.services, "via", via)
