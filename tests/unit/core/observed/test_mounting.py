"""Errors of nodes that cannot mount the launcher's image, as kubelets and runtimes report them."""

import pytest
from dijob import names, pod
from dijob.core.observed.complaints import event_warning, pod_complaint
from dijob.core.observed.mounting import mount_failure, mount_warning
from dijob.core.observed.parse import parse_pod
from dijob.core.options import Delivery, Options
from dijob.names import Addressing
from samples.builders import Body, job, manifest
from samples.statuses import main_status

VOLUME = Options(channel="10.96.0.7:8082", launcher_delivery=Delivery.IMAGE_VOLUME)
INSTALLED = Options(channel="10.96.0.7:8082")
# containerd 1.7 and 2.0: they do not know the field Mount.image of the CRI.
MKDIR = (
    'failed to generate container "ab12" spec: failed to generate spec: failed to apply OCI'
    ' options: failed to mkdir "": mkdir : no such file or directory'
)
# containerd 2.1 and newer (internal/cri/server: mutateMounts).
FAILED = (
    "failed to mount image volume: ImageVolumeMountFailed: failed to mount image volume component"
    ' "/run/containerd/io.containerd.grpc.v1.cri/image-volumes/ab/cd": no such device'
)
# CRI-O before 1.31, and cri-dockerd.
CRIO = "mount.HostPath is empty"
DOCKER = "Error response from daemon: invalid volume specification: ':/run/dijob/bin:ro'"


def not_found(program: str) -> str:
    return (
        "failed to create containerd task: failed to create shim task: OCI runtime create failed:"
        " runc create failed: unable to start container process:"
        f' exec: "{program}": stat {program}: no such file or directory: unknown'
    )


def waiting(reason: str, message: str) -> Body:
    return {"waiting": {"reason": reason, "message": message}}


def ended(reason: str, message: str) -> Body:
    return {"terminated": {"exitCode": 128, "reason": reason, "message": message}}


FAILURES: dict[str, Body] = {
    "containerd 2.0": waiting("CreateContainerError", MKDIR),
    "containerd 2.1": waiting("CreateContainerError", FAILED),
    "CRI-O 1.30": waiting("CreateContainerError", CRIO),
    "cri-dockerd": waiting("CreateContainerError", DOCKER),
    "an empty folder": waiting("RunContainerError", not_found(pod.LAUNCH)),
    "no volume": ended("StartError", not_found(pod.LAUNCH)),
    "noexec": ended("StartError", f'exec: "{pod.LAUNCH}": permission denied: unknown'),
    "no volume, with Docker": ended("ContainerCannotRun", not_found(pod.LAUNCH)),
}
OTHERS: dict[str, Body] = {
    "it starts": waiting("ContainerCreating", ""),
    "another error": waiting("CreateContainerError", 'failed to stat "/dev/nvidia0"'),
    "a pull fails": waiting("ErrImagePull", "ImageVolumeMountFailed"),
    "the user's program is missing": ended("StartError", not_found("/run/mine/launch")),
    "the user's program failed": ended("Error", not_found(pod.LAUNCH)),
    "it runs": {"running": {"startedAt": "2026-05-04T12:00:00Z"}},
}


@pytest.mark.parametrize("state", FAILURES.values(), ids=FAILURES)
def test_a_failed_mount_is_recognized(state: Body) -> None:
    body = manifest(job(service="Auto"), options=VOLUME)
    body["metadata"]["uid"] = "uid-0"
    main = main_status(state=state)
    seen = parse_pod({**body, "status": {"containerStatuses": [main]}})
    (error,) = state.values()
    assert seen.unmountable == error["message"]
    # The container is in a back-off.
    if "terminated" in state:
        again = waiting("CrashLoopBackOff", "back-off 10s restarting failed container")
        main = main_status(state=again, lastState=state)
        assert mount_failure(body["spec"], {"containerStatuses": [main]}, seen.made.main)


@pytest.mark.parametrize("state", OTHERS.values(), ids=OTHERS)
def test_another_state_is_no_failed_mount(state: Body) -> None:
    spec = manifest(job(service="Auto"), options=VOLUME)["spec"]
    status = {"containerStatuses": [main_status(state=state)]}
    assert not mount_failure(spec, status, names.MAIN_CONTAINER)


@pytest.mark.parametrize(
    ("state", "found"),
    [
        (waiting("CreateContainerError", MKDIR), True),
        (ended("StartError", not_found(pod.GATE)), True),
        (waiting("PodInitializing", ""), False),
    ],
    ids=["not created", "not found", "it starts"],
)
def test_a_failed_mount_in_the_gate_is_recognized(state: Body, found: bool) -> None:
    spec = manifest(job(addressing=Addressing.HOSTNAME.value), options=VOLUME)["spec"]
    gate = {"name": names.GATE_CONTAINER, "state": state}
    status = {"initContainerStatuses": [gate], "containerStatuses": []}
    assert bool(mount_failure(spec, status, names.MAIN_CONTAINER)) == found


def test_a_pod_with_an_init_container_needs_no_mount() -> None:
    spec = manifest(job(service="Auto"), options=INSTALLED)["spec"]
    status = {"containerStatuses": [main_status(state=FAILURES["containerd 2.0"])]}
    assert not mount_failure(spec, status, names.MAIN_CONTAINER)


def test_an_image_volume_of_the_template_would_fail_with_any_delivery() -> None:
    own = {"name": "data", "image": {"reference": "data:1"}}
    spec = manifest(job({"volumes": [own]}, service="Auto"), options=VOLUME)["spec"]
    status = {"containerStatuses": [main_status(state=FAILURES["containerd 2.0"])]}
    assert not mount_failure(spec, status, names.MAIN_CONTAINER)


def test_a_pod_whose_volume_the_api_server_has_removed_is_recognized() -> None:
    spec = manifest(job(service="Auto"), options=VOLUME)["spec"]
    spec["volumes"] = [one for one in spec["volumes"] if "image" not in one]
    status = {"containerStatuses": [main_status(state=FAILURES["no volume"])]}
    assert mount_failure(spec, status, names.MAIN_CONTAINER)


@pytest.mark.parametrize(
    ("volume", "found"), [("dijob-launcher", True), ("data", False)], ids=["ours", "the user's"]
)
def test_the_event_of_an_old_kubelet_is_recognized(volume: str, found: bool) -> None:
    """Kubelet 1.34, pkg/kubelet/volumemanager: WaitForAttachAndMount."""
    text = (
        f"Unable to attach or mount volumes: unmounted volumes=[{volume}], unattached volumes=[],"
        f" failed to process volumes=[{volume}]: failed to get Plugin from volumeSpec for volume"
        f' "{volume}" err=no volume plugin matched'
    )
    event = {"type": "Warning", "reason": "FailedMount", "message": text}
    assert bool(mount_warning(event_warning(event, names.MAIN_CONTAINER))) == found


def test_an_image_of_a_volume_that_cannot_be_pulled_is_named_in_status_and_event() -> None:
    """The status reports it for the container that mounts the volume, the event for the pod."""
    spec = manifest(job(service="Auto"), options=VOLUME)["spec"]
    image = VOLUME.launcher_image
    cause = f'failed to pull and unpack image "docker.io/{image}": not found'
    main = main_status(state=waiting("ErrImagePull", cause))
    backs_off = f'Back-off pulling image "{image}": ErrImagePull: {cause}'
    again = main_status(state=waiting("ImagePullBackOff", backs_off))
    message = f'Failed to pull image "{image}": {cause}'
    event = {"type": "Warning", "reason": "Failed", "message": message}
    said = {
        pod_complaint(spec, {"containerStatuses": [main]}, names.MAIN_CONTAINER),
        pod_complaint(spec, {"containerStatuses": [again]}, names.MAIN_CONTAINER),
        event_warning(event, names.MAIN_CONTAINER, ((image, names.LAUNCHER_VOLUME),)),
    }
    start = f"volume {names.LAUNCHER_VOLUME}: ImagePullBackOff: image {image} cannot be pulled"
    assert said == {f"{start}: not found"}
