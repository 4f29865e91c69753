"""A job under everything that can happen to it, in any order (see
docs/decisions/005-model-based-tests.md).
"""

import pytest
from dijob.names import Addressing, CleanPodPolicy, Launcher, ServicePolicy
from hypothesis import settings
from hypothesis.stateful import run_state_machine_as_test
from unit.driving import Faults
from unit.machine import Chaos
from unit.machine_bugs import (
    Patch,
    a_dead_sandbox_is_a_failure,
    a_disruption_is_counted_again_and_again,
    a_forged_list_is_left_on_its_pod,
    a_list_half_handed_out_stays_so,
    a_list_is_what_a_pod_says,
    a_list_number_is_used_again,
    a_renewal_is_a_failure,
    a_success_is_taken_back_after_the_renewal,
    a_success_under_a_dead_list_counts,
    address_changes_are_not_seen,
    an_eviction_is_a_failure,
    another_server_is_taken_for_the_old_one,
    nobody_waits_for_the_server,
    pods_go_before_the_suspension_is_written,
    pods_go_before_their_failure_is_written,
    the_address_of_a_gone_peer_is_published,
    the_list_keeps_those_who_left,
    the_survivors_are_not_told_of_the_next_list,
    time_suspended_counts,
    what_was_charged_is_forgotten,
    who_crashes_for_free_begins_alone,
    who_dials_the_lost_rank_is_forgotten,
    who_does_not_hear_is_asked_again,
    who_does_not_hear_is_waited_for,
    who_has_succeeded_is_left_out,
    who_is_too_many_stays,
    who_leaves_no_record_has_crashed,
    who_was_not_told_of_a_renewal_is_forgotten,
)
from unit.stories import LIVES, RENEWALS, STORIES, TO_RUN, play_with_each_kill

CHAOS = settings(stateful_step_count=25)


@pytest.mark.parametrize("story", STORIES)
def test_a_kill_before_any_write_of_a_story_does_not_change_its_end(story: str) -> None:
    play_with_each_kill(story)


@pytest.mark.parametrize(
    "story", ["sandbox lost", "pod fails before the list", "crashes until it fails"]
)
def test_stories_with_restart_policy_never(story: str) -> None:
    play_with_each_kill(story, never=True)


@pytest.mark.parametrize(
    "story", ["pod deleted by hand", "lower rank lost during a renewal", "crashes as it is lost"]
)
def test_stories_with_recreated_pods(story: str) -> None:
    play_with_each_kill(story, launcher=Launcher.OFF)


@pytest.mark.parametrize(
    "story",
    ["starts", "pod deleted by hand", "sandbox lost", "one succeeds, another is lost", "grows"],
)
def test_stories_with_hostname_addressing(story: str) -> None:
    play_with_each_kill(story, addressing=Addressing.HOSTNAME)


@pytest.mark.parametrize("story", LIVES)
def test_stories_with_additional_features(story: str) -> None:
    play_with_each_kill(story, extra=LIVES[story][0])


def after_a_loss(
    rank: int, addressing: Addressing = Addressing.IP
) -> tuple[Chaos, set[int], set[int]]:
    """Return a job of three ranks after it has recovered from the loss of a rank, with the ranks
    whose process and whose pod are unchanged.
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
        (who_has_succeeded_is_left_out, "a rank that has succeeded begins again with who is lost"),
        (who_has_succeeded_is_left_out, "the same at once"),
        (who_has_succeeded_is_left_out, "it begins again when the job is resumed"),
        (a_success_is_taken_back_after_the_renewal, "the same, and its pod is gone"),
        (a_success_under_a_dead_list_counts, "it exits 0 as another is lost"),
        (a_success_under_a_dead_list_counts, "it begins again when the job is resumed"),
        (who_crashes_for_free_begins_alone, "it begins again after a failure that is free"),
        (pods_go_before_the_suspension_is_written, "crashes as it is suspended"),
        (time_suspended_counts, "a deadline does not count it"),
        (another_server_is_taken_for_the_old_one, "its server is lost"),
        (another_server_is_taken_for_the_old_one, "its server crashes"),
        (nobody_waits_for_the_server, "its server is lost before the list"),
        (a_disruption_is_counted_again_and_again, "an eviction before the list costs"),
        (a_renewal_is_a_failure, "pod deleted by hand"),
        (who_leaves_no_record_has_crashed, "leaves no record"),
        (who_was_not_told_of_a_renewal_is_forgotten, "pod deleted by hand"),
        (who_does_not_hear_is_waited_for, "hears nothing"),
        (who_does_not_hear_is_asked_again, "hears nothing"),
        (address_changes_are_not_seen, "sandbox lost"),
        (a_list_number_is_used_again, "pod deleted by hand"),
        (a_list_is_what_a_pod_says, "its list is forged"),
        (a_forged_list_is_left_on_its_pod, "its list is forged as it runs"),
        (pods_go_before_their_failure_is_written, "pod fails before the list"),
        (a_list_half_handed_out_stays_so, "starts"),
        (what_was_charged_is_forgotten, "crashes until it fails"),
        (an_eviction_is_a_failure, "pod evicted"),
        (a_dead_sandbox_is_a_failure, "sandbox lost"),
        (the_address_of_a_gone_peer_is_published, "sandbox lost"),
        (who_dials_the_lost_rank_is_forgotten, "pod deleted by hand"),
        (the_survivors_are_not_told_of_the_next_list, "pod deleted by hand"),
        (the_survivors_are_not_told_of_the_next_list, "grows"),
        (who_is_too_many_stays, "shrinks"),
        (the_list_keeps_those_who_left, "shrinks"),
    ],
    ids=lambda value: value.__name__ if callable(value) else value,
)
def test_the_state_machine_finds_seeded_bugs(
    bug: Patch, story: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If a seeded bug is not found, the tests above prove nothing."""
    bug(monkeypatch)
    with pytest.raises(AssertionError):
        play_with_each_kill(story, **({"extra": LIVES[story][0]} if story in LIVES else {}))
