"""What users of the other operators suffered from, thread by thread: each is a test, or
a row, that is named after it.

The threads are those of JobSet, Kubernetes, the training operator (T1), pytorch-operator,
DI-orchestrator, KubeRay, Volcano, PyTorch and DLRover about ranks, restarts and elasticity. What
needs real processes is shown on real pods too, in tests/e2e (healing, elastic, node_loss,
failures), and autoscalers in tests/apiserver/test_hpa.py.
"""

from collections.abc import Iterator
from typing import Any

import pytest
from dijob import names
from dijob.core.members import Gang
from dijob.core.report.summary import is_true
from dijob.reasons import Failed, Running, Succeeded
from unit.builders import manifest
from unit.driving import ROUND_SECONDS, Faults
from unit.invariants import told
from unit.machine import Chaos
from unit.rounds import WORLDS, changed, now, pod, rounds, world


@pytest.fixture(autouse=True)
def closed() -> Iterator[None]:
    """What a test has begun ends with it."""
    yield
    while WORLDS:
        WORLDS.pop().close()


def test_jobset_262_a_set_that_is_renewed_begins_once_and_whole() -> None:
    """Also an elastic one: members are waited for while they end, come back and start."""
    chaos = world(size=4)
    chaos.happens("is deleted by hand", 2)
    chaos.calm()
    status = chaos.job.status
    assert (status.list_number, status.renewals) == (2, 1)
    assert all(len(process.nodes) == 4 for process in chaos.cluster.processes)


# What the job is like, what happens to a rank, and which ranks are made anew, or start again.
LOSSES: dict[str, tuple[dict[str, Any], str, int, set[int]]] = {
    "jobset 574: a pod is deleted, those that dialled it": ({}, "is deleted by hand", 1, {1, 2}),
    "jobset 574: a node is lost, the same": ({}, "loses its node", 1, {1, 2}),
    "jobset 918, 1129: only what failed": (
        {"shape": "star", "size": 4},
        "is deleted by hand",
        2,
        {2},
    ),
    "t1 2269: all, where the user says so": (
        {"scope": "Job"},
        "is deleted by hand",
        2,
        {0, 1, 2},
    ),
    "di-orchestrator 25: a job of one": ({"size": 1}, "is deleted by hand", 0, {0}),
    "kuberay 4078: a pod hangs on a dead node": ({}, "is cut off with its node", 2, {2}),
    "volcano 1866: a pod has failed": ({"never": True}, "main crashes", 2, {2}),
    "volcano 4814: an eviction costs nothing": ({"limit": 0}, "is evicted", 2, {2}),
}


@pytest.mark.parametrize(("like", "deed", "rank", "renewed"), LOSSES.values(), ids=LOSSES)
def test_a_loss_renews_whom_it_must(
    like: dict[str, Any], deed: str, rank: int, renewed: set[int]
) -> None:
    chaos = world(**like)
    before = now(chaos)
    chaos.happens(deed, rank)
    chaos.calm()
    assert changed(before, chaos) == renewed
    assert len(chaos.pods()) == len(before)
    assert chaos.job.status.restarts == (deed == "main crashes")


def test_jobset_684_nobody_starts_before_the_old_pods_have_gone() -> None:
    """Overlapping attempts connected to dying pods."""
    chaos = world()
    chaos.happens("is deleted by hand", 0)
    number = chaos.job.status.list_number
    for _ in range(5):
        chaos.hears(True)
        # The kubelet does nothing: the old pod hangs Terminating.
        chaos.goes_on(Faults(), ROUND_SECONDS)
    assert [pod.deleting for pod in chaos.pods()] == [True, False, False]
    assert all(told(pod)[0] == number for pod in chaos.pods())
    assert chaos.job.status.list_number == number
    chaos.calm()


def test_jobset_928_a_failure_is_seen_while_the_others_still_run() -> None:
    chaos = world(never=True)
    chaos.happens("main crashes", 1)
    rounds(chaos)
    assert pod(chaos, 0).process is not None
    assert chaos.job.status.restarts == 1
    assert chaos.job.status.first_failure is not None


def test_jobset_467_876_a_crash_heals_in_place() -> None:
    chaos = world()
    before = {rank: uid for rank, (uid, _) in now(chaos).items()}
    chaos.happens("main crashes", 1)
    chaos.calm()
    assert {rank: uid for rank, (uid, _) in now(chaos).items()} == before
    assert chaos.job.status.renewals == 0


def test_kubernetes_115844_never_two_pods_of_one_rank() -> None:
    """Names are computed, so a replacement cannot exist beside a pod that is still ending."""
    chaos = world()
    chaos.happens("is deleted by hand", 2)
    for _ in range(3):
        chaos.hears(True)
        chaos.goes_on(Faults(), ROUND_SECONDS)
        assert len({pod.rank for pod in chaos.pods()}) == len(chaos.pods())
        assert pod(chaos, 2).deleting
    chaos.calm()


def test_t1_2342_backoff_limit_has_an_effect_and_1589_nobody_restarts_for_ever() -> None:
    chaos = world(limit=2)
    for _ in range(3):
        chaos.happens("main crashes", 1)
        rounds(chaos, 2)
    status = chaos.job.status
    assert is_true(status, Failed)
    assert status.restarts == 3
    chaos.calm()


def test_pytorch_operator_359_nobody_hangs_after_a_pod_came_back_elsewhere() -> None:
    """A peer's new address reaches everybody who dials it."""
    chaos = world()
    old = pod(chaos, 0).ip
    chaos.happens("is deleted by hand", 0)
    chaos.calm()
    assert pod(chaos, 0).ip != old
    assert all(old not in process.nodes for process in chaos.cluster.processes)


def test_di_orchestrator_27_a_pod_is_known_by_its_name_and_not_by_what_labels_say() -> None:
    chaos = world()
    before = now(chaos)
    for one in chaos.pods():
        chaos.cluster.patch("pods", one.name, {"metadata": {"labels": {names.LABEL_RANK: "7"}}})
    chaos.calm()
    assert changed(before, chaos) == set()


def test_di_orchestrator_24_the_subdomain_is_the_service() -> None:
    spec = manifest(world().job)["spec"]
    assert (spec["hostname"], spec["subdomain"]) == ("job-0", "job")


def test_kuberay_1489_2161_3903_3860_4217_a_lost_head_never_leaves_the_job_running() -> None:
    chaos = world(shape="star")
    chaos.cluster.quota = True  # and it cannot come back for now
    chaos.happens("is deleted by hand", 0)
    rounds(chaos, 4)
    status = chaos.job.status
    assert not is_true(status, Running)
    assert "rank 0" in status.message
    chaos.calm()


def test_volcano_1226_3296_who_has_succeeded_is_not_run_again() -> None:
    chaos = world()
    chaos.happens("succeeds", 0)
    rounds(chaos, 2)
    done = pod(chaos, 0)
    chaos.cluster.bury(done)  # its node is removed
    chaos.calm()
    assert 0 not in {process.rank for process in chaos.cluster.processes}
    assert chaos.job.status.succeeded_ranks == "0"


def test_volcano_5385_no_restart_gets_stuck() -> None:
    """Whatever is lost, and again on the way: the set ends whole."""
    chaos = world()
    for deed in ("is deleted by hand", "is evicted", "is deleted by hand"):
        chaos.happens(deed, 1)
        rounds(chaos)
    chaos.calm()


# --- elastic
# ------------------------------------------------------------------------------------------------


def test_t1_1509_scaling_down_restarts_nobody() -> None:
    chaos = world(size=3)
    before = now(chaos)
    chaos.user_scales(2)
    chaos.calm()
    assert changed(before, chaos) == {2}


def test_t1_1626_1645_1701_the_scale_subresource_has_what_an_autoscaler_reads() -> None:
    status = world(size=3).job.status
    assert (status.replicas, status.selector) == (3, f"{names.LABEL_JOB}=job")


def test_t1_1751_a_rank_that_never_found_room_does_not_keep_a_finished_job_running() -> None:
    chaos = world(size=3)
    chaos.room_changes(3)
    chaos.user_scales(4)
    rounds(chaos)
    chaos.time_passes(12)
    rounds(chaos)
    assert "joining later: rank 3" in _said(chaos, "AddressesReady")
    for _ in range(3):
        chaos.happens("succeeds", 0)
    rounds(chaos, 2)
    assert is_true(chaos.job.status, Succeeded)


def _said(chaos: Chaos, type_: str) -> str:
    return next(c.message for c in chaos.job.status.conditions if c.type == type_)


def test_pytorch_67742_91943_who_leaves_is_no_failure() -> None:
    chaos = world(size=4, limit=0)
    chaos.user_scales(2)
    chaos.calm()
    status = chaos.job.status
    assert (status.phase, status.restarts, status.first_failure) == ("Running", 0, None)


def test_dlrover_1534_all_who_are_wished_for_join_at_once_without_a_timeout() -> None:
    chaos = world(size=2)
    chaos.user_scales(4)
    rounds(chaos, 5)  # two and a half seconds
    assert len(chaos.cluster.processes) == 4


def test_t2_2903_jobset_463_1179_a_running_job_grows() -> None:
    chaos = world(size=2)
    before = now(chaos)
    chaos.user_scales(4)
    chaos.calm()
    assert changed(before, chaos) == set()
    assert sorted(process.rank for process in chaos.cluster.processes) == [0, 1, 2, 3]


def test_volcano_scale_up_down_what_a_restarted_process_reads_is_new() -> None:
    """There the environment stays stale; here it is resolved at each start, and the file follows
    while it runs.
    """
    chaos = world(size=2)
    chaos.user_scales(3)
    chaos.calm()
    chaos.happens("main crashes", 0)
    chaos.calm()
    restarted = pod(chaos, 0).process
    assert restarted is not None
    assert (restarted.env["DI_NUM_NODES"], len(restarted.nodes)) == ("3", 3)


def test_these_tests_can_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    """With the dialers forgotten, the first thread is back."""
    monkeypatch.setattr(Gang, "dialers", lambda self, rank: frozenset())
    with pytest.raises(AssertionError):
        test_a_loss_renews_whom_it_must({}, "is deleted by hand", 1, {1, 2})
