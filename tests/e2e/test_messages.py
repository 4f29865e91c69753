"""Messages about real failures: container, probe, limit, and the command for the log."""

import json
import re
import shlex
from datetime import datetime

import pytest
from dijob.core.observed.complaints import RETRIED_SECONDS
from jobs import LIGHT, REQUESTS, Body, config_map, job, mounted, peers, shell
from space import Space

pytestmark = pytest.mark.e2e

BESIDE = {"image": LIGHT, "imagePullPolicy": "IfNotPresent", **REQUESTS}
SIDECAR = {"name": "metrics", "command": ["/bin/bash", "-c", "echo I am the sidecar; sleep 600"]}
RESTRICTED = "pod-security.kubernetes.io/enforce=restricted"


def failed(space: Space, name: str) -> str:
    space.until_true(name, "Failed", 120)
    return str(space.condition(name, "Failed")["message"])


def until_told(space: Space, message: str, words: str) -> None:
    """Wait until the command in the message prints these words."""
    found = re.search(r"`kubectl (logs [^`]+)`", message)
    assert found, message
    command = shlex.split(found[1])

    def problem() -> str:
        said = space.kubectl(*command)
        return "" if words in said else f"it prints {said!r}"

    space.until(f"{found[0]} prints {words!r}", problem, 20)


def main_first(made: Body, *, last: bool) -> Body:
    """Return the job with its main container before the others, or after them (`last`)."""
    containers = made["spec"]["template"]["spec"]["containers"]
    containers.sort(key=lambda one: (one["name"] == "di-container") is last)
    return made


@pytest.mark.parametrize("policy", ["OnFailure", "Never"])
def test_a_failed_init_container_is_named_and_the_command_prints_its_log(
    space: Space, policy: str
) -> None:
    """Regression test for the report C6."""
    stage = {"name": "stage", "command": ["sh", "-c", "echo no data at /data; exit 3"], **BESIDE}
    pod = {"initContainers": [stage], "restartPolicy": policy}
    space.apply(peers("stage", pod=pod, replicas=1, backoffLimit=0))
    message = failed(space, "stage")
    assert message.endswith("the first failure: rank 0: container stage exited 3: no data at /data")
    assert "stage-0 -c stage" in message
    until_told(space, message, "no data at /data")


def test_the_log_of_the_main_container_is_found_behind_a_sidecar(space: Space) -> None:
    """Regression test for the report C29."""
    pod = {"containers": [{**SIDECAR, **BESIDE}], "terminationGracePeriodSeconds": 1}
    script = "echo the cause; exit 3"
    space.apply(main_first(shell("side", script, pod=pod, replicas=1, backoffLimit=0), last=True))
    message = failed(space, "side")
    assert message.endswith("the first failure: rank 0 exited 3: the cause")
    until_told(space, message, "the cause")


@pytest.mark.parametrize("probe", ["livenessProbe", "startupProbe"])
def test_the_probe_that_ended_a_program_is_named(space: Space, probe: str) -> None:
    """Regression test for the report H11."""
    kind = probe.removesuffix("Probe")
    checks = {"exec": {"command": ["cat", "/no/such"]}, "periodSeconds": 1, "failureThreshold": 2}
    main = {"command": ["/bin/bash", "-c", "echo step 7; exec sleep 600"], probe: checks}
    space.apply(job("probed", main, replicas=1, backoffLimit=0))
    message = failed(space, "probed")
    words = f"the first failure: rank 0 was killed by the kubelet: its {kind} probe failed"
    assert words in message
    # The kubelet's event with the result of the probe can arrive later than the pod's status.
    result = message.partition(words)[2]
    assert not result or "/no/such" in result
    assert "step 7" not in message


def test_out_of_memory_names_the_limit(space: Space) -> None:
    """Regression test for the report C13."""
    main = {"command": ["python3", "-c", "print('step 7', flush=True); bytearray(10**9)"]}
    limits = {"resources": {"limits": {"memory": "64Mi"}}}
    space.apply(job("memory", {**main, **limits}, replicas=1, backoffLimit=0))
    message = failed(space, "memory")
    limit = "OOMKilled: the container's memory limit is 64Mi"
    assert message.endswith(f"the first failure: rank 0 ran out of memory ({limit})")


# With its default settings, the operator adds no container to a pod. With `service: Always`, it
# adds a gate, which has the security context of the main container.
@pytest.mark.parametrize(
    ("service", "begin"),
    [
        ("Auto", 'pods "six-0" is forbidden: violates PodSecurity'),
        ("Always", "correct the main container: dijob-gate and dijob-launcher"),
    ],
    ids=["channel", "gate"],
)
def test_ranks_that_pod_security_rejects_are_one_group(
    space: Space, service: str, begin: str
) -> None:
    """Regression test for the reports X1 and C49."""
    space.kubectl("label", "namespace", space.name, RESTRICTED)
    space.apply(peers("six", replicas=6, service=service))
    said = set[str]()

    def problem() -> str:
        if message := space.condition("six", "PodsCreated").get("message", ""):
            said.add(message)
        # By then the operator has tried to create several ranks.
        age = space.seconds_since(space.job("six")["metadata"]["creationTimestamp"])
        return "" if age > 15 and any("PodSecurity" in text for text in said) else f"{age}: {said}"

    space.until("the job is 15 s old and says why", problem, 120)
    (text,) = {text for text in said if "PodSecurity" in text}
    assert text.startswith(f"ranks 0-5: {begin}")
    assert text.count("is forbidden") == 1
    assert 'pods "six-0" is forbidden' in text


def test_a_config_map_that_is_created_a_second_later_causes_no_event(space: Space) -> None:
    """Regression test for the report N3. On a machine that is too busy to mount the ConfigMap in
    time, the event must not come earlier than the operator's patience.
    """
    mount, volume = mounted("late", "/code")
    main = {"command": ["/bin/bash", "-c", "exec sleep 600"], **mount}
    space.apply(job("late", main, pod=volume))
    space.until("its pods", lambda: "" if space.pods("late") else "no pod", 30)
    space.apply(config_map("late", main_py="x"))
    space.until_true("late", "Running", 60)
    events = json.loads(space.kubectl("get", "events", "-o", "json"))["items"]
    first = {reason: since(events, reason) for reason in ("FailedMount", "AddressMissing")}
    if alarm := first["AddressMissing"]:
        assert first["FailedMount"], events
        assert (alarm - first["FailedMount"]).total_seconds() >= RETRIED_SECONDS, events


def since(events: list[Body], reason: str) -> datetime | None:
    """Return the time of the first event with this reason; None if there is none."""
    stamps = (one["firstTimestamp"] for one in events if one["reason"] == reason)
    return min(map(datetime.fromisoformat, stamps), default=None)
