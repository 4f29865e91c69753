"""Small inputs from users. Each of them once lost a job, silently gave a wrong result, or waited
without an explanation.

All inputs are created at once and checked one after the other, so that the cases wait at the same
time. The first line of a docstring states the requirement. The ids are those of the reports.
"""

import json
import re
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml
from asked import asked
from cluster import ClusterError
from jobs import REAL_SECONDS
from space import Space

pytestmark = pytest.mark.e2e

CASES = Path(__file__).parent / "cases"
HOLD = "example.com/hold"


@dataclass(frozen=True)
class Field:
    """The namespace of the cases, and the API server's answer to each input by the file's name."""

    space: Space
    answers: dict[str, str]

    def message(self, job: str) -> str:
        """The message of a job, and those of its conditions, which are not cut as early."""
        status = self.space.status(job)
        conditions = (condition.get("message", "") for condition in status.get("conditions", ()))
        return "\n".join([status.get("message", ""), *conditions])

    def reason(self, job: str, condition: str) -> str:
        """Reason and message of a condition if it is True, else ""."""
        found = self.space.condition(job, condition)
        return f"{found['reason']}: {found['message']}" if found.get("status") == "True" else ""

    def until_runs(self, job: str, seconds: float = 240) -> None:
        """Wait until all ranks run, and check that no failure was counted."""
        self.space.until_true(job, "Running", seconds)
        self.space.until_true(job, "PeersReady", seconds)
        assert self.space.status(job).get("restarts", 0) == 0

    def until_logged(self, pod: str, words: str) -> str:
        """Wait until the log of a pod has these words, and return it. A job runs before its
        programs have printed anything.
        """

        def missing() -> str:
            told = self.space.logs(pod)
            return "" if words in told else f"the log is {told!r}"

        self.space.until(f"the log of {pod} has {words!r}", missing, 60)
        return self.space.logs(pod)

    def until_message(self, job: str, *words: str, seconds: float = 120) -> str:
        """Wait until the job's message has all these words, and return it."""

        def missing() -> str:
            said = self.message(job)
            return "" if all(word in said for word in words) else f"the message is {said!r}"

        self.space.until(f"the message of {job} has {words}", missing, seconds)
        return self.message(job)

    def hold(self, kind: str, name: str, *finalizers: str) -> None:
        """Set the finalizers of an object."""
        patch = json.dumps({"metadata": {"finalizers": list(finalizers)}})
        self.space.kubectl("patch", kind, name, "--type", "merge", "-p", patch)


@pytest.fixture(scope="module")
def field(open_space: Callable[[str], AbstractContextManager[Space]]) -> Iterator[Field]:
    with open_space("field") as space:
        answers = {}
        for file in sorted(CASES.glob("*.yaml")):
            try:
                answers[file.stem] = space.kubectl("create", "-f", str(file))
            except ClusterError as error:
                answers[file.stem] = str(error)
        try:
            yield Field(space, answers)
        finally:
            # A finalizer that a failed test has left would also block the deletion of the
            # namespace.
            for kind, name in (("dijob", "c18"), ("pod", "c25-1")):
                _let_go(space, kind, name)


def _let_go(space: Space, kind: str, name: str) -> None:
    patch = '{"metadata":{"finalizers":null}}'
    if space.kubectl("get", kind, name, "--ignore-not-found", "-o", "name"):
        space.kubectl("patch", kind, name, "--type", "merge", "-p", patch)


@pytest.mark.parametrize("job", ["c01-init", "c01-probe", "c01-once"])
def test_c1_names(field: Field, job: str) -> None:
    """A container that needs a peer's name before the ranks are ready finds it."""
    field.until_runs(job)


def test_c4_nulls(field: Field) -> None:
    """Fields that Go programs and kubectl write into a template are accepted, however it is
    applied.
    """
    assert field.answers["c04-nulls"].endswith("created\n")
    body = yaml.safe_load((CASES / "c04-nulls.yaml").read_text())
    for flags in ((), ("--server-side",)):
        body["metadata"]["name"] = f"c04-{len(flags)}"
        told = field.space.kubectl(
            "apply", "--dry-run=server", *flags, "-f", "-", stdin=yaml.safe_dump(body)
        )
        assert body["metadata"]["name"] in told
    field.until_runs("c04")


def test_c6_rank(field: Field) -> None:
    """Every container of the user knows the rank, the size and the job."""
    field.space.until_true("c06", "Succeeded", 240)


def test_c6_hint(field: Field) -> None:
    """The hint about logs names the failed container, and the status quotes its last output."""
    field.space.until_true("c06-hint", "Failed", 240)
    said = field.message("c06-hint")
    assert "-c stage" in said
    assert "the bucket is empty" in said


def test_c8_args(field: Field) -> None:
    """Ranks that the launcher cannot start are reported, and are not reported as ready peers."""
    field.space.until(
        "there is a warning",
        lambda: "" if "command" in field.reason("c08", "LauncherBypassed") else "no such condition",
        60,
    )
    assert field.space.condition("c08", "PeersReady")["status"] != "True"


def test_c9_pid(field: Field) -> None:
    """A program that insists on being process 1 leads to a message that names launcher: Off."""
    field.space.until_true("c09", "Failed", 240)
    assert "launcher" in field.message("c09")
    assert "Off" in field.message("c09")


def test_c10_labels(field: Field) -> None:
    """Labels and annotations that only have an effect on pods are named, with their right place."""
    field.space.until(
        "there is a warning",
        lambda: "" if field.reason("c10", "SpecWarning") else "no SpecWarning",
        60,
    )
    said = field.reason("c10", "SpecWarning")
    for word in ("kueue.x-k8s.io/queue-name", "karpenter.sh/do-not-disrupt", "template.metadata"):
        assert word in said


def test_c13_memory(field: Field) -> None:
    """An out-of-memory kill names the limit, and the message quotes no border of a table."""
    field.space.until_true("c13", "Failed", 240)
    said = field.message("c13")
    assert "64Mi" in said
    assert "+---" not in said
    assert "| Value" not in said


def test_c16_task(field: Field) -> None:
    """A task whose pods' names would be too long is rejected, with the longest length allowed."""
    assert "63" in field.answers["c16-long-task"]
    assert field.space.job("a" * 25) == {}


def test_c27_name(field: Field) -> None:
    """The rejection of a name proposes the nearest one that is allowed."""
    _, told = asked(field.space, "apply", "-f", str(CASES / "c27-name.yaml"))
    assert "train-seed-0-lr-1e-1" in told


def test_c36_arguments(field: Field) -> None:
    """300 arguments are accepted, as in a Deployment."""
    main = {"name": "di-container", "image": "dijob/light:dev", "command": ["echo"]}
    many = {**main, "args": [f"a{number}=1" for number in range(300)]}
    body = {
        "apiVersion": "diengine.opendilab.org/v2alpha1",
        "kind": "DIJob",
        "metadata": {"name": "c36"},
        "spec": {"replicas": 1, "template": {"spec": {"containers": [many]}}},
    }
    told = field.space.kubectl("create", "--dry-run=server", "-f", "-", stdin=json.dumps(body))
    assert "c36 created" in told


def test_c48_returns(field: Field) -> None:
    """Carriage returns in a script are named as the likely cause."""
    field.space.until_true("c48", "Failed", 240)
    whole = field.message("c48") + field.space.logs("c48-0")
    assert "carriage return" in whole.lower()


def test_h24_topology(field: Field) -> None:
    """A variable that contradicts the spec is rejected, or causes a warning."""
    if not field.answers["h24-topology"].endswith("created\n"):
        assert "DI_TOPOLOGY" in field.answers["h24-topology"]
        return
    field.space.until(
        "there is a condition",
        lambda: (
            ""
            if "DI_TOPOLOGY" in field.reason("h24", "SpecWarning") + field.reason("h24", "Invalid")
            else "no condition"
        ),
        60,
    )


def test_h39_forged(field: Field) -> None:
    """Variables from a ConfigMap cannot replace the addresses of the job."""
    field.until_runs("h39")
    told = field.until_logged("h39-0", "number 1 ")
    assert "6.6.6.6" not in told


def test_x1_group(field: Field, space: Space) -> None:
    """Ranks that are rejected for the same reason form one group, whatever the pods' names."""
    strict = "pod-security.kubernetes.io/enforce=restricted"
    space.cluster.run_kubectl("label", "namespace", space.name, strict)
    body: dict[str, Any] = yaml.safe_load((CASES / "c10-queue-label.yaml").read_text())
    body["metadata"] = {"name": "x01"}
    body["spec"]["replicas"] = 6
    space.apply(body)

    def missing() -> str:
        said = str(space.condition("x01", "PodsCreated").get("message", ""))
        whole = "ranks 0-5" in said and said.count("violates PodSecurity") == 1
        # After the first attempts, each rank was rejected at a different time.
        return "" if whole and "x01-3" not in said else said or "no condition"

    space.until("all ranks are one group", missing, 120)
    space.until("it is tried again", lambda: "" if _age(space, "x01") > 8 else "younger", 120)
    assert missing() == ""


def _age(space: Space, job: str) -> float:
    return space.seconds_since(space.job(job)["metadata"]["creationTimestamp"])


@pytest.mark.parametrize("job", ["x02", "x02-five"])
def test_x2_log(field: Field, job: str) -> None:
    """The log of the last failed run stays readable, and no program ran after it."""
    field.space.until_true(job, "Failed", 240)
    first = field.space.status(job)["firstFailure"]["pod"]
    words = "here is what went wrong" if job == "x02" else "ImportError: no module"

    def missing() -> str:
        told = field.space.kubectl("logs", first)
        return "" if words in told else f"the log is {told!r}"

    # The launcher of the restarted container repeats the output when the pod is ended.
    field.space.until(f"the log of {first} has the failed run", missing, 60)
    assert field.space.kubectl("logs", first).splitlines().count("start") == 1


def test_c29_logs(field: Field) -> None:
    """`kubectl logs POD` shows the main container, whatever its position in the template is."""
    field.until_runs("c29")
    field.until_logged("c29-0", "I am the program")
    assert "I am the program" in field.space.kubectl("logs", "c29-0")


def test_c45_account(field: Field) -> None:
    """A job starts within 30 s after its missing service account is created."""
    field.until_message("c45", "c45-later")
    field.space.kubectl("create", "serviceaccount", "c45-later")
    field.until_runs("c45", 45)


def test_c3_resize(field: Field) -> None:
    """A resize that restarts the main container or a sidecar is not a failure."""
    field.until_runs("c03")
    for container, megabytes in (("di-container", 72), ("proxy", 40), ("di-container", 80)):
        amount = {"memory": f"{megabytes}Mi"}
        resources = {"name": container, "resources": {"requests": amount, "limits": amount}}
        where = "initContainers" if container == "proxy" else "containers"
        patch = json.dumps({"spec": {where: [resources]}})
        field.space.kubectl("patch", "pod", "c03-0", "--subresource", "resize", "-p", patch)

        def missing(container: str = container, amount: dict[str, str] = amount) -> str:
            status = field.space.pods("c03")[0]["status"]
            every = status["containerStatuses"] + status["initContainerStatuses"]
            one = next(each for each in every if each["name"] == container)
            has = one.get("resources", {}).get("limits", {}).get("memory")
            return "" if has == amount["memory"] and "running" in one["state"] else str(one)

        field.space.until(f"{container} has {amount}", missing, 180)
        field.until_runs("c03")
    assert field.space.status("c03")["phase"] == "Running"


def test_h16_sandbox(field: Field) -> None:
    """With restartPolicy Never, a dead sandbox is a lost pod and not a failure."""
    field.until_runs("h16")
    before = field.space.uids("h16")
    field.space.cluster.kill_sandbox(field.space.name, "h16-1")
    field.space.until(
        "rank 1 has a new pod", lambda: "" if field.space.uids("h16") != before else "the same", 60
    )
    field.until_runs("h16")


def test_c25_finalizer(field: Field) -> None:
    """The finalizer that holds a lost rank's old pod is named."""
    field.until_runs("c25")
    field.hold("pod", "c25-1", HOLD)
    field.space.kubectl("delete", "pod", "c25-1", "--wait=false")
    field.until_message("c25", HOLD)
    _, told = asked(field.space, "doctor", "c25")
    assert HOLD in told
    field.hold("pod", "c25-1")


def test_c41_grace(field: Field) -> None:
    """The container that holds a lost rank's old pod is named, with its grace period."""
    field.until_runs("c41")
    field.space.kubectl("delete", "pod", "c41-1", "--wait=false")
    field.until_message("c41", "proxy", "300 s")
    field.space.kubectl("delete", "pod", "c41-1", "--force", "--grace-period=0")
    field.until_runs("c41")
    field.space.kubectl("delete", "pods", "-l", "diengine.opendilab.org/job=c41", "--wait=false")


def test_c18_held(field: Field) -> None:
    """A deleted job that a finalizer blocks reports that, and its status stays accurate."""
    field.until_runs("c18")
    field.space.kubectl("delete", "dijob", "c18", "--cascade=foreground", "--wait=false")
    field.until_message("c18", HOLD)

    def missing() -> str:
        status = field.space.status("c18")
        wrong = status.get("readyReplicas") or status.get("phase") == "Running"
        return f"the status is {status}" if wrong else ""

    field.space.until("its figures are true", missing, 120)
    _let_go(field.space, "dijob", "c18")


def test_c17_foreground(field: Field) -> None:
    """Deletion in the foreground ends when the pods are gone."""
    field.until_runs("c17")
    field.space.kubectl("delete", "dijob", "c17", "--cascade=foreground", timeout=180)
    assert field.space.names("c17") == []


def test_c19_pending(field: Field) -> None:
    """A pod that waits for a node stays when the others' capacity is released."""

    def missing() -> str:
        waits = [pod for pod in field.space.pods("c19") if not pod["spec"].get("nodeName")]
        ages = [field.space.seconds_since(p["metadata"]["creationTimestamp"]) for p in waits]
        # More than twice scheduleTimeoutSeconds.
        return "" if max(ages, default=0) > 25 else f"the pods that wait are {ages} s old"

    field.space.until("a pod has waited for longer than scheduleTimeoutSeconds", missing, 180)


def test_h17_scaling(field: Field) -> None:
    """A job that shrinks and grows ten times grows as quickly the last time as the first time."""
    field.until_runs("h17")
    took = []
    for _ in range(10):
        field.space.kubectl("scale", "dijob", "h17", "--replicas=1")
        field.space.until_left("h17", "h17-0")
        # Otherwise, the status could still be from before.
        field.space.until("it has shrunk", partial(_unless_ready, field, 1), 60)
        field.space.kubectl("scale", "dijob", "h17", "--replicas=2")
        took.append(field.space.until("it has grown", partial(_unless_ready, field, 2), 120))
    assert max(took[5:]) < 3 * max(took[:3]) + 3, took


def _unless_ready(field: Field, count: int) -> str:
    status = field.space.status("h17")
    return "" if status.get("readyReplicas") == count else str(status.get("message"))


def test_c5_address(field: Field) -> None:
    """A ditask command with its own address runs as outside a job."""
    field.space.until_true("c05", "Succeeded", REAL_SECONDS)


@pytest.mark.parametrize("job", ["c13-dqn", "c13-ppo"])
def test_c13_progress(field: Field, job: str) -> None:
    """The serial pipelines of DI-engine report their progress without the HTTP server."""
    field.space.until_true(job, "Succeeded", REAL_SECONDS)
    progress = field.space.status(job)["progress"]
    assert progress["iteration"] >= 100, progress
    assert progress["envStep"] > 0, progress
    assert re.fullmatch(r"iter \d+, step \d+, return [0-9.]+", progress["line"]), progress
    # Only programs that get their data from other processes are measured.
    assert "waitingPercent" not in progress
