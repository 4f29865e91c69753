"""H42: the CRD is created after the operator has started, or is deleted and recreated."""

import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from apiserver.plane import NAMESPACE, Plane, job, operator
from manifests import CRD as NAME
from planes import ROOT, control_plane
from ports import free_port
from workers import own

pytestmark = pytest.mark.apiserver

CRD = ROOT / "crds/dijob.yaml"
# Seconds from the CRD's return until the pods of a new job exist. The operator looks for the CRD
# every second; 5.4 s were seen on a busy machine. With its next audit, it would need a minute, so
# this bound distinguishes the two also on a slow machine.
SECONDS = 30.0


@pytest.fixture
def bare(tmp_path: Path) -> Iterator[Plane]:
    """Yield a control plane without the CRD."""
    with control_plane(own("crd-tests"), nodes=2) as cluster:
        plane = Plane(cluster, tmp_path / "log", free_port())
        plane.log.touch()
        gone(plane)
        yield plane


def gone(plane: Plane) -> None:
    plane.kubectl("delete", "crd", NAME)


def back(plane: Plane, name: str) -> float:
    """Create the CRD and a job. Return the seconds from the job until its pods exist."""
    plane.kubectl("apply", "--server-side", "-f", str(CRD))
    plane.until("the CRD is served", lambda: plane.try_apply(job(name)).ok, lambda: None)
    began = time.monotonic()
    plane.until(f"{name} has its pods", lambda: len(plane.pods(name)) == 2, lambda: None)
    return time.monotonic() - began


def readiness(plane: Plane) -> tuple[int, str]:
    """Return status code and text of /readyz; 0 if the port is closed."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{plane.port}/readyz") as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()
    except OSError as error:
        return 0, str(error)


def until_ready(plane: Plane, status: int, words: str) -> None:
    def true() -> bool:
        seen = readiness(plane)
        return seen[0] == status and words in seen[1]

    plane.until(f"/readyz is {status}", true, lambda: readiness(plane))


def runs(process: "subprocess.Popen[bytes]") -> bool:
    return process.poll() is None


@pytest.mark.parametrize("namespaces", [(), (NAMESPACE,)], ids=["all namespaces", "one"])
def test_the_operator_waits_for_its_crd_and_then_sees_jobs_at_once(
    bare: Plane, namespaces: tuple[str, ...]
) -> None:
    """H42: without the CRD the operator is not ready, and it never needs a restart."""
    kubeconfig, log = bare.cluster.kubeconfig, bare.log
    with operator(kubeconfig, log, *namespaces, port=bare.port) as process:
        until_ready(bare, 503, "is not installed")
        assert back(bare, "first") <= SECONDS
        until_ready(bare, 200, "ok")
        bare.until_condition("first", "Running", "True")
        gone(bare)
        until_ready(bare, 503, "is not installed")
        assert back(bare, "second") <= SECONDS
        # Recreated at once, as by a GitOps tool that replaces it.
        gone(bare)
        assert back(bare, "third") <= SECONDS
        until_ready(bare, 200, "ok")
        assert runs(process), bare.log.read_text()[-2000:]
