"""For tests of rejected changes: an apiserver that protects pods, and the rejections that the
operator remembers.
"""

from dataclasses import dataclass, field, replace
from typing import Any

from dijob.controller.cache.children import Children
from dijob.core.observed.rejections import of_change
from dijob.core.observed.views import ApiRejection, Pod
from dijob.kube.api import RequestError
from samples.builders import NOW, Body, later

from fakes.fake_api import FakeApi

POLICY = (
    "pods is forbidden: ValidatingAdmissionPolicy 'protect' denied request: ask the owner first"
)


def refused(status: int = 403, attempts: int = 1, seconds: float = 7) -> ApiRejection:
    no = of_change(status, POLICY, None, NOW)
    return replace(no, retry_at=later(seconds), attempts=attempts)


@dataclass
class Protected(FakeApi):
    """Stores the job, and rejects every change to the protected pods with the same error."""

    body: Body = field(default_factory=dict)
    protected: set[str] = field(default_factory=set)
    answer: Exception = field(default_factory=lambda: RequestError(403, "Forbidden", POLICY))

    async def get(self, path: str, **query: str) -> Body:
        self.calls.append(("GET", path, dict(query)))
        return {"items": []} if path.endswith("/events") else self.body

    async def patch(self, path: str, body: Body, **_: Any) -> Body:
        self._ask("PATCH", path)
        if path.endswith("/status"):
            status = {**self.body["status"], **body["status"]}
            version = str(int(self.body["metadata"]["resourceVersion"]) + 1)
            meta = {**self.body["metadata"], "resourceVersion": version}
            self.body = {**self.body, "metadata": meta, "status": status}
            return self.body
        return {"metadata": {"resourceVersion": "99"}}

    async def delete(self, path: str, uid: str, **_: Any) -> None:
        self._ask("DELETE", path)

    def _ask(self, method: str, path: str) -> None:
        name = path.rpartition("/")[2]
        self.calls.append((method, name, {}))
        if name in self.protected:
            raise self.answer

    def asked(self, method: str) -> list[str]:
        return [name for called, name, _ in self.calls if called == method]


def children(*pods: Pod) -> Children:
    made = Children.of(())
    for pod in pods:
        made.pods.put(pod)
    return made
