"""The delivery of the launcher: the guess, and the fallback if the guess is wrong."""

import logging
from collections import Counter

import pytest
from dijob.api.status import format_time
from dijob.controller.observe.delivery import LauncherDelivery
from dijob.core.options import Delivery, Options
from dijob.kube.api import RequestError
from fakes.fake_api import FakeApi
from samples.builders import NOW, Body, job_body
from simulator.kubelet import NOT_FOUND, NOT_MOUNTED
from simulator.objects import No, Selector, Target
from simulator.simulated import World, simulated

AUTO = Options(launcher_delivery=Delivery.AUTO)
CHANNEL = Options(launcher_delivery=Delivery.AUTO, channel="operator:1")
INIT, VOLUME = Delivery.INIT_CONTAINER, Delivery.IMAGE_VOLUME


def has_volume(pod: Body) -> bool:
    return any("image" in volume for volume in pod["spec"]["volumes"])


def delivered(world: World) -> set[Delivery]:
    """Return how the launcher gets into the pods that exist now."""
    return {VOLUME if has_volume(pod.body) else INIT for pod in world.cluster.pods.values()}


def created(world: World) -> Counter[str]:
    """Return how many times a pod of each name was created."""
    history = world.cluster.server.history
    return Counter(
        one.target.name for one in history if (one.target.plural, one.type) == ("pods", "ADDED")
    )


@pytest.mark.parametrize(
    ("version", "expected"),
    [
        (("1", "30"), INIT),
        (("1", "35"), INIT),
        (("1", "36"), VOLUME),
        (("1", "36+"), VOLUME),
        (("1", "100"), VOLUME),
        (("2", "0"), VOLUME),
        (("", ""), INIT),
        (("None", "None"), INIT),
    ],
)
def test_the_version_decides(version: tuple[str, str], expected: Delivery) -> None:
    delivery = LauncherDelivery(AUTO)
    delivery.decide(*version)
    assert delivery.options_in("ns").launcher_delivery is expected


@pytest.mark.parametrize("wanted", [INIT, VOLUME])
async def test_an_explicit_delivery_needs_no_version(wanted: Delivery) -> None:
    api, options = FakeApi(), Options(launcher_delivery=wanted)
    delivery = LauncherDelivery(options)
    await delivery.begin(api.api())
    assert api.calls == []
    assert delivery.options_in("ns") == options


async def test_without_the_version_init_containers_are_used(
    caplog: pytest.LogCaptureFixture,
) -> None:
    delivery = LauncherDelivery(AUTO)
    api = FakeApi(lists=[RequestError(503, "ServiceUnavailable", "not now")])
    await delivery.begin(api.api())
    assert "not now" in caplog.text
    assert delivery.options_in("ns").launcher_delivery is INIT


@pytest.mark.virtual_time
@pytest.mark.parametrize("error", [NOT_MOUNTED, NOT_FOUND], ids=["not mounted", "not found"])
@pytest.mark.parametrize("options", [AUTO, CHANNEL], ids=["gate", "channel"])
@pytest.mark.parametrize("policy", ["OnFailure", "Never"])
async def test_pods_that_cannot_mount_the_launcher_are_recreated_once(
    options: Options, error: tuple[str, str], policy: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    body = job_body({"restartPolicy": policy}, backoffLimit=0, service="Auto")
    async with simulated(body, options=options) as world:
        world.cluster.no_mount = error
        await world.running()
        assert delivered(world) == {INIT}
        assert set(created(world).values()) == {2}
        status = world.cluster.job().status
        assert (status.restarts, status.list_number) == (0, 1)
        assert sum("cannot mount the launcher's image" in text for text in caplog.messages) == 1
        if policy == "OnFailure":  # a failed pod is gone before the status is written
            assert "LauncherNotMounted" in event_reasons(world)
        # The next pods have an init container from the beginning.
        world.cluster.delete(world.cluster.pod("job-1"))
        await world.settle()
        assert created(world)["job-1"] == 3
        assert delivered(world) == {INIT}


@pytest.mark.virtual_time
async def test_an_event_of_an_old_kubelet_leads_to_an_init_container() -> None:
    """Such a kubelet never creates the sandbox. The pod's status shows only that it has a node."""
    async with simulated(job_body(service="Auto"), options=CHANNEL) as world:
        await world.operator_alone(1)
        for pod in tuple(world.cluster.pods.values()):
            world.cluster.server.replace(
                pod.target, {**pod.body, "spec": {**pod.body["spec"], "nodeName": "node"}}
            )
            about = {"uid": pod.uid, "name": pod.name, "kind": "Pod", "namespace": "ns"}
            world.cluster.create("events", unmounted(pod.name, about))
        await world.operator_alone(12)
        assert all(pod.deleting for pod in world.cluster.pods.values())
        await world.running()
        assert delivered(world) == {INIT}
        assert set(created(world).values()) == {2}


def unmounted(name: str, about: Body) -> Body:
    text = (
        "Unable to attach or mount volumes: unmounted volumes=[dijob-launcher]: failed to get"
        ' Plugin from volumeSpec for volume "dijob-launcher" err=no volume plugin matched'
    )
    times = {"firstTimestamp": format_time(NOW), "lastTimestamp": format_time(NOW)}
    return {
        "metadata": {"name": f"{name}.1", "namespace": "ns"},
        "type": "Warning",
        "reason": "FailedMount",
        "message": text,
        "involvedObject": about,
        **times,
    }


def event_reasons(world: World) -> set[str]:
    found = world.cluster.server.find(Selector(Target("events")))
    return {event["reason"] for event in found}


@pytest.mark.virtual_time
async def test_pods_that_run_are_kept_when_another_node_cannot_mount() -> None:
    async with simulated(job_body(service="Auto"), options=CHANNEL) as world:
        await world.running()
        kept = {pod.uid for pod in world.cluster.pods.values() if pod.name != "job-2"}
        world.cluster.no_mount = NOT_MOUNTED
        world.cluster.delete(world.cluster.pod("job-2"))
        await world.settle()
        assert kept < {pod.uid for pod in world.cluster.pods.values()}
        assert delivered(world) == {INIT, VOLUME}
        assert created(world) == {"job-0": 1, "job-1": 1, "job-2": 3}
        assert world.cluster.job().status.restarts == 0


@pytest.mark.virtual_time
async def test_a_new_operator_replaces_no_running_pod() -> None:
    """After an upgrade from a version with init containers, or with another setting."""
    async with simulated(job_body(service="Auto"), options=Options(channel="operator:1")) as world:
        await world.running()
        assert delivered(world) == {INIT}
        pods = set(world.cluster.pods)
        world.options = CHANNEL
        await world.restart()
        await world.settle()
        assert set(world.cluster.pods) == pods


@pytest.mark.virtual_time
async def test_an_explicit_image_volume_is_not_replaced() -> None:
    options = Options(launcher_delivery=VOLUME, channel="operator:1")
    async with simulated(job_body(service="Auto"), options=options) as world:
        world.cluster.no_mount = NOT_MOUNTED
        await world.runs(60)
        assert set(created(world).values()) == {1}
        condition = next(
            one for one in world.cluster.job().status.conditions if one.type == "AddressesReady"
        )
        assert "failed to mkdir" in condition.message
        assert "launcher.delivery" in condition.message


def reject_volumes(world: World, message: str, code: int, everything: bool = False) -> None:
    def admit(target: Target, body: Body) -> None:
        if target.plural == "pods" and (everything or has_volume(body)):
            raise No(code, message)

    world.cluster.server.admission.append(admit)


@pytest.mark.virtual_time
@pytest.mark.parametrize(
    ("code", "message"),
    [
        (400, 'strict decoding error: unknown field "spec.volumes[1].image"'),
        (422, "spec.volumes[1]: Required value: must specify a volume type"),
        (403, 'violates PodSecurity "restricted:v1.31": restricted volume types (volume'
              ' "dijob-launcher" uses restricted volume type "image")'),
    ],
)  # fmt: skip
async def test_a_rejected_image_volume_leads_to_an_init_container(code: int, message: str) -> None:
    async with simulated(job_body(service="Auto"), options=AUTO) as world:
        reject_volumes(world, message, code)
        took = await world.until(lambda: world.phase == "Running")
        assert took < 5
        assert delivered(world) == {INIT}
        # Only the namespace is concerned.
        other = world.operator.reconciler.delivery.options_in("other")
        assert other.launcher_delivery is VOLUME


@pytest.mark.virtual_time
async def test_a_pod_that_is_rejected_with_any_delivery_is_retried_as_before() -> None:
    async with simulated(job_body(service="Auto"), options=AUTO) as world:
        reject_volumes(world, 'pods is forbidden: volume "data" is unknown', 403, everything=True)
        await world.runs(20)
        tries = [call for call in world.line.calls if call.about("POST", "pods")]
        # At first three pods, then one after 1, 3, 7 and 15 s; each of them with both deliveries.
        assert len(tries) == 2 * (3 + 4)
        guess = world.operator.reconciler.delivery.options_in("ns").launcher_delivery
        assert guess is VOLUME
