"""The web UI and the history as Deployments of the chart, run by real kubelets. A user with rights
in one namespace can read both in this namespace, and neither in another one.
"""

import json
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from archives import archive
from asked import asked
from cluster import Cluster
from jobs import peers, shell
from release import install
from space import HOME, Space
from users import write_kubeconfig
from volumes import claimed

pytestmark = [pytest.mark.e2e, pytest.mark.long]

READER = """
apiVersion: v1
kind: ServiceAccount
metadata: {name: reader}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: reader}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: view}
subjects: [{kind: ServiceAccount, name: reader}]
"""
# Prints the status and the first event of the list in a namespace.
ASK = """
import sys, urllib.error, urllib.request
url, token = sys.argv[1:]
request = urllib.request.Request(url, headers={"Authorization": f"Bearer {token}"} if token else {})
try:
    with urllib.request.urlopen(request, timeout=10) as answer:
        print(answer.status)
        for line in answer:
            if b'"jobs"' in line:
                print(line.decode())
                break
except urllib.error.HTTPError as error:
    print(error.code, error.read().decode())
"""


@contextmanager
def deployed(cluster: Cluster, home: Space) -> Iterator[None]:
    """Install the release with the web UI and the history, and remove both afterwards."""
    values = ("ui.enabled=true", "history.enabled=true", "history.sqlite.existingClaim=records")
    with tempfile.TemporaryDirectory() as place, claimed(home, "records", Path(place)):
        try:
            install(cluster, archive("operator"), *values)
            yield
        finally:
            install(cluster, archive("operator"))


def test_the_page_and_the_history_run_in_the_cluster(
    space: Space, cluster: Cluster, tmp_path: Path
) -> None:
    home = Space(cluster, space.api, HOME)
    with deployed(cluster, home):
        space.apply(
            peers("asks", "--forever", replicas=1),
            shell("past", "echo lost; exit 3", backoffLimit=0),
        )
        space.kubectl("apply", "-f", "-", stdin=READER)
        token = space.kubectl("create", "token", "reader").strip()
        space.until_true("asks", "Running")
        space.until_true("past", "Failed", 90)

        def ask(namespace: str, credentials: str) -> str:
            url = f"http://dijob-ui.{HOME}.svc:8080/api/jobs/{namespace}"
            return space.execute("asks-0", "python3", "-c", ASK, url, credentials)

        said = ask(space.name, token)
        assert said.startswith("200"), said
        assert {"asks", "past"} <= {one["name"] for one in jobs_of(said)}
        assert ask(space.name, "").startswith("401")
        assert ask(HOME, token).startswith("403")

        config = str(write_kubeconfig(space.kubectl, token, tmp_path / "kubeconfig"))
        space.until("the log is recorded", lambda: unrecorded(space, config), 60)
        space.kubectl("delete", "dijob", "past")
        code, told = asked(space, "history", kubeconfig=config)
        assert (code, "Failed" in told) == (0, True), told
        code, told = asked(space, "history", "-A", kubeconfig=config)
        assert code != 0
        assert "cannot list dijobs in all namespaces" in told, told


def jobs_of(said: str) -> list[dict[str, str]]:
    text = said[said.index("{") :]
    found: list[dict[str, str]] = json.loads(text)["jobs"]
    return found


def unrecorded(space: Space, config: str) -> str:
    code, told = asked(space, "history", "past", "--logs", kubeconfig=config)
    return "" if code == 0 and "lost" in told else told
