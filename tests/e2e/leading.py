"""Which operator acts."""

import kubernetes
from space import HOME, Api


class Leader:
    """Who acts, as the Lease has it."""

    def __init__(self, api: Api) -> None:
        self._leases = kubernetes.client.CoordinationV1Api(api.core.api_client)

    def now(self) -> tuple[str, object]:
        """The pod's name ("": nobody's), and since when it acts."""
        spec = self._spec()
        return spec.holder_identity or "", spec.acquire_time

    def renewed(self) -> object:
        """When it was renewed last (for comparisons with itself)."""
        return self._spec().renew_time

    def _spec(self) -> kubernetes.client.V1LeaseSpec:
        spec = self._leases.read_namespaced_lease("dijob", HOME).spec
        assert spec is not None
        return spec
