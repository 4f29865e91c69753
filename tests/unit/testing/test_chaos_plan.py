"""The random faults of a seed, and the recorded story by which they can be repeated."""

import json
from collections import Counter
from collections.abc import Sequence
from itertools import islice
from pathlib import Path

import pytest
from faults.real_pods.kinds import KINDS, Kind, Level
from faults.real_pods.plan import PER_WAVE, WITHIN_SECONDS, Fault, Field, waves
from faults.real_pods.shapes import ALL, MESH, REDIS, owner
from faults.real_pods.story import BEGIN, FAULT, WAVE, Story, replayed, seed_of, wave

PODS = tuple(pod for shape in ALL for pod in shape.targets)
NODES = ("node-1", "node-2")


def drawn(
    seed: int, count: int, kinds: Sequence[Kind] = tuple(KINDS.values())
) -> list[list[Fault]]:
    field = Field(PODS, NODES, tuple(kinds))
    return [list(faults) for faults in islice(waves(seed, field), count)]


def test_a_seed_determines_the_faults() -> None:
    assert drawn(7, 6) == drawn(7, 6)
    assert drawn(7, 6) != drawn(8, 6)


@pytest.mark.parametrize("seed", range(20))
def test_every_kind_occurs_within_five_waves(seed: int) -> None:
    kinds = {fault.kind for faults in drawn(seed, 5) for fault in faults}
    assert kinds == set(KINDS)


@pytest.mark.parametrize("seed", range(20))
def test_a_wave_has_several_faults_and_spares_one_node(seed: int) -> None:
    for faults in drawn(seed, 10):
        assert Counter(fault.is_a.level for fault in faults) == PER_WAVE
        nodes = [fault.target for fault in faults if fault.is_a.level is Level.NODE]
        assert len(set(nodes)) == len(nodes)
        assert sum(fault.is_a.given_up for fault in faults) <= 1
        assert [fault.at for fault in faults] == sorted(fault.at for fault in faults)
        for fault in faults:
            fewest, most = fault.is_a.lasts
            earliest = WITHIN_SECONDS if fault.is_a.given_up else 0
            assert earliest <= fault.at <= WITHIN_SECONDS
            assert round(fewest, 1) <= fault.seconds <= round(most, 1)
            if fault.is_a.level is Level.POD:
                assert fault.target in PODS


def test_excluded_kinds_never_occur() -> None:
    left = [kind for kind in KINDS.values() if not kind.given_up and kind.level is not Level.NODE]
    found = {fault.kind for faults in drawn(1, 8, left) for fault in faults}
    assert found == {kind.name for kind in left}


def test_the_job_of_a_pod() -> None:
    assert owner(ALL, "mesh-3") is MESH
    assert owner(ALL, "redis-mq") is REDIS
    with pytest.raises(KeyError):
        owner(ALL, "mesh-4")


def test_a_story_is_repeated_with_its_own_faults(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first = drawn(3, 2)
    story = Story(tmp_path / "story.jsonl")
    story.tell(BEGIN, seed=3)
    for number, faults in enumerate(first, 1):
        story.tell(WAVE, **wave(number, faults))
        story.tell(FAULT, kind=faults[0].kind, target=faults[0].target, hit="pid 7")
    lines = story.path.read_text().splitlines()
    assert seed_of(lines) == 3
    assert [list(faults) for faults in replayed(lines)] == first
    assert len(capsys.readouterr().out.splitlines()) == len(lines) == 5
    assert all(json.loads(line)["time"] >= 0 for line in lines)


def test_a_file_without_waves_is_not_a_story() -> None:
    with pytest.raises(ValueError, match="no line of a wave"):
        replayed(['{"what": "begin", "seed": 1}'])
