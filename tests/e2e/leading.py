"""Reads which operator is the leader."""

import kubernetes
from space import HOME, Api


class Leader:
    """The leader according to the Lease."""

    def __init__(self, api: Api) -> None:
        self._leases = kubernetes.client.CoordinationV1Api(api.core.api_client)

    def now(self) -> tuple[str, object]:
        """Return the name of the leader's pod ("": none), and since when it leads."""
        spec = self._spec()
        return spec.holder_identity or "", spec.acquire_time

    def renewed(self) -> object:
        """Return the time of the last renewal, for comparisons with another result."""
        return self._spec().renew_time

    def _spec(self) -> kubernetes.client.V1LeaseSpec:
        spec = self._leases.read_namespaced_lease("dijob", HOME).spec
        assert spec is not None
        return spec
