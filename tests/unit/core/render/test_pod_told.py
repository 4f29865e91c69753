"""What the operator gives to a pod: variables, the peer list, the gate and the launcher."""

import json
from dataclasses import replace

import pytest
from dijob import names, pod
from dijob.core.actions import PublishAddresses
from dijob.core.addresses import AddressList
from dijob.core.members import gang_of
from dijob.core.options import Delivery, Options
from dijob.core.render.annotations import addresses_patch, topology_json
from dijob.core.render.pod import template_hash
from samples.builders import Body, container, gang, given, gives, job, main, manifest, read
from samples.builders import pod_env as env


def gate(body: Body) -> Body:
    last: Body = body["spec"]["initContainers"][-1]
    assert last["name"] == names.GATE_CONTAINER
    return last


def listed_fields(body: Body) -> set[str]:
    """Return the variables that the kubelet reads from annotations."""
    return {name for name, text in env(body).items() if text.startswith("metadata.annotations[")}


ALL_LISTED = {
    *("DI_NODES", "DI_NODE_IPS", "DI_LIST_NUMBER", "DI_NUM_NODES", "DI_WORLD_SIZE"),
}


def test_what_is_known_at_creation_is_in_the_environment() -> None:
    found = env(manifest(job(), rank=1))
    assert (found["DI_POD_IP"], found["DI_RANK"]) == ("status.podIP", "1")


SOURCES: dict[str, tuple[Body, Body, set[str]]] = {
    "the launcher sets them": ({}, {}, set()),
    "no launcher": ({}, {"launcher": "Off"}, ALL_LISTED),
    "no command": ({"command": None}, {}, ALL_LISTED),
    "named in the command": ({"command": ["sh", "-c", "echo $(DI_NODES)"]}, {}, {"DI_NODES"}),
    "named in the arguments": ({"args": ["$(DI_WORLD_SIZE)"]}, {}, {"DI_WORLD_SIZE"}),
    "named in a variable": (
        {"env": [{"name": "X", "value": "$(DI_NUM_NODES):$(DI_NODES)"}]},
        {},
        {"DI_NUM_NODES", "DI_NODES"},
    ),
    "the shell's own": ({"command": ["sh", "-c", "echo ${DI_NODES} $DI_NODES"]}, {}, set()),
}


@pytest.mark.parametrize(("fields", "spec", "listed"), SOURCES.values(), ids=SOURCES)
def test_the_kubelet_sets_list_variables_only_if_the_launcher_does_not(
    fields: Body, spec: Body, listed: set[str]
) -> None:
    body = manifest(job({"containers": [container(**fields)]}, **spec))
    assert listed_fields(body) == listed
    # Such a pod gets all annotations, and its gate waits until its kubelet has observed them.
    needed = {text.split("'")[1] for text in env(body).values() if "annotations[" in text}
    assert needed <= read(body).made.reads
    assert ("DIJOB_SETTLE_SECONDS" in {e["name"] for e in gate(body)["env"]}) is bool(listed)


def test_with_hostname_addressing_the_list_and_the_gate_have_names() -> None:
    owner = job(addressing="Hostname", topology="star")
    body = manifest(owner, rank=1)
    assert "DI_NODE_IPS" not in env(body)
    told = {entry["name"]: entry.get("value") for entry in gate(body)["env"]}
    assert told["DI_TOPOLOGY"] == "star"
    list_ = PublishAddresses("job-1", "u", given(1, "job-0.job,job-1.job", pod_ip="10.0.0.2"))
    annotations = addresses_patch(gang_of(owner), list_)["metadata"]["annotations"]
    assert annotations[names.ANNOTATION_POD_IP] == "10.0.0.2"
    listed = AddressList(1, "job-0.job,job-1.job")
    topology = json.loads(topology_json(gang_of(owner), listed))
    assert topology["nodeNames"] == ["job-0.job", "job-1.job"]
    assert annotations[names.ANNOTATION_IPS] == listed.text
    assert "DI_TOPOLOGY" not in {entry["name"] for entry in gate(manifest(job()))["env"]}
    assert template_hash(owner) != template_hash(job(topology="star"))


DNS: dict[str, tuple[Body, Body, str | None]] = {
    "names may be looked up once": ({}, {"service": "Always"}, "job"),
    "in the node's network": ({"hostNetwork": True}, {"service": "Always"}, "job"),
    "another DNS": ({"dnsPolicy": "Default"}, {"service": "Always"}, None),
    "no Service": ({}, {"service": "Auto"}, None),
    "the list has names": ({}, {"addressing": "Hostname"}, None),
}


@pytest.mark.parametrize(("pod", "spec", "service"), DNS.values(), ids=DNS)
def test_the_gate_waits_until_the_service_has_all_ranks(
    pod: Body, spec: Body, service: str | None
) -> None:
    """C1: the list may come before the Service's endpoints."""
    told = {entry["name"]: entry.get("value") for entry in gate(manifest(job(pod, **spec)))["env"]}
    assert told.get("DIJOB_SERVICE") == service


def test_optional_annotations_are_written_only_if_they_are_needed() -> None:
    plain = addresses_patch(gang(), PublishAddresses("job-1", "u", given(2, "a,b,c")))["metadata"][
        "annotations"
    ]
    assert names.ANNOTATION_POD_IP not in plain
    # A value that another client has written is removed.
    assert plain[names.ANNOTATION_RENEW] is None
    renewed = addresses_patch(
        gang(), PublishAddresses("job-1", "u", given(2, "a,b,c", renew_from=2))
    )["metadata"]
    assert renewed["annotations"][names.ANNOTATION_RENEW] == "2"


def test_the_launcher_gets_variables_only_for_unusual_settings() -> None:
    assert not env(manifest(job())).keys() & {"DIJOB_TERMINATION_LOG", "DIJOB_KILL_SECONDS"}
    own = job(
        {"containers": [container(terminationMessagePath="/x")], "terminationGracePeriodSeconds": 3}
    )
    found = env(manifest(own))
    assert (found["DIJOB_TERMINATION_LOG"], found["DIJOB_KILL_SECONDS"]) == ("/x", "3")


def test_the_gate_looks_like_the_main_container_without_its_gpus() -> None:
    resources = {
        "limits": {"cpu": 2, "memory": "1Gi", "nvidia.com/gpu": 1},
        "claims": [{"name": "x"}],
    }
    fields = {
        "resources": resources,
        "imagePullPolicy": "Never",
        "securityContext": {"runAsNonRoot": True},
    }
    found = gate(
        manifest(job({"initContainers": [{"name": "first"}], "containers": [container(**fields)]}))
    )
    assert found["resources"] == {"limits": {"cpu": 2, "memory": "1Gi"}}
    assert (found["image"], found["imagePullPolicy"]) == ("img:1", "Never")
    assert found["securityContext"] == {"runAsNonRoot": True}
    assert found["command"] == [pod.GATE]


def test_the_installer_is_like_the_main_container_except_for_its_image() -> None:
    fields = {
        "resources": {"limits": {"cpu": 2, "nvidia.com/gpu": 1}},
        "imagePullPolicy": "Never",
        "securityContext": {"runAsUser": 7},
    }
    told = {"initContainers": [{"name": "first"}], "containers": [container(**fields)]}
    body = manifest(job(told), options=Options(launcher_image="ours:1"))
    first, ours, last = body["spec"]["initContainers"]
    assert (first["name"], last["name"]) == ("first", names.GATE_CONTAINER)
    assert ours == {
        "name": names.LAUNCHER_CONTAINER,
        "image": "ours:1",
        "command": [pod.INSTALL],
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "volumeMounts": [{"name": names.BIN_VOLUME, "mountPath": pod.DIR}],
        "resources": {"limits": {"cpu": 2}},
        "securityContext": {"runAsUser": 7},
    }


def test_an_image_volume_replaces_the_installer() -> None:
    options = Options(launcher_image="ours:1", launcher_delivery=Delivery.IMAGE_VOLUME)
    body = manifest(job(), options=options)
    assert [each["name"] for each in body["spec"]["initContainers"]] == [names.GATE_CONTAINER]
    volumes = {volume["name"]: volume for volume in body["spec"]["volumes"]}
    assert volumes[names.LAUNCHER_VOLUME]["image"] == {"reference": "ours:1"}
    for container_ in (gate(body), main(body)):
        mounts = {m["mountPath"]: m["name"] for m in container_["volumeMounts"]}
        assert mounts == {
            pod.DIR: names.BIN_VOLUME,
            pod.BIN_DIR: names.LAUNCHER_VOLUME,
            pod.POD_DIR: names.POD_VOLUME,
        }
    assert f"{pod.BIN_DIR}/{pod.LAUNCH.rpartition('/')[2]}" == pod.LAUNCH


def test_the_gate_mounts_the_annotations_read_only() -> None:
    body = manifest(job())
    mounts = {m["mountPath"]: m.get("readOnly", False) for m in gate(body)["volumeMounts"]}
    assert mounts == {pod.DIR: False, pod.POD_DIR: True}
    assert files(body) == {pod.ANNOTATIONS_FILE: "metadata.annotations"}


def files(body: Body) -> dict[str, str]:
    volumes = {volume["name"]: volume for volume in body["spec"]["volumes"]}
    assert volumes[names.BIN_VOLUME]["emptyDir"] == {}
    items = volumes[names.POD_VOLUME]["downwardAPI"]["items"]
    return {item["path"]: item["fieldRef"]["fieldPath"] for item in items}


def test_without_a_launcher_the_kubelet_provides_the_topology() -> None:
    body = manifest(job(launcher="Off"))
    assert files(body) == {
        pod.ANNOTATIONS_FILE: "metadata.annotations",
        pod.TOPOLOGY_FILE: f"metadata.annotations['{names.ANNOTATION_TOPOLOGY}']",
    }
    assert names.ANNOTATION_TOPOLOGY in read(body).made.reads


def test_the_patch_is_minimal_and_names_its_pod() -> None:
    """A launcher needs only the list and its revision, and derives the rest."""
    told = gives(0, 3, "10.0.0.1,10.0.0.2")
    patch = addresses_patch(gang(size=5, workers=2), told)["metadata"]
    assert patch["annotations"] == {
        names.ANNOTATION_IPS: "10.0.0.1,10.0.0.2",
        names.ANNOTATION_LIST_NUMBER: "3",
        names.ANNOTATION_RENEW: None,
    }
    assert (patch["uid"], patch["managedFields"]) == ("uid-0", [{}])
    assert patch["labels"] == {names.LABEL_JOB: "job", names.LABEL_RANK: "0"}


def test_a_pod_gets_the_annotations_that_its_spec_refers_to() -> None:
    reads = frozenset({names.ANNOTATION_NUM_NODES, names.ANNOTATION_TOPOLOGY, "another/one"})
    told = replace(gives(0, 3, "10.0.0.1,10.0.0.2"), reads=reads)
    written = addresses_patch(gang(size=5, workers=2), told)["metadata"]["annotations"]
    assert written[names.ANNOTATION_NUM_NODES] == "2"
    assert json.loads(written[names.ANNOTATION_TOPOLOGY]) == {
        "listNumber": 3,
        "worldSize": 4,
        "numNodes": 2,
        "parallelWorkers": 2,
        "topology": "mesh",
        "nodeIps": ["10.0.0.1", "10.0.0.2"],
        "firstNodeIds": [0, 2],
    }
    assert not {names.ANNOTATION_WORLD_SIZE, "another/one"} & set(written)


def test_the_list_of_the_largest_world_fits_into_an_annotation() -> None:
    """Kubernetes limits the annotations of an object to 256 KiB in total."""
    ips = ",".join(f"255.255.{rank // 250}.{rank % 250}" for rank in range(names.MAX_REPLICAS))
    reads = frozenset({names.ANNOTATION_TOPOLOGY})
    told = PublishAddresses("p", "u", given(1, ips), reads)
    annotations = addresses_patch(gang(size=1500, workers=64), told)["metadata"]
    assert len(json.dumps(annotations)) < 100_000


def test_pods_get_url_and_token_only_if_there_is_a_server() -> None:
    """The server affects only pods that are created from then on. The template hash is kept."""
    without, options = manifest(job()), Options(server_url="http://dijob-server.home:8080")
    body = manifest(job(), options=options)
    assert env(body)["DI_SERVER_URL"] == "http://dijob-server.home:8080"
    file = env(body)["DI_SERVER_TOKEN_FILE"]
    mounts = {mount["name"]: mount for mount in main(body)["volumeMounts"]}
    assert file == f"{mounts[names.SERVER_VOLUME]['mountPath']}/token"
    assert mounts[names.SERVER_VOLUME]["readOnly"] is True
    (volume,) = (v for v in body["spec"]["volumes"] if v["name"] == names.SERVER_VOLUME)
    (source,) = volume["projected"]["sources"]
    assert source["serviceAccountToken"]["audience"] == "di-server"
    assert gate(body) == gate(without)
    assert body["metadata"] == without["metadata"]
    assert "DI_SERVER_URL" not in json.dumps(without)


def test_a_server_variable_of_the_template_is_kept() -> None:
    template = container(env=[{"name": "DI_SERVER_URL", "value": "mine"}])
    options = Options(server_url="http://dijob-server.home:8080")
    body = manifest(job(template={"spec": {"containers": [template]}}), options=options)
    assert [e["value"] for e in main(body)["env"] if e["name"] == "DI_SERVER_URL"] == ["mine"]
