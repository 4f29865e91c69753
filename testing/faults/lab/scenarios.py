"""Phases of a job's life in which the operator is killed at each write."""

from faults.lab.crashes import REPLICAS, Scenario
from faults.lab.ends import exits, succeed
from faults.lab.kube import jobs, pods
from faults.lab.lane import Lane


async def start(lane: Lane, job: str) -> None:
    await lane.apply(job, REPLICAS)


async def start_with_redis(lane: Lane, job: str) -> None:
    await lane.apply(job, REPLICAS, messageQueue={"type": "redis"})


async def start_gang(lane: Lane, job: str) -> None:
    await lane.apply(job, REPLICAS, scheduling={"engine": "Native"})


async def fail(lane: Lane, job: str) -> None:
    await exits(lane, f"{job}-2", 1, 0)


async def lose_a_pod(lane: Lane, job: str) -> None:
    """Delete a pod by hand."""
    await lane.kube.delete(pods(lane.namespace, f"{job}-1"))


async def edit(lane: Lane, job: str, **spec: object) -> None:
    await lane.kube.patch(jobs(lane.namespace, job), {"spec": spec})


async def grow(lane: Lane, job: str) -> None:
    await edit(lane, job, replicas=REPLICAS + 2)


async def shrink(lane: Lane, job: str) -> None:
    await edit(lane, job, replicas=REPLICAS - 2)


async def suspend(lane: Lane, job: str) -> None:
    await edit(lane, job, suspend=True)


async def suspended(lane: Lane, job: str) -> None:
    await suspend(lane, job)
    await lane.reaches(job, "Suspended")


async def resume(lane: Lane, job: str) -> None:
    await edit(lane, job, suspend=False)


ELASTIC = (("minReplicas", 1), ("maxReplicas", 8), ("replicas", REPLICAS))
START = Scenario("start", "a job starts", start, "Running", REPLICAS, started=False)
# Rank 1 is replaced, and the ranks that dial it restart in their pods. Without the launcher, their
# pods are replaced too. A scenario for that case was removed, because it took two more minutes.
# It had 11 writes, and none of its crash points had a wrong result. The state machine covers it.
RENEWAL = Scenario("renewal", "a pod is lost", lose_a_pod, "Running", REPLICAS + 1)
RESUME = Scenario(
    "resume", "a suspended job resumes", resume, "Running", 2 * REPLICAS, before=suspended
)
# With a PodGroup, which is created before the pods. This scenario is not in SCENARIOS, because only
# the newest Kubernetes serves PodGroups.
GANG = Scenario(
    "gang", "a job with gang scheduling starts", start_gang, "Running", REPLICAS, started=False
)
SCENARIOS = (
    START,
    # With its own Redis server: another pod, Service and NetworkPolicy.
    Scenario(
        "redis",
        "a job with its own Redis server starts",
        start_with_redis,
        "Running",
        REPLICAS + 1,
        started=False,
    ),
    Scenario("growth", "a job grows by two ranks", grow, "Running", REPLICAS + 2, spec=ELASTIC),
    Scenario("shrinkage", "a job shrinks by two ranks", shrink, "Running", REPLICAS, spec=ELASTIC),
    Scenario(
        "failure",
        "a rank fails, which fails the job",
        fail,
        "Failed",
        REPLICAS,
        spec=(("backoffLimit", 0),),
    ),
    RENEWAL,
    Scenario("suspend", "a job is suspended", suspend, "Suspended", REPLICAS),
    RESUME,
    Scenario(
        "success",
        "all ranks succeed",
        succeed,
        "Succeeded",
        REPLICAS,
        spec=(("cleanPodPolicy", "All"),),
    ),
    # The job succeeds, and is deleted with its children.
    Scenario(
        "time-to-live",
        "a job succeeds and is deleted after its time to live",
        succeed,
        None,
        REPLICAS,
        spec=(("ttlSecondsAfterFinished", 1),),
    ),
)
