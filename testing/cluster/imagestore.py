"""Keeps containerd's unpacked images between clusters, so that a new node can link them instead of
unpacking them again.
"""

import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from contextlib import AbstractContextManager
from pathlib import Path

from cluster.build import cache, one_at_a_time
from cluster.errors import ClusterError
from cluster.shell import run

KEPT = 2  # stores of up to 4 GB each: the store of the e2e tests, and one other
FILE = "archives.json"


def key(archive: Path) -> str:
    """Return a key that changes with the archive, without reading all of it."""
    found = archive.stat()
    return f"{archive.resolve()} {found.st_size} {found.st_mtime_ns}"


def exclusive() -> AbstractContextManager[None]:
    """Return the lock of the stores. A starting cluster holds the lock from its search for a store
    until the images of its last node are linked. Other starting clusters wait until then. So they
    can use the imported images, and they cannot delete a store that is still being linked.
    """
    return one_at_a_time(cache() / "stores.lock")


def best(archives: Sequence[Path]) -> tuple[Path | None, list[Path]]:
    """Return the best store for these archives: of the stores that contain no other archives, the
    one with the most bytes. Also return the archives that it lacks.
    """
    wanted = {key(archive): archive for archive in archives}
    stores = {store: _keys(store) for store in _stores()}
    fitting = [store for store, keys in stores.items() if keys and keys <= wanted.keys()]
    found = max(
        fitting, key=lambda s: sum(wanted[k].stat().st_size for k in stores[s]), default=None
    )
    have = stores[found] if found else set()
    return found, [archive for name, archive in wanted.items() if name not in have]


def link(store: Path, root: Path) -> None:
    """Create a containerd root from a store."""
    root.parent.mkdir(parents=True, exist_ok=True)
    _link_tree(store / "root", root)
    os.utime(store)


def save(root: Path, archives: Sequence[Path]) -> Path:
    """Save the root of a stopped containerd as a store, and record its archives. This containerd
    must not have run any pods.
    """
    top = cache() / "stores"
    top.mkdir(parents=True, exist_ok=True)
    made = Path(tempfile.mkdtemp(prefix="store-", dir=top))
    _link_tree(root, made / "root")
    # This file marks a complete store, so it is written last.
    (made / FILE).write_text(json.dumps([key(archive) for archive in archives]))
    for old in set(top.iterdir()) - set(_stores()[:KEPT]):  # also incomplete ones of killed starts
        shutil.rmtree(old)
    return made


def _link_tree(source: Path, target: Path) -> None:
    """Create hard links to the layers and blobs, which are never written again, and copy the
    databases.
    """
    try:
        run(["cp", "-a", "--link", str(source), str(target)], timeout=300)
    except ClusterError:  # another file system, or one without hard links
        subprocess.run(["rm", "-rf", "--one-file-system", str(target)], check=True)
        run(["cp", "-a", str(source), str(target)], timeout=600)
    for database in target.glob("*/*.db"):  # PLUGIN/NAME.db; deeper files belong to images
        copy = database.with_suffix(".copy")
        shutil.copy2(database, copy)
        copy.replace(database)


def _stores() -> list[Path]:
    """Return complete stores, the most recently used first."""
    found = [path.parent for path in (cache() / "stores").glob(f"*/{FILE}")]
    return sorted(found, key=lambda path: -path.stat().st_mtime)


def _keys(store: Path) -> set[str]:
    return set(json.loads((store / FILE).read_text()))
