"""Which builds of the cluster's programs stay in the cache."""

import os
from pathlib import Path

import pytest
from cluster.build import KEPT, NEWEST, build, cache, remove_old_builds, target
from cluster.shell import Progress


def test_the_builds_that_were_used_last_are_kept(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    known = target(NEWEST)  # the oldest build, but it is used once more
    others = [cache() / f"bin-{number}" for number in range(KEPT)]
    for age, folder in enumerate([known, *others]):
        folder.mkdir(parents=True)
        os.utime(folder, (1000 + age, 1000 + age))
    assert build(Progress(0, quiet=True), NEWEST) == known
    remove_old_builds()
    assert set(cache().iterdir()) == {known, *others[1:]}
