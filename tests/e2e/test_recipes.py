"""The examples that are not about training: a data set and an own image. The GPU example is only
validated by an apiserver (apiserver/test_api.py), because there is no GPU here.
"""

import os
import shlex
import subprocess
from pathlib import Path

import pytest
from archives import ROOT, archive, with_files
from cluster.namespace import enter
from cluster.node import BINARIES, SOCKET, Node
from jobs import EXAMPLES, REAL_SECONDS
from space import Space
from volumes import volume

pytestmark = pytest.mark.e2e

CLAIM = """
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: dataset}
spec:
  storageClassName: ""
  accessModes: [ReadOnlyMany]
  resources: {requests: {storage: 1Gi}}
"""


def test_ranks_share_a_read_only_data_set(space: Space, tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir()
    for name in "abcde":
        (data / f"{name}.txt").write_text(name)
    with volume(space, "dataset", data):
        space.kubectl("apply", "-f", "-", stdin=CLAIM)
        space.kubectl("apply", "-f", str(EXAMPLES / "dataset.yaml"))
        space.until_true("readers", "Succeeded", REAL_SECONDS)
        read = [space.printed(f"readers-{rank}") for rank in range(2)]
        assert read == [
            "rank 0 of 2 reads 3 of 5 files: ['a.txt', 'c.txt', 'e.txt']\n",
            "rank 1 of 2 reads 2 of 5 files: ['b.txt', 'd.txt']\n",
        ]
        mounts = space.pods("readers")[0]["spec"]["containers"][0]["volumeMounts"]
        assert next(each for each in mounts if each["name"] == "data")["readOnly"]


WORLD = """
import os

print("rank", os.environ["DI_RANK"], "of", os.environ["DI_WORLD_SIZE"])
"""


def loaded(node: Node, file: Path) -> None:
    """Run `make images-load` for a node's containerd, as in docs/install.md."""
    asked = [f"ENTER={shlex.join(enter(node.holder))}", f"CTR={BINARIES}/ctr --address={SOCKET}"]
    env = {name: value for name, value in os.environ.items() if not name.startswith("MAKE")}
    done = subprocess.run(
        ["make", "-s", "images-load", *asked, f"FILE={file}"],
        cwd=ROOT,
        env=env,
        text=True,
        capture_output=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def test_code_in_an_own_image_runs(space: Space, tmp_path: Path) -> None:
    """The image has an additional layer, as the example's Dockerfile creates it."""
    name = "registry.example.org/my-rl:1"
    made = with_files(archive("light"), tmp_path / "own.tar", name, {"app/main.py": WORLD})
    for node in space.cluster.nodes:
        loaded(space.cluster.node(node), made)
    space.kubectl("apply", "-f", str(EXAMPLES / "own-image.yaml"))
    space.until_true("mine", "Succeeded")
    said = [space.printed(f"mine-{rank}") for rank in range(2)]
    assert said == ["rank 0 of 2\n", "rank 1 of 2\n"]
