"""Conditions about a spec that is invalid, changed or ambiguous, and about programs that conflict
with the job.
"""

from dijob.api.model import DIJob
from dijob.api.problems import Problem, SpecError
from dijob.core.observed.containers import ALONE, OTHERWISE
from dijob.core.observed.endings import ContainerEnding
from dijob.core.observed.views import Observed
from dijob.core.report import conditions
from dijob.reasons import Invalid
from samples.builders import (
    ALL,
    NOW,
    conditions_of,
    container,
    job,
    listed,
    observed,
    plan,
    running,
    say,
    stored,
)


def edited(owner: DIJob) -> DIJob:
    """Change a field that the pods were created from, which an older CRD has allowed."""
    return owner.model_copy(update={"spec": owner.spec.model_copy(update={"parallel_workers": 2})})


def test_a_changed_template_with_a_lost_pod_causes_no_reconciliations() -> None:
    decided = plan(edited(running()), observed(listed(0), listed(1)), NOW)
    assert decided.actions == ()
    assert decided.requeue_after >= 1


def test_a_bypassed_launcher_is_reported_until_it_is_corrected() -> None:
    bypassed = job(launcher="Off")
    decided = plan(bypassed, Observed(), NOW)
    said = conditions_of(decided)
    assert said["LauncherBypassed"].reason == "LauncherBypassed"
    assert "--platform k8s" in said["LauncherBypassed"].message
    assert "LauncherBypassed" not in say(Observed())
    healed = say(Observed(), stored(job(), decided))
    assert healed["LauncherBypassed"].status == "False"


def test_a_success_without_peers_stays_reported_after_its_pods_are_deleted() -> None:
    end = ContainerEnding(0, 0, "Completed", f"{ALONE}its Python does not read PYTHONPATH")
    done = [listed(rank, phase="Succeeded", succeeded=True, last_end=end) for rank in range(3)]
    decided = plan(running(), observed(*done), NOW)
    said = conditions_of(decided)["LauncherBypassed"]
    sentence = "ranks 0-2 ran without peers: its Python does not read PYTHONPATH"
    assert (said.status, said.message) == ("True", sentence)
    assert decided.status.message.startswith("each pod may train alone, see LauncherBypassed; ")
    without_pods = plan(stored(running(), decided), Observed(), NOW)
    assert conditions_of(without_pods)["LauncherBypassed"].message == sentence


def test_conflicting_arguments_are_reported_after_the_success() -> None:
    said = "topology='star', but the job has 'mesh': set spec.topology to the same value"
    end = ContainerEnding(0, 0, "Completed", f"{OTHERWISE}{said}\n")
    done = [listed(rank, phase="Succeeded", succeeded=True, last_end=end) for rank in range(3)]
    decided = plan(running(), observed(*done), NOW)
    found = conditions_of(decided)["SpecWarning"]
    assert (found.reason, found.message) == (
        "ProgramSaysOtherwise",
        f"ranks 0-2 passed arguments that conflict with the job: {said}",
    )
    message = decided.status.message
    assert (
        message
        == "the program's arguments conflict with the job, see SpecWarning; all 3 ranks exited 0"
    )
    doubtful = {"containers": [container(command=["sh", "-c", "ditask --parallel-workers $N"])]}
    without_pods = plan(stored(job(doubtful), decided), Observed(), NOW)
    assert conditions_of(without_pods)["SpecWarning"].reason == "ProgramSaysOtherwise"


def test_an_ambiguous_spec_is_not_a_bypassed_launcher() -> None:
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


def test_a_changed_template_is_reported_until_it_is_restored() -> None:
    owner = running()
    decided = plan(edited(owner), observed(*ALL), NOW)
    assert conditions_of(decided)["Invalid"].reason == "TemplateChanged"
    assert decided.status.phase == "Running"
    healed = say(observed(*ALL), stored(owner, decided))
    assert (healed["Invalid"].status, healed["Invalid"].reason) == ("False", "Valid")


def test_an_invalid_spec_is_reported_with_all_its_problems() -> None:
    (fact,) = conditions.invalid_facts(
        SpecError([Problem("spec.replicas", "is 0"), Problem("spec.x", "y")])
    )
    assert fact.reason is Invalid.SpecInvalid
    assert fact.message == "spec.replicas: is 0; spec.x: y"
