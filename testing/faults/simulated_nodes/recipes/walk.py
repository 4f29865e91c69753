"""Random sequences of valid and invalid specs for one job.

A new job with the last valid spec must reach the same state as the changed job. The state may
depend on the spec, but not on its history (the differential oracle of Acto, SOSP'23).
"""

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from hypothesis import HealthCheck, Phase, seed, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule, run_state_machine_as_test

from faults.lab.kube import Json, KubeError, jobs
from faults.lab.lane import Lane, difference
from faults.simulated_nodes.rows import Outcome, Recipe
from faults.simulated_nodes.stage import Stage

T = TypeVar("T")

WALKS, STEPS = 5, 8
RANKS, MOST = 3, 5
SETTLED_SECONDS, FRESH = 90.0, "fresh"
# Edits that are valid at any time, and edits for which the job must be suspended.
VALID: dict[str, st.SearchStrategy[Any]] = {
    "replicas": st.integers(2, MOST),
    "minReplicas": st.integers(1, 2),
    "maxReplicas": st.integers(MOST, MOST + 3),
    "suspend": st.booleans(),
    "backoffLimit": st.integers(0, 9),
    "cleanPodPolicy": st.sampled_from(["None", "Running", "All"]),
    "service": st.sampled_from(["Auto", "Always"]),
    "activeDeadlineSeconds": st.integers(3600, 7200) | st.none(),
    "gatherSeconds": st.integers(1, 20),
}
SUSPENDED: dict[str, st.SearchStrategy[Any]] = {
    "topology": st.sampled_from(["mesh", "star", "alone"]),
    "addressing": st.sampled_from(["IP", "Hostname"]),
}
# Edits that the CRD rejects.
REFUSED: dict[str, st.SearchStrategy[Any]] = {
    "replicas": st.sampled_from([-1, 100_000, "three", 1.5]),
    "minReplicas": st.sampled_from([-1, 0, 10_000]),
    "backoffLimit": st.sampled_from([-1, "none"]),
    "topology": st.sampled_from(["ring", 7]),
    "parallelWorkers": st.sampled_from([0, -2, "two"]),
    "suspend": st.just("yes"),
    "cleanPodPolicy": st.just("Some"),
    "template": st.just({"containers": [{"name": "x"}]}),
}
# Edits that make the job's pods invalid. The edited job is stored, because the apiserver validates
# a pod only when the pod is created. A condition then reports the error.
ACCEPTED: dict[str, Json] = {
    "an unknown field": {"imagee": "x"},
    "a negative limit": {"resources": {"limits": {"cpu": "-1"}}},
    "no such policy": {"imagePullPolicy": "Sometimes"},
}
# The status fields that depend on the job's history or contain times.
OF_A_WALK = (
    "listNumber",
    "addressList",
    "renewals",
    "lastRenewal",
    "restarts",
    "restartsSeen",
    "observedGeneration",
    "message",
    "reason",
    "resumeTime",
    "suspendTime",
    "suspendedSeconds",
)


def edits(fields: dict[str, st.SearchStrategy[Any]]) -> st.SearchStrategy[tuple[str, Any]]:
    return st.sampled_from(sorted(fields)).flatmap(
        lambda name: st.tuples(st.just(name), fields[name])
    )


def comparable(state: Json) -> Json:
    """Return the state of a job without anything that depends on its history."""
    status = state["status"] or {}
    conditions = {
        one["type"]: one["status"]
        for one in status.get("conditions", ())
        if (one["type"], one["status"]) != ("Suspended", "False")  # it was suspended before
    }
    # Annotations that contain a revision.
    numbers = {"list-number", "renew-from", "topology"}
    pods = {
        name: {
            **pod,
            "annotations": {
                k: v for k, v in pod["annotations"].items() if k.rpartition("/")[2] not in numbers
            },
        }
        for name, pod in state["pods"].items()
    }
    # The apiserver's scale subresource reads a status without replicas as 0.
    kept = {"replicas": 0} | {
        k: v for k, v in status.items() if k not in (*OF_A_WALK, "conditions")
    }
    # A service stays until the job ends. A new job creates one only if the spec needs it and the
    # job runs.
    spec = state["spec"]
    wanted = spec["service"] == "Always" or spec["addressing"] == "Hostname"
    runs = conditions.get("Suspended") != "True"
    return {
        "spec": spec,
        "conditions": conditions,
        "pods": pods,
        "status": kept,
        "service": state["service"] if wanted and runs else None,
    }


class Counts:
    """The number of edits in all sequences, and all problems found."""

    def __init__(self) -> None:
        self.walks = self.valid = self.refused = self.told = 0
        self.wrong: list[str] = []


def machine(lane: Lane, counts: Counts, loop: asyncio.AbstractEventLoop) -> type[Any]:
    """Return the Hypothesis state machine. Its rules run in a separate thread, because Hypothesis
    is synchronous.
    """

    def wait(work: Coroutine[Any, Any, T]) -> T:
        # The lane belongs to the event loop of the main thread.
        return asyncio.run_coroutine_threadsafe(work, loop).result()

    # A job that gets a Service keeps its pods, which have no gates. In a new job with a Service,
    # the pods have gates.
    kept = {"service"} if lane.channel else set()
    permitted = {name: values for name, values in VALID.items() if name not in kept}

    class Walk(RuleBasedStateMachine):
        def __init__(self) -> None:
            super().__init__()
            counts.walks += 1
            self.job = f"walk-{counts.walks}"
            self.suspended = False
            wait(lane.apply(self.job, RANKS, minReplicas=1, maxReplicas=MOST, replicas=RANKS))
            wait(settled(lane, self.job))

        @rule(edit=edits(permitted))
        def valid(self, edit: tuple[str, Any]) -> None:
            name, value = edit
            wait(changed(lane, self.job, {name: value}))
            self.suspended = value if name == "suspend" else self.suspended
            counts.valid += 1
            wait(settled(lane, self.job))

        @rule(edit=edits(SUSPENDED))
        def rebuilt(self, edit: tuple[str, Any]) -> None:
            wait(changed(lane, self.job, {"suspend": True}))
            wait(settled(lane, self.job))
            wait(changed(lane, self.job, dict([edit])))
            wait(changed(lane, self.job, {"suspend": False}))
            self.suspended = False
            counts.valid += 1
            wait(settled(lane, self.job))

        @rule(edit=edits(REFUSED))
        def refused(self, edit: tuple[str, Any]) -> None:
            counts.wrong += wait(is_refused(lane, self.job, edit))
            counts.refused += 1

        @rule(name=st.sampled_from(sorted(ACCEPTED)))
        def told(self, name: str) -> None:
            counts.wrong += wait(is_told(lane, self.job, name))
            self.suspended = False
            counts.told += 1

        def teardown(self) -> None:
            counts.wrong += wait(like_fresh(lane, self.job))

    return Walk


async def changed(lane: Lane, job: str, spec: Json) -> None:
    await lane.kube.patch(jobs(lane.namespace, job), {"spec": spec})


async def settled(lane: Lane, job: str) -> None:
    """Wait until the job has reached its desired state: all ranks run, or it is suspended."""

    async def missing() -> str:
        body = await lane.kube.get(jobs(lane.namespace, job))
        status, spec = body.get("status") or {}, body["spec"]
        if status.get("observedGeneration") != body["metadata"]["generation"]:
            return "the spec has not been observed yet"
        wanted = 0 if spec.get("suspend") else spec["replicas"]
        seen = (status.get("phase"), status.get("replicas"), status.get("readyReplicas", 0))
        pods = await lane.pods(job)
        if not wanted:
            return "" if seen[0] == "Suspended" and not pods else f"{seen}, {len(pods)} pods"
        peers = await lane.condition(job, "PeersReady")
        right = seen == ("Running", wanted, wanted) and len(pods) == wanted
        return "" if right and peers.get("reason") == "AllRanksReady" else f"{seen}, {peers}"

    await lane.until(f"{job} has settled", missing, SETTLED_SECONDS)


async def is_refused(lane: Lane, job: str, edit: tuple[str, Any]) -> list[str]:
    name, value = edit
    try:
        await changed(lane, job, {name: value})
    except KubeError as error:
        named = f"spec.{name}" in str(error)
        return [] if error.status == 422 and named else [f"{name} {value!r}: {error}"]
    return [f"{name}: {value!r} was not rejected"]


async def is_told(lane: Lane, job: str, name: str) -> list[str]:
    """Set an invalid template, wait for a condition that names the field, and undo the change."""
    body = await lane.kube.get(jobs(lane.namespace, job))
    template = body["spec"]["template"]
    main = template["spec"]["containers"][0]
    bad = {**template, "spec": {**template["spec"], "containers": [{**main, **ACCEPTED[name]}]}}
    await changed(lane, job, {"suspend": True})
    await settled(lane, job)
    await changed(lane, job, {"template": bad, "suspend": False})
    field = next(iter(ACCEPTED[name]))

    async def missing() -> str:
        said = (await lane.status(job)).get("conditions", ())
        about = [one for one in said if field in one.get("message", "")]
        return "" if about else str(said)

    try:
        await lane.until(f"{name} is reported", missing, SETTLED_SECONDS)
    except AssertionError as error:
        return [str(error)]
    finally:
        await changed(lane, job, {"suspend": True})
        await settled(lane, job)
        # A merge patch removes a field only if the patch sets it to null.
        gone = {key: None for key in ACCEPTED[name] if key not in main}
        fixed = {**template["spec"], "containers": [{**main, **gone}]}
        await changed(lane, job, {"template": {"spec": fixed}, "suspend": False})
        await settled(lane, job)
    return []


async def like_fresh(lane: Lane, job: str) -> list[str]:
    """Compare the job with a new job that has the same spec, and describe the differences."""
    body = await lane.kube.get(jobs(lane.namespace, job))
    fresh = f"{FRESH}-{job}"
    await lane.kube.create(
        jobs(lane.namespace),
        {
            "apiVersion": body["apiVersion"],
            "kind": body["kind"],
            "metadata": {"name": fresh},
            "spec": body["spec"],
        },
    )
    await settled(lane, job)
    await settled(lane, fresh)

    async def missing() -> str:
        one, other = await lane.snapshot(job), await lane.snapshot(fresh)
        return "\n".join(difference(comparable(other), comparable(one)))

    try:
        await lane.until(f"{job} is as {fresh}", missing, 30)
    except AssertionError as error:
        return [str(error)]
    await lane.remove(job)
    await lane.remove(fresh)
    return []


async def walks(stage: Stage) -> Outcome:
    counts, loop = Counts(), asyncio.get_running_loop()
    async with stage.lane() as lane:
        rules = seed(stage.seed)(machine(lane, counts, loop))
        given = settings(
            max_examples=WALKS,
            stateful_step_count=STEPS,
            phases=[Phase.generate],
            # No database: the examples must depend on the seed alone.
            database=None,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        )
        await asyncio.to_thread(run_state_machine_as_test, rules, settings=given)
        if died := lane.operator.died():
            counts.wrong.append(died)
    seen = (
        f"{counts.walks} sequences with {counts.valid} valid and"
        f" {counts.refused + counts.told} invalid edits; of the invalid edits, {counts.refused}"
        f" were rejected, and {counts.told} were stored and reported"
    )
    return Outcome(len(counts.wrong), seen, tuple(counts.wrong))


RECIPES = (
    Recipe(
        "T21",
        "walk",
        "random sequences of valid and invalid specs, then the last valid spec on a new job",
        "differences between the two jobs, and invalid specs without a condition",
        0,
        walks,
    ),
)
