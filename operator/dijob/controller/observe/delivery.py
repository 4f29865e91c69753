"""Decides how the launcher gets into a new pod: through an init container that copies it, or as an
image volume.

An image volume saves a container per pod. The API server of Kubernetes 1.36 and newer always
accepts image volumes, and its version can be read without any permission. The nodes may still be
unable to mount an image (core/observed/mounting.py), and a policy may forbid such a volume. So
the decision is a guess, and the operator uses init containers as soon as the guess has proved
wrong. The result is not stored: a new operator guesses again, which costs one failed start
(docs/decisions/050).
"""

import logging
import re
from dataclasses import replace

from dijob.core.observed.views import ApiRejection, Pod, RejectionCause
from dijob.core.options import Delivery, Options
from dijob.kube.api import Api, RequestError

log = logging.getLogger(__name__)

# From this version of Kubernetes on, image volumes cannot be disabled.
IMAGE_VOLUMES_SINCE = (1, 36)


class LauncherDelivery:
    """The delivery for new pods. `options` are the operator's settings. With AUTO, init containers
    are used until `decide` has been called.
    """

    def __init__(self, options: Options) -> None:
        self.options = options
        self._mounts = False
        # The namespaces in which the API server has rejected an image volume.
        self._rejecting: set[str] = set()

    def options_in(self, namespace: str) -> Options:
        """Return the settings for a new pod in this namespace."""
        if self._wanted is not Delivery.AUTO:
            return self.options
        guess = self._guesses_volume(namespace)
        return self._with(Delivery.IMAGE_VOLUME if guess else Delivery.INIT_CONTAINER)

    def fallback(self) -> Options:
        """Return the settings for a pod whose image volume may have been rejected."""
        return self._with(Delivery.INIT_CONTAINER)

    async def begin(self, api: Api) -> None:
        """Read the API server's version, if the setting does not determine the delivery."""
        if self._wanted is not Delivery.AUTO:
            return
        try:
            found = await api.get("/version")
        except RequestError as error:
            log.warning(
                "the version of the API server is unknown, so init containers install the launcher"
                " until the operator restarts: %s",
                error,
            )
            return
        self.decide(str(found.get("major")), str(found.get("minor")))

    def decide(self, major: str, minor: str) -> None:
        """Decide how the launcher gets into new pods, according to the API server's version. Some
        vendors append "+" to `minor`.
        """
        numbers = [int(found[0]) if (found := re.match("[0-9]+", n)) else 0 for n in (major, minor)]
        self._mounts = tuple(numbers) >= IMAGE_VOLUMES_SINCE
        log.info(
            "Kubernetes %s.%s: the launcher gets into new pods through an %s",
            major,
            minor,
            "image volume" if self._mounts else "init container",
        )

    def judge(self, pod: Pod, failure: str) -> str:
        """Return why a pod must be re-created with an init container; "" if there is no reason.
        `failure` is the error of a pod whose node cannot mount the launcher's image ("": none).
        From the first such error on, all new pods have an init container. With IMAGE_VOLUME, no pod
        has an init container, so the result is "".
        """
        if not failure or self._wanted is Delivery.IMAGE_VOLUME:
            return ""
        if self._mounts:
            self._mounts = False
            log.warning(
                "%s: node %s cannot mount the launcher's image in pod %s, so init containers"
                " install the launcher in all new pods. Each time the operator restarts, it"
                " tries to mount the image again. To prevent these attempts, set the chart value"
                " launcher.delivery to InitContainer. The error: %s",
                pod.owner,
                pod.placement.node,
                pod.name,
                failure,
            )
        return failure

    def may_cause(self, namespace: str, rejection: ApiRejection | None) -> bool:
        """Whether the rejection of a pod may be due to its image volume. If so, the pod's
        creation must be retried with an init container.
        """
        return (
            self._guesses_volume(namespace)
            and rejection is not None
            and rejection.why in (RejectionCause.REJECTED, RejectionCause.FORBIDDEN)
            and "volume" in rejection.message.lower()
        )

    def reject(self, namespace: str, message: str) -> None:
        """Record that the API server rejects image volumes in a namespace, but accepts the same pod
        with an init container.
        """
        if namespace not in self._rejecting:
            self._rejecting.add(namespace)
            log.warning(
                "namespace %s: the API server rejects image volumes, so init containers install the"
                " launcher in this namespace: %s",
                namespace,
                message,
            )

    def _guesses_volume(self, namespace: str) -> bool:
        return self._wanted is Delivery.AUTO and self._mounts and namespace not in self._rejecting

    @property
    def _wanted(self) -> Delivery:
        return self.options.launcher_delivery

    def _with(self, delivery: Delivery) -> Options:
        return replace(self.options, launcher_delivery=delivery)
