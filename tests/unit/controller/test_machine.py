"""A job under everything that can happen to it, in any order (see
docs/decisions/005-model-based-tests.md).
"""

from typing import Any

import pytest
from dijob.names import Addressing, CleanPodPolicy, Launcher, ServicePolicy
from hypothesis import settings
from hypothesis.stateful import run_state_machine_as_test
from simulator.core_bugs import (
    Patch,
    a_blocked_rank_restarts_alone,
    a_budget_counts_succeeded_ranks,
    a_budget_is_not_recorded,
    a_budget_stays_after_the_end,
    a_disruption_is_counted_repeatedly,
    a_forged_list_stays_on_its_pod,
    a_gang_counts_succeeded_ranks,
    a_group_does_not_restart_with_its_lost_rank,
    a_new_redis_server_is_mistaken_for_the_old_one,
    a_partly_published_list_is_not_completed,
    a_revision_is_reused,
    a_stall_restarts_repeatedly,
    a_success_is_discarded_after_the_loss_is_stored,
    a_success_under_a_stale_list_counts,
    address_changes_are_ignored,
    an_end_without_a_record_counts_as_a_crash,
    counted_failures_are_forgotten,
    dead_sandboxes_count_as_failures,
    evictions_by_the_queue_are_ignored,
    evictions_count_as_failures,
    overdue_restarts_are_requested_again,
    overdue_restarts_are_waited_for,
    pods_are_deleted_before_the_suspension_is_stored,
    pods_are_deleted_before_their_failure_is_stored,
    quota_is_given_back_before_the_pods_are_gone,
    ranks_are_created_before_there_is_quota,
    ranks_beyond_the_desired_size_stay,
    ranks_do_not_wait_for_the_redis_server,
    ranks_that_connect_to_the_lost_rank_do_not_restart,
    requested_restarts_count_as_failures,
    succeeded_ranks_are_left_out_of_a_gang_restart,
    surviving_ranks_do_not_get_the_next_list,
    the_address_of_a_lost_rank_is_published,
    the_list_keeps_ranks_that_left,
    the_list_on_a_pod_is_trusted,
    the_quota_of_a_running_sidecar_is_given_back,
    time_suspended_counts,
    unrequested_restarts_are_forgotten,
)
from simulator.driving import Faults
from simulator.kubelet import NOT_FOUND, NOT_MOUNTED
from simulator.state_machine import Chaos
from simulator.stories import CHANNEL, LIVES, RENEWALS, STALLS, STORIES, TO_RUN, play_with_each_kill

CHAOS = settings(stateful_step_count=25)


@pytest.mark.parametrize("story", STORIES)
def test_a_kill_before_any_write_of_a_story_does_not_change_its_end(story: str) -> None:
    play_with_each_kill(story)


@pytest.mark.parametrize(
    "story", ["sandbox lost", "pod fails before the first list", "crashes until it fails"]
)
def test_stories_with_restart_policy_never(story: str) -> None:
    play_with_each_kill(story, never=True)


@pytest.mark.parametrize(
    "story",
    ["pod deleted by hand", "lower rank lost during a re-rendezvous", "crashes while it is lost"],
)
def test_stories_with_recreated_pods(story: str) -> None:
    play_with_each_kill(story, launcher=Launcher.OFF)


@pytest.mark.parametrize(
    "story",
    ["starts", "pod deleted by hand", "sandbox lost", "one succeeds, another is lost", "grows"],
)
def test_stories_with_hostname_addressing(story: str) -> None:
    play_with_each_kill(story, addressing=Addressing.HOSTNAME)


@pytest.mark.parametrize("story", [*STORIES, *RENEWALS])
def test_stories_with_a_channel(story: str) -> None:
    play_with_each_kill(story, **CHANNEL)


@pytest.mark.parametrize(
    "story", ["starts", "pod deleted by hand", "crashes until it fails", "grows"]
)
def test_stories_with_a_channel_that_is_blocked(story: str) -> None:
    play_with_each_kill(story, **CHANNEL, blocked=True)


@pytest.mark.parametrize("error", [NOT_MOUNTED, NOT_FOUND], ids=["not mounted", "not found"])
@pytest.mark.parametrize("shape", [{}, CHANNEL], ids=["gate", "channel"])
@pytest.mark.parametrize("story", ["starts", "pod deleted by hand", "crashes until it fails"])
def test_stories_on_nodes_that_cannot_mount_the_launcher(
    story: str, shape: dict[str, Any], error: tuple[str, str]
) -> None:
    play_with_each_kill(story, **shape, no_mount=error)


@pytest.mark.parametrize("story", LIVES)
def test_stories_with_additional_features(story: str) -> None:
    play_with_each_kill(story, extra=LIVES[story][0])


@pytest.mark.parametrize("story", STALLS)
def test_stories_of_a_training_that_makes_no_progress(story: str) -> None:
    play_with_each_kill(story, **CHANNEL, extra="stalls")


def after_a_loss(
    rank: int, addressing: Addressing = Addressing.IP
) -> tuple[Chaos, set[int], set[int]]:
    """Lose a rank of a job of three ranks, and wait for the recovery. Return the job, the ranks
    with an unchanged process, and the ranks with an unchanged pod.
    """
    chaos = Chaos()
    chaos.begin(
        3, CleanPodPolicy.RUNNING, never=False, sidecar=False, limit=0, addressing=addressing
    )
    try:
        chaos.it_goes_on_until_a_fault(TO_RUN, Faults())
        before = {pod.rank: (pod.uid, pod.process) for pod in chaos.pods()}
        chaos.happens("is deleted by hand", rank)
        chaos.calm()
        after = {pod.rank: (pod.uid, pod.process) for pod in chaos.pods()}
    finally:
        chaos.close()
    same_pod = {rank for rank in before if after[rank][0] == before[rank][0]}
    return chaos, {rank for rank in before if after[rank] == before[rank]}, same_pod


def test_with_hostname_addressing_a_loss_restarts_no_other_rank() -> None:
    _, untouched, _ = after_a_loss(0, Addressing.HOSTNAME)
    assert untouched == {1, 2}


@pytest.mark.parametrize("story", RENEWALS)
def test_a_kill_before_any_write_of_an_in_place_restart(story: str) -> None:
    play_with_each_kill(story)


def test_ranks_that_do_not_dial_the_lost_rank_keep_running() -> None:
    chaos, untouched, same_pod = after_a_loss(1)
    assert untouched == {0}
    assert same_pod == {0, 2}
    assert chaos.job.status.restarts == 0
    last = chaos.job.status.last_renewal
    assert last is not None
    assert last.ranks == "1-2"


def test_a_job_ends_correctly_whatever_happens() -> None:
    run_state_machine_as_test(Chaos, settings=CHAOS)


def test_a_wait_is_not_extended_by_rounding() -> None:
    """A delayed status of this job was due in 2e-13 s, and time did not advance any further."""
    chaos = Chaos()
    chaos.begin(
        3,
        CleanPodPolicy.ALL,
        never=False,
        sidecar=False,
        limit=0,
        service=ServicePolicy.AUTO,
        rounds=2,
    )
    try:
        chaos.time_passes(60)
        chaos.ends_right()
    finally:
        chaos.close()


@pytest.mark.parametrize(
    ("bug", "story"),
    [
        (
            succeeded_ranks_are_left_out_of_a_gang_restart,
            "a succeeded rank restarts with a lost one",
        ),
        (
            succeeded_ranks_are_left_out_of_a_gang_restart,
            "a succeeded rank restarts with a crashed one",
        ),
        (
            succeeded_ranks_are_left_out_of_a_gang_restart,
            "a succeeded rank restarts when the job is resumed",
        ),
        (
            a_success_is_discarded_after_the_loss_is_stored,
            "a succeeded rank without a pod restarts",
        ),
        (a_group_does_not_restart_with_its_lost_rank, "a learner of a group is lost"),
        (
            a_group_does_not_restart_with_its_lost_rank,
            "a learner of a group crashes after a success",
        ),
        (a_success_under_a_stale_list_counts, "a learner exits 0 while another is lost"),
        (a_success_under_a_stale_list_counts, "a rank exits 0 while another is lost"),
        (a_success_under_a_stale_list_counts, "a succeeded rank restarts when the job is resumed"),
        (a_blocked_rank_restarts_alone, "a succeeded rank restarts after an ignored failure"),
        (pods_are_deleted_before_the_suspension_is_stored, "crashes while it is suspended"),
        (time_suspended_counts, "a deadline does not count a suspension"),
        (a_new_redis_server_is_mistaken_for_the_old_one, "its Redis server is lost"),
        (a_new_redis_server_is_mistaken_for_the_old_one, "its Redis server crashes"),
        (ranks_do_not_wait_for_the_redis_server, "its Redis server is lost before the first list"),
        (a_gang_counts_succeeded_ranks, "a gang loses a rank after a success"),
        (quota_is_given_back_before_the_pods_are_gone, "a queued job is evicted"),
        (quota_is_given_back_before_the_pods_are_gone, "a queued job is suspended and resumed"),
        (evictions_by_the_queue_are_ignored, "a queued job is evicted"),
        (ranks_are_created_before_there_is_quota, "a queued job waits for quota and grows"),
        (the_quota_of_a_running_sidecar_is_given_back, "a queued job is evicted after a success"),
        (a_budget_counts_succeeded_ranks, "a budget counts no succeeded rank"),
        (a_budget_is_not_recorded, "a budget is removed"),
        (a_budget_stays_after_the_end, "a job with a budget ends"),
        (a_disruption_is_counted_repeatedly, "an eviction before the first list counts"),
        (requested_restarts_count_as_failures, "pod deleted by hand"),
        (an_end_without_a_record_counts_as_a_crash, "ends without a record"),
        (unrequested_restarts_are_forgotten, "pod deleted by hand"),
        (overdue_restarts_are_waited_for, "never sees the request"),
        (overdue_restarts_are_requested_again, "never sees the request"),
        (address_changes_are_ignored, "sandbox lost"),
        (a_revision_is_reused, "pod deleted by hand"),
        (a_stall_restarts_repeatedly, "stalls again"),
        (the_list_on_a_pod_is_trusted, "its list is forged"),
        (a_forged_list_stays_on_its_pod, "its list is forged while it runs"),
        (pods_are_deleted_before_their_failure_is_stored, "pod fails before the first list"),
        (a_partly_published_list_is_not_completed, "starts"),
        (counted_failures_are_forgotten, "crashes until it fails"),
        (evictions_count_as_failures, "pod evicted"),
        (dead_sandboxes_count_as_failures, "sandbox lost"),
        (the_address_of_a_lost_rank_is_published, "sandbox lost"),
        (ranks_that_connect_to_the_lost_rank_do_not_restart, "pod deleted by hand"),
        (surviving_ranks_do_not_get_the_next_list, "pod deleted by hand"),
        (surviving_ranks_do_not_get_the_next_list, "grows"),
        (ranks_beyond_the_desired_size_stay, "shrinks"),
        (the_list_keeps_ranks_that_left, "shrinks"),
    ],
    ids=lambda value: value.__name__ if callable(value) else value,
)
def test_the_state_machine_finds_seeded_bugs(
    bug: Patch, story: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If a seeded bug is not found, the tests above prove nothing."""
    bug(monkeypatch)
    shape: dict[str, Any] = {"extra": LIVES[story][0]} if story in LIVES else {}
    if story in STALLS:
        shape = {**CHANNEL, "extra": "stalls"}
    with pytest.raises(AssertionError):
        play_with_each_kill(story, **shape)
