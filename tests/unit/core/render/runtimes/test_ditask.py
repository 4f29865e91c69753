"""The variables that are known before any address."""

import pytest
from dijob.core.members import gang_of
from dijob.core.render.runtimes import ditask
from dijob.names import Topology
from samples.builders import Body, gang, job, manifest


def test_the_server_of_a_queue_is_in_the_environment() -> None:
    owner = job(messageQueue={"type": "redis", "host": "redis.ns", "port": 7000})
    world = gang_of(owner)
    told = {
        "DI_MQ_TYPE": "redis",
        "DI_REDIS_HOST": "redis.ns",
        "DI_REDIS_PORT": "7000",
        "DISABLE_RICH": "1",
    }
    assert told.items() <= ditask.di_variables(world.members[0], world).items()
    assert all(not world.dialers(rank) for rank in range(3)), "all dial the server"
    assert "readinessProbe" not in manifest(owner)["spec"]["containers"][0], "nobody listens"


@pytest.mark.parametrize("kind", ["torchrpc", "torchrpc:cpu", "torchrpc:cuda"])
def test_torchrpc_has_the_same_addresses_as_nng(kind: str) -> None:
    owner, plain = job(messageQueue={"type": kind}), gang_of(job())
    world = gang_of(owner)
    told = {"DI_MQ_TYPE": kind, "IBV_FORK_SAFE": "1", "RDMAV_FORK_SAFE": "1"}
    assert told.items() <= ditask.di_variables(world.members[0], world).items()
    assert [world.dialers(rank) for rank in range(3)] == [plain.dialers(rank) for rank in range(3)]
    assert "readinessProbe" in manifest(owner)["spec"]["containers"][0]


@pytest.mark.parametrize(
    "spec",
    [{}, {"messageQueue": {"type": "nng"}}, {"messageQueue": None}],
    ids=["absent", "nng", "null"],
)
def test_nng_is_the_default_of_ditask(spec: Body) -> None:
    world = gang_of(job(**spec))
    assert world.queue == "nng"
    assert not any(
        "REDIS" in name or "MQ" in name for name in ditask.di_variables(world.members[0], world)
    )
    assert world.dialers(0)


@pytest.mark.parametrize(
    ("rank", "workers", "ids"), [(0, 1, "0"), (2, 1, "2"), (0, 2, "0,1"), (2, 2, "4,5")], ids=str
)
def test_each_rank_has_its_identity_and_the_size_of_the_world(
    rank: int, workers: int, ids: str
) -> None:
    world = gang(size=3, workers=workers, topology=Topology.STAR)
    assert ditask.di_variables(world.members[rank], world) == {
        "DI_JOB_ID": "job-uid",
        "DI_JOB_NAME": "job",
        "DI_JOB_NAMESPACE": "ns",
        "DI_RANK": str(rank),
        "DI_NODE_IDS": ids,
        "DI_PARALLEL_WORKERS": str(workers),
        "DI_TOPOLOGY": "star",
        "DI_LABELS": "",
    }
