"""Volumes that outlive pods and jobs: folders of this machine that the nodes can access."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from space import Body, Space


@contextmanager
def volume(space: Space, claim: str, folder: Path) -> Iterator[None]:
    """Create a PersistentVolume for a claim of this name. The folder's files outlive it."""
    folder.mkdir(exist_ok=True)
    folder.chmod(0o777)
    name = f"{space.name}-{claim}"
    modes = ["ReadWriteOnce", "ReadWriteMany", "ReadOnlyMany"]
    body: Body = {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": name},
        "spec": {
            "capacity": {"storage": "1Gi"},
            "accessModes": modes,
            "persistentVolumeReclaimPolicy": "Retain",
            "claimRef": {"namespace": space.name, "name": claim},
            "hostPath": {"path": str(folder)},
        },
    }
    space.kubectl("create", "-f", "-", stdin=json.dumps(body))
    try:
        yield
    finally:
        space.kubectl("delete", "persistentvolume", name, "--wait=false")


@contextmanager
def claimed(space: Space, claim: str, folder: Path) -> Iterator[None]:
    """Create a PersistentVolume and its claim."""
    body: Body = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": claim},
        "spec": {
            "storageClassName": "",
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "1Gi"}},
        },
    }
    with volume(space, claim, folder):
        space.kubectl("create", "-f", "-", stdin=json.dumps(body))
        try:
            yield
        finally:
            space.kubectl("delete", "persistentvolumeclaim", claim, "--wait=false")
