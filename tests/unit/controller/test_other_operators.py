"""Problems that users of other operators reported. Each test or row is named after the issues.

The issues are those of JobSet, Kubernetes, the training operator (T1), pytorch-operator,
DI-orchestrator, KubeRay, Volcano, PyTorch and DLRover about ranks, restarts and elasticity. Those
that need real processes are also tested on real pods, in tests/e2e (healing, elastic, node_loss,
failures), and autoscalers in tests/apiserver/test_hpa.py.
"""

from collections.abc import Iterator
from typing import Any

import pytest
from dijob import names
from dijob.core.facts import is_true
from dijob.core.members import Gang
from dijob.reasons import Failed, Running, Succeeded
from samples.builders import manifest
from simulator.driving import ROUND_SECONDS, Faults
from simulator.rounds import WORLDS, changed, now, pod, rounds, world
from simulator.state_machine import Chaos


@pytest.fixture(autouse=True)
def closed() -> Iterator[None]:
    """Close the worlds that a test has opened."""
    yield
    while WORLDS:
        WORLDS.pop().close()


def test_jobset_262_a_restarted_job_starts_once_with_all_ranks() -> None:
    """An elastic job, too, waits for ranks that are ending, recreated or starting."""
    chaos = world(size=4)
    chaos.happens("is deleted by hand", 2)
    chaos.calm()
    status = chaos.job.status
    assert (status.list_number, status.renewals) == (2, 1)
    assert all(len(process.nodes) == 4 for process in chaos.cluster.processes)


# The job, what happens to one of its ranks, and which ranks are recreated or restarted.
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
def test_a_loss_restarts_only_the_affected_ranks(
    like: dict[str, Any], deed: str, rank: int, renewed: set[int]
) -> None:
    chaos = world(**like)
    before = now(chaos)
    chaos.happens(deed, rank)
    chaos.calm()
    assert changed(before, chaos) == renewed
    assert len(chaos.pods()) == len(before)
    assert chaos.job.status.restarts == (deed == "main crashes")


def test_jobset_684_no_rank_starts_before_the_old_pods_are_gone() -> None:
    """In JobSet, overlapping attempts connected to terminating pods."""
    chaos = world()
    chaos.happens("is deleted by hand", 0)
    number = chaos.job.status.list_number
    for _ in range(5):
        chaos.hears(True)
        # The kubelet does nothing: the old pod hangs Terminating.
        chaos.goes_on(Faults(), ROUND_SECONDS)
    assert [pod.deleting for pod in chaos.pods()] == [True, False, False]
    assert all(pod.told[0] == number for pod in chaos.pods())
    assert chaos.job.status.list_number == number
    chaos.calm()


def test_jobset_928_a_failure_is_counted_while_other_ranks_run() -> None:
    chaos = world(never=True)
    chaos.happens("main crashes", 1)
    rounds(chaos)
    assert pod(chaos, 0).process is not None
    assert chaos.job.status.restarts == 1
    assert chaos.job.status.first_failure is not None


def test_jobset_467_876_a_crashed_rank_restarts_in_its_pod() -> None:
    chaos = world()
    before = {rank: uid for rank, (uid, _) in now(chaos).items()}
    chaos.happens("main crashes", 1)
    chaos.calm()
    assert {rank: uid for rank, (uid, _) in now(chaos).items()} == before
    assert chaos.job.status.renewals == 0


def test_kubernetes_115844_never_two_pods_of_one_rank() -> None:
    """Pod names are computed, so a pod and its replacement cannot exist at the same time."""
    chaos = world()
    chaos.happens("is deleted by hand", 2)
    for _ in range(3):
        chaos.hears(True)
        chaos.goes_on(Faults(), ROUND_SECONDS)
        assert len({pod.rank for pod in chaos.pods()}) == len(chaos.pods())
        assert pod(chaos, 2).deleting
    chaos.calm()


def test_t1_2342_1589_backoff_limit_ends_the_restarts() -> None:
    chaos = world(limit=2)
    for _ in range(3):
        chaos.happens("main crashes", 1)
        rounds(chaos, 2)
    status = chaos.job.status
    assert is_true(status, Failed)
    assert status.restarts == 3
    chaos.calm()


def test_pytorch_operator_359_no_rank_hangs_after_a_pod_is_recreated_elsewhere() -> None:
    """A peer's new address reaches all ranks that dial it."""
    chaos = world()
    old = pod(chaos, 0).ip
    chaos.happens("is deleted by hand", 0)
    chaos.calm()
    assert pod(chaos, 0).ip != old
    assert all(old not in process.nodes for process in chaos.cluster.processes)


def test_di_orchestrator_27_a_pod_is_identified_by_its_name_not_by_labels() -> None:
    chaos = world()
    before = now(chaos)
    for one in chaos.pods():
        chaos.cluster.patch("pods", one.name, {"metadata": {"labels": {names.LABEL_RANK: "7"}}})
    chaos.calm()
    assert changed(before, chaos) == set()


def test_di_orchestrator_24_the_subdomain_is_the_name_of_the_service() -> None:
    spec = manifest(world().job)["spec"]
    assert (spec["hostname"], spec["subdomain"]) == ("job-0", "job")


def test_kuberay_1489_2161_3903_3860_4217_a_lost_head_never_leaves_the_job_running() -> None:
    chaos = world(shape="star")
    # With the quota full, the pod cannot be recreated for now.
    chaos.cluster.quota = True
    chaos.happens("is deleted by hand", 0)
    rounds(chaos, 4)
    status = chaos.job.status
    assert not is_true(status, Running)
    assert "rank 0" in status.message
    chaos.calm()


def test_volcano_1226_3296_a_rank_that_has_succeeded_does_not_run_again() -> None:
    chaos = world()
    chaos.happens("succeeds", 0)
    rounds(chaos, 2)
    done = pod(chaos, 0)
    # The pod is gone with its node.
    chaos.cluster.bury(done)
    chaos.calm()
    assert 0 not in {process.rank for process in chaos.cluster.processes}
    assert chaos.job.status.succeeded_ranks == "0"


def test_volcano_5385_repeated_losses_never_block_a_restart() -> None:
    """A job is complete again after losses during its recovery from other losses."""
    chaos = world()
    for deed in ("is deleted by hand", "is evicted", "is deleted by hand"):
        chaos.happens(deed, 1)
        rounds(chaos)
    chaos.calm()


# --- elastic
# ------------------------------------------------------------------------------------------------


def test_t1_1509_scaling_down_restarts_no_rank() -> None:
    chaos = world(size=3)
    before = now(chaos)
    chaos.user_scales(2)
    chaos.calm()
    assert changed(before, chaos) == {2}


def test_t1_1626_1645_1701_the_status_has_replicas_and_selector_for_autoscalers() -> None:
    status = world(size=3).job.status
    assert (status.replicas, status.selector) == (3, f"{names.LABEL_JOB}=job")


def test_t1_1751_a_rank_without_a_node_does_not_keep_a_finished_job_running() -> None:
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


def test_pytorch_67742_91943_a_rank_that_leaves_is_not_a_failure() -> None:
    chaos = world(size=4, limit=0)
    chaos.user_scales(2)
    chaos.calm()
    status = chaos.job.status
    assert (status.phase, status.restarts, status.first_failure) == ("Running", 0, None)


def test_dlrover_1534_new_ranks_join_together_without_a_timeout() -> None:
    chaos = world(size=2)
    chaos.user_scales(4)
    # Two and a half seconds.
    rounds(chaos, 5)
    assert len(chaos.cluster.processes) == 4


def test_t2_2903_jobset_463_1179_a_running_job_scales_up() -> None:
    chaos = world(size=2)
    before = now(chaos)
    chaos.user_scales(4)
    chaos.calm()
    assert changed(before, chaos) == set()
    assert sorted(process.rank for process in chaos.cluster.processes) == [0, 1, 2, 3]


def test_volcano_scale_up_down_a_restarted_process_gets_the_new_environment() -> None:
    """In Volcano the environment stays stale. Here it is resolved at each start, and the file is
    updated while the process runs.
    """
    chaos = world(size=2)
    chaos.user_scales(3)
    chaos.calm()
    chaos.happens("main crashes", 0)
    chaos.calm()
    restarted = pod(chaos, 0).process
    assert restarted is not None
    assert (restarted.env["DI_NUM_NODES"], len(restarted.nodes)) == ("3", 3)


def test_a_bug_in_the_dialers_fails_these_tests(monkeypatch: pytest.MonkeyPatch) -> None:
    """If no rank restarts because it dials the lost one, the first issue is reproduced."""
    monkeypatch.setattr(Gang, "dialers", lambda self, rank: frozenset())
    with pytest.raises(AssertionError):
        test_a_loss_restarts_only_the_affected_ranks({}, "is deleted by hand", 1, {1, 2})
