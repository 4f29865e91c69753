"""Seeded bugs of the controller are found by a test of test_reconcile.py or test_late_watches.py,
or by a story of the state machine.
"""

from collections.abc import Awaitable, Callable

import pytest
from simulator import controller_bugs as bugs
from simulator.controller_bugs import Patch
from simulator.core_bugs import a_restarted_program_is_assumed_to_have_had_no_list
from simulator.stories import CHANNEL, LIVES, play_with_each_kill
from unit.controller import test_late_watches as watches
from unit.controller import test_reconcile as cases

Bug = Callable[[Patch], None]


def named(value: object) -> str:
    return getattr(value, "__name__", str(value))


@pytest.mark.virtual_time
@pytest.mark.parametrize(
    ("bug", "test"),
    [
        (
            bugs.a_conflict_is_taken_for_success,
            cases.test_a_status_write_with_a_conflict_is_retried_at_once,
        ),
        (
            bugs.an_older_view_replaces_a_newer_one,
            watches.test_an_older_view_never_replaces_a_newer_one,
        ),
        (
            bugs.a_pod_that_is_gone_stays_in_the_store,
            watches.test_a_lost_pod_is_replaced_even_if_no_watch_reports_it,
        ),
        (bugs.a_deleted_job_is_not_forgotten, cases.test_a_deleted_job_is_forgotten),
        (
            bugs.a_refusal_is_not_remembered,
            cases.test_a_creation_that_a_quota_rejects_is_retried_with_back_off,
        ),
        (
            bugs.what_was_deleted_is_not_marked,
            watches.test_a_deleted_object_is_known_before_a_watch_shows_it,
        ),
        (
            bugs.what_was_created_is_not_taken_in,
            watches.test_a_created_object_is_known_before_a_watch_shows_it,
        ),
        (
            bugs.a_list_does_not_show_what_has_vanished,
            watches.test_an_object_lost_in_a_gap_of_the_watch_is_replaced,
        ),
        (bugs.what_is_urgent_is_put_off, cases.test_a_job_starts_and_reports_it_at_once),
        (
            bugs.nobody_asks_whether_a_job_is_as_known,
            watches.test_no_pods_are_created_for_a_job_deleted_unnoticed,
        ),
        (
            bugs.the_audit_finds_nothing,
            watches.test_the_audit_finds_the_deletion_of_an_idle_job,
        ),
        (bugs.everybodys_pod_is_ours, cases.test_a_pod_of_another_owner_is_not_touched),
    ],
    ids=named,
)
async def test_a_bug_of_the_shell_is_found(
    bug: Bug, test: Callable[[], Awaitable[None]], monkeypatch: pytest.MonkeyPatch
) -> None:
    bug(monkeypatch)
    with pytest.raises(AssertionError):
        await test()


@pytest.mark.parametrize(
    ("bug", "story"),
    [
        (bugs.a_status_is_written_over_whatever_there_is, "starts"),
        (bugs.a_deletion_means_any_pod_of_that_name, "starts"),
        (bugs.it_is_told_before_it_is_written, "starts"),
        (bugs.nobody_is_told_of_a_childs_change, "pod deleted by hand"),
        (bugs.a_deleted_job_is_not_forgotten, "the time to live ends"),
        (bugs.the_answer_of_a_status_is_not_taken_in, "starts"),
    ],
    ids=named,
)
def test_the_state_machine_finds_a_bug_of_the_shell(
    bug: Bug, story: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    bug(monkeypatch)
    with pytest.raises(AssertionError):
        play_with_each_kill(story, **({"extra": LIVES[story][0]} if story in LIVES else {}))


@pytest.mark.parametrize(
    ("bug", "story", "blocked"),
    [
        (bugs.a_launcher_that_cannot_connect_is_waited_for, "starts", True),
        (bugs.launchers_are_not_given_time_to_connect_again, "crashes after its restart", False),
        (bugs.what_a_launcher_has_is_not_believed, "crashes after its restart", False),
        (a_restarted_program_is_assumed_to_have_had_no_list, "sandbox lost", False),
    ],
    ids=named,
)
def test_the_state_machine_finds_a_bug_of_the_channel(
    bug: Bug, story: str, blocked: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    bug(monkeypatch)
    with pytest.raises(AssertionError):
        play_with_each_kill(story, **CHANNEL, blocked=blocked)
