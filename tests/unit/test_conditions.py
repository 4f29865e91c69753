"""What a pass says about the job: each condition's reason, and the sentence with it."""

from typing import Any

import pytest
from dijob.api.model import DIJob
from dijob.api.problems import Problem, SpecError
from dijob.api.status import Condition, Status, timestamp
from dijob.core.observed.containers import ALONE, OTHERWISE, Ending
from dijob.core.observed.views import Observed, Pod, Refusal, Refused
from dijob.core.report import conditions
from dijob.names import ServicePolicy
from dijob.reasons import Invalid
from unit.builders import (
    NOW,
    changed,
    conditions_of,
    container,
    hands_out,
    job,
    later,
    listed,
    observed,
    plan,
    running,
    stored,
    view,
)

ALL = tuple(listed(rank) for rank in range(3))


def say(seen: Observed, owner: DIJob | None = None) -> dict[str, Condition]:
    return conditions_of(plan(owner or job(), seen, NOW))


CRASH = Ending(3, 0, "Error", "no GPU")

REASONS: dict[str, tuple[Observed, str, bool, str, str]] = {
    "creating": (observed(view(0)), "PodsCreated", False, "Creating", "1 of 3 pods exist"),
    "created": (observed(*ALL), "PodsCreated", True, "AllCreated", "3 of 3"),
    "gathering": (
        observed(view(0, ip=""), view(1), view(2)),
        "AddressesReady",
        False,
        "Gathering",
        "rank 0",
    ),
    "missing an address": (
        observed(view(0, ip="", complaint="Unschedulable: 0/2"), view(1), view(2)),
        "AddressesReady",
        False,
        "AddressMissing",
        "rank 0: Unschedulable: 0/2",
    ),
    "an event says why": (
        observed(view(0, ip=""), view(1), view(2), warnings={"uid-0": "FailedMount: x"}),
        "AddressesReady",
        False,
        "AddressMissing",
        "rank 0: FailedMount: x",
    ),
    "half handed out": (
        observed(listed(0), view(1), view(2)),
        "AddressesReady",
        False,
        "Publishing",
        "list 1",
    ),
    "published": (
        observed(*ALL),
        "AddressesReady",
        True,
        "Published",
        "3 addresses published as list 1",
    ),
    "waits for addresses": (
        observed(view(0)),
        "Running",
        False,
        "Starting",
        "waits for the addresses",
    ),
    "not all ready": (
        observed(listed(0, ready=False), listed(1), listed(2)),
        "Running",
        False,
        "Starting",
        "rank 0: its program runs, and is not Ready",
    ),
    "ready": (observed(*ALL), "Running", True, "Begun", "all 3 ranks run"),
    "renewing all": (observed(listed(1), listed(2)), "Running", False, "Renewing", "whole set"),
    "renewing one": (
        observed(listed(0), listed(1)),
        "PeersReady",
        False,
        "Renewing",
        "rank 2 is renewed, the others run on",
    ),
    "all ready": (observed(*ALL), "PeersReady", True, "AllRanksReady", "list 1"),
    "not begun": (
        observed(listed(0), listed(1), listed(2, ready=False)),
        "PeersReady",
        False,
        "Starting",
        "the job has not begun, see Running",
    ),
    "crashed before all ran": (
        observed(
            listed(0), listed(1), listed(2, ready=False, last_end=CRASH, ended=timestamp(NOW))
        ),
        "Running",
        False,
        "Blocked",
        "rank 2: its program exited 3: no GPU, and starts again",
    ),
    "list died": (
        observed(listed(0), listed(1)),
        "AddressesReady",
        False,
        "PodLost",
        "rank 2: its pod is gone",
    ),
}


@pytest.mark.parametrize(
    ("seen", "type_", "true", "reason", "words"), REASONS.values(), ids=REASONS
)
def test_each_condition_has_its_reason_and_its_words(
    seen: Observed, type_: str, true: bool, reason: str, words: str
) -> None:
    condition = say(seen)[type_]
    assert (condition.status, condition.reason) == (str(true), reason)
    assert words in condition.message


def peers(owner: DIJob, *pods: Pod, seconds: float = 0) -> tuple[str, str]:
    """Reason and message of PeersReady, and that they are not looked at too late."""
    decided = plan(owner, observed(*pods, services=frozenset({"job"})), later(seconds))
    found = conditions_of(decided)["PeersReady"]
    return found.reason, found.message


def test_a_rank_that_is_not_ready_is_a_problem_after_a_minute() -> None:
    """One that is about to exit has closed its port, one that joins is on its way."""
    pods = (listed(0), listed(1), listed(2, ready=False))
    decided = plan(running(), observed(*pods, services=frozenset({"job"})), NOW)
    owner = stored(running(), decided)
    said = "rank 2: its program runs, and is not Ready"
    assert decided.requeue_after == 60.5
    assert peers(owner, *pods, seconds=59) == ("Starting", said)
    assert peers(owner, *pods, seconds=60) == ("RankNotReady", said)
    owner = stored(owner, plan(owner, observed(*pods, services=frozenset({"job"})), later(60)))
    assert plan(owner, observed(*pods, services=frozenset({"job"})), later(61)).requeue_after == 300


NOT_READY = {
    "gone": (
        (listed(0), listed(1)),
        "Renewing",
        "rank 2: its pod is gone; rank 2 is renewed, the others run on",
    ),
    "crashed": (
        (listed(0), listed(1), listed(2, ready=False, last_end=CRASH, ended=timestamp(NOW))),
        "RankNotReady",
        "rank 2: its program exited 3: no GPU, and starts again",
    ),
    "complains": (
        (
            listed(0),
            listed(1),
            listed(2, ready=False, complaint="container di-container exited 1: boom"),
        ),
        "RankNotReady",
        "rank 2: container di-container exited 1: boom",
    ),
    "its last process crashed long ago": (
        (listed(0), listed(1), listed(2, ready=False, last_end=CRASH, ended=timestamp(later(-60)))),
        "Starting",
        "rank 2: its program runs, and is not Ready",
    ),
}


@pytest.mark.parametrize(("pods", "reason", "words"), NOT_READY.values(), ids=NOT_READY)
def test_why_not_all_are_ready_any_more(pods: tuple[Pod, ...], reason: str, words: str) -> None:
    assert peers(running(), *pods) == (reason, words)


def done(rank: int) -> Pod:
    return listed(rank, ready=False, succeeded=True, ended=timestamp(NOW))


FINISHED = {
    "one": (
        (listed(0), listed(1), done(2)),
        "2 of 3 ranks run, rank 2 has finished (at 2026-05-04T12:00:00Z)",
    ),
    "two": (
        (listed(0), done(1), done(2)),
        "1 of 3 ranks run, ranks 1-2 have finished (at 2026-05-04T12:00:00Z)",
    ),
}


@pytest.mark.parametrize(("pods", "words"), FINISHED.values(), ids=FINISHED)
def test_who_has_finished_is_said_and_what_ends_the_job(pods: tuple[Pod, ...], words: str) -> None:
    said = say(observed(*pods), running())
    assert said["Running"].message == f"{words}; the job ends when all ranks have exited 0"
    first = say(observed(*pods), running(successPolicy="Rank0"))
    assert first["Running"].message.endswith("; the job ends when rank 0 has exited 0")


CRASHED_BEFORE: dict[str, Any] = {"restarts": 2, "ended": timestamp(NOW)}
AT = "2026-05-04T12:00:00Z"
BOOM = Ending(1, 0, "Error", "boom", at=AT)
RECOVERED: dict[str, tuple[Pod, str]] = {
    "its program crashed in its pod": (
        listed(1, failures=2, last_end=BOOM, **CRASHED_BEFORE),
        f"2 failures so far, the last at {AT}: rank 1: its program exited 1: boom",
    ),
    "its end was not charged": (
        listed(1, failures=2, last_end=BOOM, ended_for=1, **CRASHED_BEFORE),
        "1 failure so far",
    ),
}


@pytest.mark.parametrize(("pod", "words"), RECOVERED.values(), ids=RECOVERED)
def test_all_ranks_run_between_two_crashes_of_one(pod: Pod, words: str) -> None:
    said = say(observed(listed(0), pod, listed(2)), running())["Running"]
    assert (said.status, said.message) == ("True", f"all 3 ranks run; {words}")


def test_all_ranks_run_after_a_failure_that_renewed_them() -> None:
    owner = running(restart={"scope": "Job"})
    failed = listed(1, owner, phase="Failed", ready=False, broken=True, failures=1, last_end=BOOM)
    loss = plan(owner, observed(listed(0, owner), failed, listed(2, owner)), later(1))
    again = [listed(rank, owner, uid=f"n{rank}", number=2) for rank in range(3)]
    owner = stored(owner, loss)
    told = hands_out(
        owner, observed(*(changed(p, number=0, ips="", ready=False) for p in again)), later(30)
    )
    said = conditions_of(plan(stored(owner, told), observed(*again), later(40)))["Running"]
    assert said.message == (
        "all 3 ranks run; 1 failure so far, the last at 2026-05-04T12:00:01Z:"
        " rank 1: pod job-1 failed (exited 1: boom)"
    )


def test_a_resumed_job_is_not_told_to_resume() -> None:
    died = {
        "listNumber": 1,
        "reason": "Suspended",
        "message": "the job was suspended",
        "time": timestamp(NOW),
    }
    owner = job(status={"listNumber": 1, "lastRenewal": died, "resumeTime": timestamp(NOW)})
    said = say(observed(view(0)), owner)
    assert said["AddressesReady"].reason == "Gathering"
    assert [c.type for c in said.values() if "suspend" in c.message] == []


def test_while_the_set_is_renewed_the_reason_stays() -> None:
    owner = running()
    owner = stored(owner, plan(owner, observed(*ALL[:2]), later(1)))
    gathering = plan(owner, observed(view(0, uid="n0"), view(1, uid="n1", ip="")), later(2))
    said = conditions_of(gathering)
    assert said["AddressesReady"].reason == "PodLost"
    assert (
        "rank 2: its pod is gone; rank 2 is renewed, the others run on. "
        in said["AddressesReady"].message
    )
    assert "its pod is being created" in said["AddressesReady"].message


def test_an_elastic_job_says_for_whom_it_waits_and_how_long() -> None:
    owner = job(minReplicas=2, maxReplicas=3, replicas=3, gatherSeconds=7)
    seen = observed(view(0), view(1, placed=NOW.isoformat()), view(2, ip=""))
    message = say(seen, owner)["AddressesReady"].message
    assert message == (
        "rank 2: its node is starting it "
        "(the job begins 7 s after ranks 0-1 have their addresses, and others join later)"
    )


def test_any_other_job_says_just_what_it_lacks() -> None:
    message = say(observed(view(0), view(1), view(2, ip="")))["AddressesReady"].message
    assert message == "rank 2: its node is starting it"


FIRST: dict[str, tuple[Ending | None, str]] = {
    "exit code": (Ending(3, 0, "Error", "no such file"), "rank 1 exited 3: no such file"),
    "no words": (Ending(137, 9, "OOMKilled", ""), "rank 1 ran out of memory (OOMKilled)"),
    "no container": (None, "rank 1 failed (Unknown)"),
}


@pytest.mark.parametrize(("last_end", "words"), FIRST.values(), ids=FIRST)
def test_a_failed_job_names_its_first_failure_and_its_log(
    last_end: Ending | None, words: str
) -> None:
    pods = (listed(0), listed(1, failures=4, ready=False, last_end=last_end), listed(2))
    said = say(observed(*pods), running())
    assert (said["Failed"].status, said["Failed"].reason) == ("True", "BackoffLimitExceeded")
    assert "4 failures, backoffLimit is 3" in said["Failed"].message
    assert words in said["Failed"].message
    assert "`kubectl logs job-1`" in said["Failed"].message
    assert (said["Running"].status, said["Running"].reason) == ("False", "Finished")


def test_a_succeeded_job_says_so() -> None:
    decided = plan(running(), observed(*(changed(pod, succeeded=True) for pod in ALL)), later(60))
    said = conditions_of(decided)
    assert (said["Succeeded"].reason, said["Succeeded"].message) == (
        "AllRanksSucceeded",
        "all 3 ranks exited 0",
    )
    assert decided.status.completion_time == "2026-05-04T12:01:00Z"


@pytest.mark.parametrize(
    ("why", "reason"),
    [
        (Refused.TAKEN, "ServiceNameTaken"),
        (Refused.FORBIDDEN, "ServiceRefused"),
        (Refused.REJECTED, "ServiceRefused"),
    ],
)
def test_a_service_that_cannot_be_made_is_said_and_forgotten_once_it_is_there(
    why: Refused, reason: str
) -> None:
    owner = running()
    seen = observed(*ALL, refusals={"service/job": Refusal(why, "no, because", later(60))})
    decided = plan(owner, seen, later(1))
    said = conditions_of(decided)
    assert decided.actions == ()
    assert (said["ServiceReady"].reason, said["ServiceReady"].message) == (reason, "no, because")
    assert decided.requeue_after == 59
    healed = say(observed(*ALL, services=frozenset({"job"})), stored(owner, decided))
    assert (healed["ServiceReady"].status, healed["ServiceReady"].reason) == ("True", "Created")
    assert "ServiceReady" not in say(observed(*ALL, services=frozenset({"job"})), owner)


def test_a_service_that_nobody_wants_any_more_is_no_problem() -> None:
    refused = {"service/job": Refusal(Refused.TAKEN, "no", later(60))}
    owner = running()
    owner = stored(owner, plan(owner, observed(*ALL, refusals=refused), later(1)))
    spec = owner.spec.model_copy(update={"service": ServicePolicy.AUTO})
    healed = say(observed(*ALL, refusals=refused), owner.model_copy(update={"spec": spec}))
    assert (healed["ServiceReady"].status, healed["ServiceReady"].reason) == ("True", "NotWanted")


def test_a_refused_service_that_nobody_wants_now_is_not_asked_for_every_moment() -> None:
    """A job that renews its set wants none before it runs again."""
    seen = observed(
        view(0, ip=""),
        view(1),
        view(2),
        refusals={"service/job": Refusal(Refused.TAKEN, "no", later(-60))},
    )
    assert plan(job(), seen, NOW).requeue_after >= 1


def edited(owner: DIJob) -> DIJob:
    """With a field changed that its pods were made from, which an older CRD has let through."""
    return owner.model_copy(update={"spec": owner.spec.model_copy(update={"parallel_workers": 2})})


def test_a_changed_template_that_lost_a_pod_is_not_looked_at_every_moment() -> None:
    decided = plan(edited(running()), observed(listed(0), listed(1)), NOW)
    assert decided.actions == ()
    assert decided.requeue_after >= 1


def test_a_bypassed_launcher_is_said_until_it_is_no_longer_so() -> None:
    bypassed = job(launcher="Off")
    decided = plan(bypassed, Observed(), NOW)
    said = conditions_of(decided)
    assert said["LauncherBypassed"].reason == "LauncherBypassed"
    assert "--platform k8s" in said["LauncherBypassed"].message
    assert "LauncherBypassed" not in say(Observed())
    healed = say(Observed(), stored(job(), decided))
    assert healed["LauncherBypassed"].status == "False"


def test_a_success_without_peers_is_said_and_stays_said_when_its_pods_are_gone() -> None:
    end = Ending(0, 0, "Completed", f"{ALONE}its Python does not read PYTHONPATH")
    done = [listed(rank, phase="Succeeded", succeeded=True, last_end=end) for rank in range(3)]
    decided = plan(running(), observed(*done), NOW)
    said = conditions_of(decided)["LauncherBypassed"]
    sentence = "ranks 0-2 have worked alone: its Python does not read PYTHONPATH"
    assert (said.status, said.message) == ("True", sentence)
    assert decided.status.message.startswith("each pod may train alone, see LauncherBypassed; ")
    without_pods = plan(stored(running(), decided), Observed(), NOW)
    assert conditions_of(without_pods)["LauncherBypassed"].message == sentence


def test_a_program_that_contradicts_its_job_is_named_once_it_has_succeeded() -> None:
    said = "topology='star', but the job has 'mesh': say the same in spec.topology"
    end = Ending(0, 0, "Completed", f"{OTHERWISE}{said}\n")
    done = [listed(rank, phase="Succeeded", succeeded=True, last_end=end) for rank in range(3)]
    decided = plan(running(), observed(*done), NOW)
    found = conditions_of(decided)["SpecWarning"]
    assert (found.reason, found.message) == (
        "ProgramSaysOtherwise",
        f"ranks 0-2 have said otherwise: {said}",
    )
    message = decided.status.message
    assert message == "the program contradicts the job, see SpecWarning; all 3 ranks exited 0"
    doubtful = {"containers": [container(command=["sh", "-c", "ditask --parallel-workers $N"])]}
    without_pods = plan(stored(job(doubtful), decided), Observed(), NOW)
    assert conditions_of(without_pods)["SpecWarning"].reason == "ProgramSaysOtherwise"


def test_a_spec_that_is_read_with_a_doubt_is_no_bypassed_launcher() -> None:
    doubtful = job(
        {"containers": [container(command=["sh", "-c", "ditask --parallel-workers $N"])]}
    )
    decided = plan(doubtful, Observed(), NOW)
    said = conditions_of(decided)
    assert "spec.parallelWorkers: is not set" in said["SpecWarning"].message
    assert "LauncherBypassed" not in said
    assert [event.reason for event in decided.events] == ["SpecWarning"]
    healed = say(Observed(), stored(job(), decided))
    assert healed["SpecWarning"].status == "False"


def test_a_changed_template_is_said_until_it_is_written_back() -> None:
    owner = running()
    decided = plan(edited(owner), observed(*ALL), NOW)
    assert conditions_of(decided)["Invalid"].reason == "TemplateChanged"
    assert decided.status.phase == "Running"
    healed = say(observed(*ALL), stored(owner, decided))
    assert (healed["Invalid"].status, healed["Invalid"].reason) == ("False", "Valid")


def test_an_invalid_spec_is_said_in_all_its_sentences() -> None:
    (fact,) = conditions.invalid(
        SpecError([Problem("spec.replicas", "is 0"), Problem("spec.x", "y")])
    )
    assert fact.reason is Invalid.SpecInvalid
    assert fact.message == "spec.replicas: is 0; spec.x: y"


@pytest.mark.parametrize(
    ("start", "age"),
    [("2026-05-04T11:59:00Z", 60.0), (None, 0.0), ("", 0.0), ("yesterday", 0.0)],
    ids=str,
)
def test_the_age_of_a_job(start: str | None, age: float) -> None:
    assert conditions.age(Status(start_time=start), NOW) == age
