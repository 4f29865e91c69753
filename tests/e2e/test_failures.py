"""Programs that fail: counted failures, backoffLimit, remaining logs, and success nevertheless."""

from typing import Any

import pytest
from jobs import peers, shell
from space import Space, measured

pytestmark = pytest.mark.e2e

# Rank 1 fails each time, and writes a termination message. The other ranks keep running.
CRASHER = """
if [ "$DI_RANK" = 1 ]; then
  echo "rank 1 has begun and gives up"
  echo "no GPU found" >/dev/termination-log
  exit 7
fi
exec sleep 3600
"""
# The same, but rank 1 waits for a file. The other ranks have started by then.
WHEN_TOLD = "until [ -e /tmp/now ]; do sleep 0.2; done" + CRASHER


def left(space: Space, job: str) -> dict[str, str]:
    """Return the phases of the job's pods that are not being deleted, by name."""
    pods = [pod for pod in space.pods(job) if "deletionTimestamp" not in pod["metadata"]]
    return {pod["metadata"]["name"]: pod["status"]["phase"] for pod in pods}


def until_left(space: Space, job: str, wanted: dict[str, str]) -> None:
    """Wait until exactly these pods are left, in these phases."""
    space.until(
        f"pods of {job}", lambda: "" if (found := left(space, job)) == wanted else str(found), 120
    )


def test_a_rank_that_crashes_repeatedly_fails_the_job_and_its_logs_stay(space: Space) -> None:
    space.apply(shell("crash", CRASHER, replicas=3, backoffLimit=2))
    waited = space.until_true("crash", "Failed", 240)
    measured("seconds until a job with backoffLimit 2 has Failed", f"{waited:.1f}")
    status = space.status("crash")
    # There were backoffLimit restarts, and then the last failure.
    assert status["restarts"] == 3
    failed = space.condition("crash", "Failed")
    assert failed["reason"] == "BackoffLimitExceeded"
    assert "rank 1 exited 7: no GPU found" in failed["message"]
    first = status["firstFailure"]
    told = {key: first[key] for key in ("rank", "pod", "exitCode", "message")}
    assert told == {"rank": 1, "pod": "crash-1", "exitCode": 7, "message": "no GPU found"}
    assert first["node"]
    until_left(space, "crash", {"crash-1": "Failed"})
    # Pods that are being deleted may still be listed.
    (failed_pod,) = (pod for pod in space.pods("crash") if pod["metadata"]["name"] == "crash-1")
    main = failed_pod["status"]["containerStatuses"][0]
    assert main["restartCount"] == 2
    # The job reports its own reason even if the kubelet gives a different one, and the pod explains
    # the kubelet's reason.
    ends = [
        main[when]["terminated"]["exitCode"]
        for when in ("state", "lastState")
        if "terminated" in main[when]
    ]
    assert 7 in ends, main
    assert (
        "DeadlineExceeded" in failed_pod["metadata"]["annotations"]["diengine.opendilab.org/ended"]
    )
    assert "rank 1 has begun and gives up" in space.all_logs("crash-1")


@pytest.mark.parametrize(
    ("policy", "wanted"),
    [
        ("All", {}),
        ("None", {"crash-0": "Running", "crash-1": "Failed", "crash-2": "Running"}),
    ],
)
def test_after_a_failure_clean_pod_policy_decides_which_pods_are_deleted(
    space: Space, policy: str, wanted: dict[str, str]
) -> None:
    space.apply(shell("crash", WHEN_TOLD, replicas=3, backoffLimit=0, cleanPodPolicy=policy))
    space.until_true("crash", "Running", 240)
    space.touch("crash-1", "/tmp/now")
    space.until_true("crash", "Failed")
    assert space.status("crash")["restarts"] == 1
    until_left(space, "crash", wanted)


def test_sidecars_that_never_end_do_not_block_a_job(space: Space) -> None:
    sidecar = {"name": "logger", "image": "dijob/light:dev", "command": ["sleep", "3600"]}
    pod = {"containers": [sidecar], "terminationGracePeriodSeconds": 1}
    space.apply(peers("short", "--seconds=1", pod=pod))
    space.until_true("short", "Succeeded")
    assert space.status("short")["succeededRanks"] == "0-1"
    # Their pods would run forever; the default cleanPodPolicy, Running, deletes them.
    until_left(space, "short", {})


def test_the_logs_of_succeeded_pods_stay(space: Space) -> None:
    space.apply(peers("short", "--seconds=1"))
    space.until_true("short", "Succeeded")
    assert space.kubectl("wait", "--for=condition=Succeeded", "--timeout=5s", "dijob/short")
    until_left(space, "short", {"short-0": "Succeeded", "short-1": "Succeeded"})
    assert "peer 1 connected to 0" in space.logs("short-1")


def test_with_restart_policy_never_a_failed_pod_is_recreated_and_counted(space: Space) -> None:
    space.apply(shell("never", CRASHER, pod={"restartPolicy": "Never"}, backoffLimit=1))
    space.until_true("never", "Failed", 240)
    status = space.status("never")
    assert (status["restarts"], status["listNumber"], status["renewals"]) == (2, 2, 1)
    assert status["firstFailure"]["exitCode"] == 7
    until_left(space, "never", {"never-1": "Failed"})
    assert "gives up" in space.logs("never-1")


def test_a_rank_that_crashes_once_restarts_in_place_and_counts_once(space: Space) -> None:
    keep: dict[str, Any] = {"volumes": [{"name": "keep", "emptyDir": {}}]}
    script = """
    if [ "$DI_RANK" = 1 ] && [ ! -e /keep/crashed ]; then touch /keep/crashed; exit 5; fi
    exec light-peer --seconds=6  # as long as no rank has succeeded, none needs a new list
    """
    job = shell("once", script, pod=keep, replicas=3)
    main = job["spec"]["template"]["spec"]["containers"][0]
    main["volumeMounts"] = [{"name": "keep", "mountPath": "/keep"}]
    space.apply(job)
    space.until_true("once", "Succeeded", 240)
    status = space.status("once")
    assert (status["restarts"], status["listNumber"], status.get("renewals", 0)) == (1, 1, 0)
    assert status["firstFailure"]["exitCode"] == 5
    assert status["succeededRanks"] == "0-2"


def test_the_reason_of_a_pod_that_a_node_does_not_admit_is_kept(space: Space) -> None:
    """Such a pod fails at once and is recreated. The message is kept meanwhile."""
    pod = {"nodeName": space.cluster.nodes[0], "nodeSelector": {"gpu": "none-has-it"}}
    space.apply(peers("refused", pod=pod, replicas=1))
    said: list[str] = []

    def silent() -> str:
        message = str(space.status("refused").get("message"))
        if said or "NodeAffinity" in message:
            said.append(message)
        events = space.kubectl(
            "get", "events", "--field-selector=reason=NodeAffinity", "-o", "name"
        )
        return "" if said and len(events.split()) >= 4 else f"{events}{message}"

    space.until("a node has refused four pods", silent, 180)
    assert set(said) == {said[0]}, said
    assert said[0].startswith("rank 0: NodeAffinity: Predicate NodeAffinity failed"), said
