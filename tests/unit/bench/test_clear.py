"""The benchmark deletes all of its objects before the next run."""

from collections import Counter

from faults.lab.kube import Json, Kube, KubeError
from place import clear


class Slow(Kube):
    """An apiserver that deletes a collection in parts: a request may end before all is deleted."""

    def __init__(self) -> None:
        self.left = {"dijobs": 2, "pods": 2, "services": 0}
        self.calls: Counter[str] = Counter()

    async def call(self, method: str, path: str, body: Json | None = None, **headers: str) -> Json:
        kind = path.partition("?")[0].rpartition("/")[2]
        self.calls[f"{method} {kind}"] += 1
        if method == "GET":
            return {"items": [{}] * self.left[kind]}
        if kind == "jobsets":
            raise KubeError(404, "JobSet is not there")
        if self.left.get(kind):
            self.left[kind] -= 1
            raise TimeoutError if self.left[kind] else KubeError(504, "Timeout")
        return {}


async def test_a_partial_deletion_is_continued() -> None:
    kube = Slow()
    await clear(kube, "crowd")
    assert kube.left == {"dijobs": 0, "pods": 0, "services": 0}
    assert kube.calls["DELETE dijobs"] == kube.calls["DELETE pods"] == 3
    assert kube.calls["DELETE jobsets"] == kube.calls["DELETE crowd"] == 1
