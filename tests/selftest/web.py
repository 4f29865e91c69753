"""Web servers on the nodes of a test cluster, and requests to them."""

from cluster import Cluster
from cluster.images import BUSYBOX
from cluster.waiting import until

NAME = "self-test"
SERVE = 'mkdir /www; echo "I am $HOSTNAME" > /www/index.html; exec busybox httpd -f -p 80 -h /www'


def server(name: str, node: str) -> dict[str, object]:
    container = {"name": "web", "image": BUSYBOX, "command": ["/bin/busybox", "sh", "-c", SERVE]}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": {"app": "web"}},
        "spec": {
            "hostname": name,
            "subdomain": "web",
            "nodeSelector": {"kubernetes.io/hostname": node},
            "terminationGracePeriodSeconds": 0,
            "containers": [container],
        },
    }


def service(name: str, **spec: object) -> dict[str, object]:
    whole = {"selector": {"app": "web"}, "ports": [{"port": 80}], **spec}
    return {"apiVersion": "v1", "kind": "Service", "metadata": {"name": name}, "spec": whole}


def field(cluster: Cluster, what: str, path: str) -> str:
    return cluster.run_kubectl("get", *what.split(), "-o", f"jsonpath={{{path}}}")


def in_pod(cluster: Cluster, pod: str, script: str) -> str:
    return cluster.run_kubectl("exec", pod, "--", "/bin/busybox", "sh", "-c", script)


def fetch(cluster: Cluster, pod: str, address: str) -> str:
    return in_pod(
        cluster, pod, f"printf 'GET / HTTP/1.0\\r\\n\\r\\n' | busybox nc -w 3 {address} 80; true"
    )


def wait_fetch(cluster: Cluster, pod: str, address: str, answer: str) -> None:
    def differs() -> str:
        got = fetch(cluster, pod, address)
        return "" if answer in got else f"{address} answered {got!r} to {pod}"

    until(f"{answer!r} from {address}", differs, 30)
