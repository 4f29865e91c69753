"""Jobs of every kind, for tests that cover all of them."""

from itertools import count, islice

from identity import Identity, identities
from jobs import peers, shell
from space import Body, Space

FOREVER = "exec sleep infinity"


def jobs(number: int) -> list[Body]:
    """Return `number` jobs that run until they are deleted: one of each kind, then plain ones."""
    kinds = [
        peers("named", "--forever", addressing="Hostname"),
        peers("star", "--forever", topology="star"),
        peers("wide", "--forever", parallelWorkers=2),
        peers("elastic", "--forever", minReplicas=1, maxReplicas=3),
        shell("alone", FOREVER, replicas=1, topology="alone"),
        shell("torch", FOREVER, runtime="torch"),
        shell("slurm", FOREVER, runtime="slurm"),
        shell("redis", FOREVER, messageQueue={"type": "redis"}),
        shell("bare", FOREVER, launcher="Off"),
    ]
    plain = (peers(f"plain-{each}", "--forever") for each in count())
    return [*kinds, *islice(plain, number - len(kinds))]


def names(bodies: list[Body]) -> list[str]:
    """Return the names of jobs."""
    return [body["metadata"]["name"] for body in bodies]


def running(space: Space, jobs: list[str]) -> dict[str, dict[str, Identity]]:
    """Return the pods whose containers run, by job."""
    return {job: identities(space, job) for job in jobs}
