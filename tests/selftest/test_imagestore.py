"""Clusters that are started concurrently and need the same images."""

import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import cast

import pytest
from cluster import imagestore, modes
from cluster.node import Node
from cluster.shell import Progress

STARTS = imagestore.KEPT + 1


class Disk:
    """The image store of a node: containerd's root, into which an archive is imported."""

    def __init__(self, name: str, root: Path, together: threading.Barrier) -> None:
        self.name, self.images_root, self.together = name, root, together
        self.imported = 0

    def start_containerd(self) -> None:
        self.images_root.mkdir(parents=True, exist_ok=True)

    def stop_containerd(self) -> None: ...

    def load(self, archive: Path) -> None:
        with suppress(threading.BrokenBarrierError):  # the others wait for this import
            self.together.wait(timeout=0.3)
        self.imported += 1
        (self.images_root / archive.name).write_bytes(archive.read_bytes())


def test_concurrent_starts_import_an_image_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    archive = tmp_path / "image.tar"
    archive.write_bytes(b"layers")
    unfinished = tmp_path / "cache/dijob/stores/store-killed/root"
    unfinished.mkdir(parents=True)
    together = threading.Barrier(STARTS)
    clusters = [
        [Disk(f"node-{n}", tmp_path / f"{start}/node-{n}/root", together) for n in (1, 2)]
        for start in range(STARTS)
    ]
    with ThreadPoolExecutor(STARTS) as pool:
        for start in [
            pool.submit(
                modes._start_containerds,
                cast(list[Node], nodes),
                [archive],
                Progress(1, quiet=True),
            )
            for nodes in clusters
        ]:
            start.result()
    assert sum(node.imported for nodes in clusters for node in nodes) == 1
    for nodes in clusters:
        for node in nodes:
            assert (node.images_root / "image.tar").read_bytes() == b"layers", node.name
    assert not unfinished.exists()
