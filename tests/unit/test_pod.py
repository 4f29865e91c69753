"""The pods and the service that are created: whose they are, what is added, and what is left to the
user.
"""

import copy
import json
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from dijob import names, pod
from dijob.api import shellwords
from dijob.api.model import DIJob
from dijob.api.parse import parse_job
from dijob.api.parts import TemplateMetadata
from dijob.core.actions import PublishAddresses
from dijob.core.addresses import AddressList
from dijob.core.members import gang_of
from dijob.core.observed.containers import RENEWED
from dijob.core.options import Delivery, Options
from dijob.core.render import service
from dijob.core.render.annotations import addresses_patch, topology_json
from dijob.core.render.pod import pod_manifest, template_hash
from dijob.pod import KILL_SECONDS, RENEWAL_CODE
from dijob.shell.memory import Memory
from speed import allowed
from unit.builders import (
    container,
    gang,
    given,
    gives,
    job,
    job_body,
    main,
    manifest,
    pod_body,
    read,
)
from unit.builders import pod_env as env

Body = dict[str, Any]
ROOT = Path(__file__).parents[2]


def gate(body: Body) -> Body:
    last: Body = body["spec"]["initContainers"][-1]
    assert last["name"] == names.GATE_CONTAINER
    return last


def test_a_pod_says_whose_it_is_and_which_rank() -> None:
    body = manifest(job(), rank=2)
    meta, spec = body["metadata"], body["spec"]
    assert (meta["name"], spec["hostname"], spec["subdomain"]) == ("job-2", "job-2", "job")
    assert meta["labels"][names.LABEL_JOB] == "job"
    assert meta["labels"][names.LABEL_RANK] == "2"
    (owner,) = meta["ownerReferences"]
    assert owner["controller"] is True
    assert "blockOwnerDeletion" not in owner


def listed_fields(body: Body) -> set[str]:
    """The variables that the kubelet takes from annotations."""
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
def test_the_kubelet_sets_what_follows_from_the_list_only_where_the_launcher_does_not(
    fields: Body, spec: Body, listed: set[str]
) -> None:
    body = manifest(job({"containers": [container(**fields)]}, **spec))
    assert listed_fields(body) == listed
    # The list is told such a pod in full, and it waits until its kubelet has seen it.
    needed = {text.split("'")[1] for text in env(body).values() if "annotations[" in text}
    assert needed <= read(body).made.reads
    assert ("DIJOB_SETTLE_SECONDS" in {e["name"] for e in gate(body)["env"]}) is bool(listed)


def test_where_ranks_are_told_names_the_list_and_the_gate_have_them() -> None:
    owner = job(addressing="Hostname", topology="star")
    body = manifest(owner, rank=1)
    assert "DI_NODE_IPS" not in env(body)
    told = {entry["name"]: entry.get("value") for entry in gate(body)["env"]}
    assert (told["DIJOB_HOST"], told["DI_TOPOLOGY"]) == ("job-1.job", "star")
    list_ = PublishAddresses("job-1", "u", given(1, "job-0.job,job-1.job", pod_ip="10.0.0.2"))
    annotations = addresses_patch(gang_of(owner), list_)["metadata"]["annotations"]
    assert annotations[names.ANNOTATION_POD_IP] == "10.0.0.2"
    listed = AddressList(1, "job-0.job,job-1.job")
    topology = json.loads(topology_json(gang_of(owner), listed))
    assert topology["nodeNames"] == ["job-0.job", "job-1.job"]
    assert annotations[names.ANNOTATION_IPS] == listed.text
    assert "DIJOB_HOST" not in {entry["name"] for entry in gate(manifest(job()))["env"]}
    assert template_hash(owner) != template_hash(job(topology="star"))


def test_only_who_renews_and_only_where_names_are_told_more_is_written() -> None:
    plain = addresses_patch(gang(), PublishAddresses("job-1", "u", given(2, "a,b,c")))["metadata"][
        "annotations"
    ]
    assert names.ANNOTATION_POD_IP not in plain
    assert plain[names.ANNOTATION_RENEW] is None  # taken away where somebody has written it
    renewed = addresses_patch(
        gang(), PublishAddresses("job-1", "u", given(2, "a,b,c", renew_from=2))
    )["metadata"]
    assert renewed["annotations"][names.ANNOTATION_RENEW] == "2"


def test_what_our_scripts_must_know_of_the_pod_is_told_where_it_is_not_as_usual() -> None:
    assert not env(manifest(job())).keys() & {"DIJOB_TERMINATION_LOG", "DIJOB_KILL_SECONDS"}
    own = job(
        {"containers": [container(terminationMessagePath="/x")], "terminationGracePeriodSeconds": 3}
    )
    found = env(manifest(own))
    assert (found["DIJOB_TERMINATION_LOG"], found["DIJOB_KILL_SECONDS"]) == ("/x", "3")


# terminationGracePeriodSeconds, and how long the launcher and the operator give a program to end.
GRACES = {
    "short": (3, 3),
    "none": (0, 0),
    "kubernetes' own": (30, 30),
    "a checkpoint": (600, 600),
    "null": (None, 30),
}


@pytest.mark.parametrize(("given", "seconds"), GRACES.values(), ids=GRACES)
def test_a_program_has_its_own_grace_period_to_end_for_a_renewal(
    given: int | None, seconds: int
) -> None:
    body = pod_body(owner=job({"terminationGracePeriodSeconds": given}))
    told = env(body).get("DIJOB_KILL_SECONDS", str(KILL_SECONDS))
    # As the apiserver stores it.
    body["spec"]["terminationGracePeriodSeconds"] = 30 if given is None else given
    assert (told, read(body).made.grace) == (str(seconds), seconds)


READ_BY_THE_LAUNCHER = (names.ANNOTATION_IPS, names.ANNOTATION_LIST_NUMBER, names.ANNOTATION_RENEW)


def test_the_launcher_and_the_operator_mean_the_same() -> None:
    """What either side writes down for itself, in Go and in Python."""
    text = "".join(path.read_text() for path in sorted((ROOT / "images/launcher").glob("*.go")))
    for said in (
        f'seconds("DIJOB_KILL_SECONDS", {KILL_SECONDS})',
        f'variable("DIJOB_BIN_DIR", "{pod.BIN_DIR}")',
        f'variable("DIJOB_POD_DIR", "{pod.POD_DIR}")',
        f'podFolder(), "{pod.ANNOTATIONS_FILE}"',
        f'link("pod/{pod.TOPOLOGY_FILE}"',
        f'prefix = "{names.GROUP}/"',
        *(f'said["{key.rpartition("/")[2]}"]' for key in READ_BY_THE_LAUNCHER),
        f"renewalExit = {RENEWAL_CODE}",
        *(f'"{path.rpartition("/")[2]}"' for path in (pod.GATE, pod.LAUNCH, pod.INSTALL)),
    ):
        assert said in text
    assert RENEWED.match("dijob: renewal, list 7\n")
    assert '"dijob: renewal, list "' in text


def test_a_pod_of_an_older_operator_is_not_waited_for_longer_than_its_launcher_waits() -> None:
    """Its launcher sends KILL after 20 s, and its environment does not name a longer time."""
    body = pod_body()
    body["spec"]["terminationGracePeriodSeconds"] = 600
    assert read(body).made.grace == KILL_SECONDS


def test_who_names_another_time_to_end_himself_has_it() -> None:
    own = container(env=[{"name": "DIJOB_KILL_SECONDS", "value": "90"}])
    assert (
        read(
            pod_body(owner=job({"containers": [own], "terminationGracePeriodSeconds": 600}))
        ).made.grace
        == 90
    )


def test_the_users_variables_win_and_come_after_ours() -> None:
    own = [{"name": "DI_LABELS", "value": "mine"}, {"name": "WHERE", "value": "$(DI_POD_IP)"}]
    body = manifest(job({"containers": [container(env=own)]}))
    entries = [e["name"] for e in main(body)["env"]]
    assert entries.count("DI_LABELS") == 1
    assert env(body)["DI_LABELS"] == "mine"
    assert entries.index("DI_POD_IP") < entries.index("WHERE")


@pytest.mark.parametrize(
    ("fields", "spec", "wrapped"),
    [
        ({}, {}, True),
        ({"command": None, "args": ["x"]}, {}, False),
        ({}, {"launcher": "Off"}, False),
    ],
    ids=["command", "entry-point", "launcher-off"],
)
def test_only_a_command_is_wrapped(fields: Body, spec: Body, wrapped: bool) -> None:
    found = main(manifest(job({"containers": [container(**fields)]}, **spec)))
    assert ((found.get("command") or [""])[0] == pod.LAUNCH) is wrapped
    mounts = {m["mountPath"]: m.get("readOnly", False) for m in found["volumeMounts"]}
    assert mounts == {pod.DIR: False, pod.POD_DIR: True}


PROBE = {"tcpSocket": {"port": 50515}, "periodSeconds": 1}


@pytest.mark.parametrize(
    ("fields", "spec", "probe"),
    [
        ({}, {}, PROBE),
        (
            {"command": [*container()["command"], "--ports", "6000"]},
            {},
            {**PROBE, "tcpSocket": {"port": 6000}},
        ),
        ({"command": ["python", "train.py"]}, {}, None),
        ({"command": [*container()["command"], "--mq-type", "redis"]}, {}, None),
        ({}, {"launcher": "Off"}, None),
        ({"command": [*container()["command"], "--platform", "k8s"]}, {"launcher": "Off"}, PROBE),
        (
            {"command": ["bash", "-c", "conda activate x && ditask --package p --main p.main"]},
            {},
            None,
        ),
        ({"readinessProbe": {"exec": {"command": ["true"]}}}, {}, {"exec": {"command": ["true"]}}),
    ],
    ids=["ditask", "ports", "other", "redis", "off", "off-and-told", "bypassed", "users-own"],
)
def test_a_probe_only_where_the_program_visibly_listens(
    fields: Body, spec: Body, probe: Body | None
) -> None:
    found = main(manifest(job({"containers": [container(**fields)]}, **spec)))
    assert found.get("readinessProbe") == probe


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


def test_what_brings_the_programs_looks_like_the_main_container_but_for_its_image() -> None:
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


def test_an_image_volume_saves_the_container_that_brings_the_programs() -> None:
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


def test_the_gate_reads_the_list_and_leaves_the_launcher() -> None:
    body = manifest(job())
    mounts = {m["mountPath"]: m.get("readOnly", False) for m in gate(body)["volumeMounts"]}
    assert mounts == {pod.DIR: False, pod.POD_DIR: True}
    assert files(body) == {pod.ANNOTATIONS_FILE: "metadata.annotations"}


def files(body: Body) -> dict[str, str]:
    volumes = {volume["name"]: volume for volume in body["spec"]["volumes"]}
    assert volumes[names.BIN_VOLUME]["emptyDir"] == {}
    items = volumes[names.POD_VOLUME]["downwardAPI"]["items"]
    return {item["path"]: item["fieldRef"]["fieldPath"] for item in items}


def test_where_no_launcher_stands_the_kubelet_writes_the_topology() -> None:
    body = manifest(job(launcher="Off"))
    assert files(body) == {
        pod.ANNOTATIONS_FILE: "metadata.annotations",
        pod.TOPOLOGY_FILE: f"metadata.annotations['{names.ANNOTATION_TOPOLOGY}']",
    }
    assert names.ANNOTATION_TOPOLOGY in read(body).made.reads


def test_defaults_are_only_defaults() -> None:
    body = manifest(job())["spec"]
    assert (body["restartPolicy"], body["enableServiceLinks"]) == ("OnFailure", False)
    body = manifest(job({"restartPolicy": "Never", "enableServiceLinks": True}))["spec"]
    assert (body["restartPolicy"], body["enableServiceLinks"]) == ("Never", True)


@pytest.mark.parametrize(
    ("pod_spec", "field", "value"),
    [
        ({"restartPolicy": None}, "restartPolicy", "OnFailure"),
        ({"enableServiceLinks": None}, "enableServiceLinks", False),
    ],
    ids=["restartPolicy", "enableServiceLinks"],
)
def test_null_is_as_good_as_absent(pod_spec: Body, field: str, value: object) -> None:
    """The apiserver would take null for its own default, which is Always."""
    assert manifest(job(pod_spec))["spec"][field] == value


@pytest.mark.parametrize("slip", ["x", 7, {"name": "x"}, ["x"], [7]], ids=str)
@pytest.mark.parametrize("field", ["ports", "volumeMounts", "resources"])
def test_what_has_the_wrong_shape_is_left_to_the_apiserver_to_refuse(
    field: str, slip: object
) -> None:
    """It answers with the field's name; a pass that raises would tell the user nothing."""
    found = main(manifest(job({"containers": [container(**{field: slip})]})))
    assert found[field] == slip or (isinstance(slip, list) and found[field][: len(slip)] == slip)


@pytest.mark.parametrize("field", ["volumes", "initContainers"])
def test_a_wrong_shape_in_the_pod_itself_is_left_as_well(field: str) -> None:
    assert manifest(job({field: "x"}))["spec"][field] == "x"


def test_the_pod_carries_what_it_was_made_from() -> None:
    given = {"labels": {"team": "a", names.MANAGED_BY: "me"}, "annotations": {"note": "b"}}
    owner = job()
    assert owner.spec.template is not None
    template = owner.spec.template.model_copy(
        update={"metadata": TemplateMetadata.model_validate(given)}
    )
    owner = DIJob(
        metadata=owner.metadata, spec=owner.spec.model_copy(update={"template": template})
    )
    meta = manifest(owner)["metadata"]
    assert meta["labels"]["team"] == "a"
    assert meta["labels"][names.MANAGED_BY] == names.MANAGER
    assert meta["annotations"] == {
        "note": "b",
        names.ANNOTATION_TEMPLATE: template_hash(owner),
        "diengine/rank": "0",
        "diengine/replicas": "3",
    }


@pytest.mark.parametrize(
    ("ports", "added"),
    [
        (None, {"name": "di-port", "containerPort": 50515}),
        ([{"name": "web", "containerPort": 80}], {"name": "di-port", "containerPort": 50515}),
        ([{"name": "di-port", "containerPort": 6000}], None),
        ([{"containerPort": 50515}], None),
    ],
    ids=["none", "another", "named", "numbered"],
)
def test_the_main_container_has_one_di_port(ports: list[Body] | None, added: Body | None) -> None:
    found = main(manifest(job({"containers": [container(ports=ports)]})))
    assert found["ports"] == [*(ports or []), *([added] if added else [])]


@pytest.mark.parametrize(
    ("ports", "added"),
    [(None, [50515, 50516]), ([{"name": "di-port", "containerPort": 50516}], [50515])],
    ids=["none", "one of them"],
)
def test_in_the_nodes_network_each_workers_port_is_claimed(
    ports: list[Body] | None, added: list[int]
) -> None:
    pod = {"containers": [container(ports=ports)], "hostNetwork": True}
    found = manifest(job(pod, parallelWorkers=2))["spec"]
    own = [port["containerPort"] for port in found["containers"][0]["ports"][len(ports or []) :]]
    assert own == added
    assert found["dnsPolicy"] == "ClusterFirstWithHostNet"
    names_ = [port["name"] for port in found["containers"][0]["ports"]]
    assert len(set(names_)) == len(names_)


def test_a_dns_policy_of_the_users_own_stays() -> None:
    pod = {"containers": [container()], "hostNetwork": True, "dnsPolicy": "None", "dnsConfig": {}}
    assert manifest(job(pod))["spec"]["dnsPolicy"] == "None"


def test_making_a_pod_leaves_the_template_alone() -> None:
    owner = job(
        {"containers": [container(env=[{"name": "A", "value": "1"}])], "volumes": [{"name": "v"}]}
    )
    before = template_hash(owner)
    assert manifest(owner, 0) == manifest(owner, 0)
    assert template_hash(owner) == before
    assert owner.spec.template is not None
    assert owner.spec.template.spec is not None
    assert len(owner.spec.template.spec["volumes"]) == 1


def test_the_patch_is_lean_and_names_its_pod() -> None:
    """A launcher needs the list and its number: the rest follows from them."""
    told = gives(0, 3, "10.0.0.1,10.0.0.2")
    patch = addresses_patch(gang(size=5, workers=2), told)["metadata"]
    assert patch["annotations"] == {
        names.ANNOTATION_IPS: "10.0.0.1,10.0.0.2",
        names.ANNOTATION_LIST_NUMBER: "3",
        names.ANNOTATION_RENEW: None,
    }
    assert (patch["uid"], patch["managedFields"]) == ("uid-0", [{}])
    assert patch["labels"] == {names.LABEL_JOB: "job", names.LABEL_RANK: "0"}


def test_a_pod_is_told_what_its_spec_reads() -> None:
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
    """Kubernetes bounds all annotations of an object at 256 KiB in sum."""
    ips = ",".join(f"255.255.{rank // 250}.{rank % 250}" for rank in range(names.MAX_REPLICAS))
    reads = frozenset({names.ANNOTATION_TOPOLOGY})
    told = PublishAddresses("p", "u", given(1, ips), reads)
    annotations = addresses_patch(gang(size=1500, workers=64), told)["metadata"]
    assert len(json.dumps(annotations)) < 100_000


def test_the_service_publishes_names_before_ready() -> None:
    spec = service.manifests(job(), Options())[0]["spec"]
    assert (spec["clusterIP"], spec["publishNotReadyAddresses"]) == ("None", True)
    assert spec["selector"] == {names.LABEL_JOB: "job"}


@pytest.mark.parametrize(
    ("pod_spec", "spec", "same"),
    [
        ({}, {"backoffLimit": 7, "replicas": 2}, True),
        ({}, {"topology": "star"}, False),
        ({}, {"parallelWorkers": 2}, False),
        ({}, {"launcher": "Off"}, False),
        ({"dnsPolicy": "Default"}, {}, False),
    ],
    ids=["others", "topology", "workers", "launcher", "template"],
)
def test_the_fingerprint_covers_what_is_immutable_and_no_more(
    pod_spec: Body, spec: Body, same: bool
) -> None:
    assert (template_hash(job(pod_spec, **spec)) == template_hash(job())) is same


SCRIPT = (
    "\n".join(f"export A{number}=$(cat /etc/{number}) # a comment" for number in range(280))
    + "\nditask -m a.main"
)


@pytest.mark.timed
def test_a_command_is_read_once_for_all_pods_and_versions_of_the_status(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    read, real = list[str](), shellwords.simple_commands

    def noted(script: str) -> list[list[str]] | None:
        read.append(script)
        return real(script)

    monkeypatch.setattr(shellwords, "simple_commands", noted)
    pod_spec = {"containers": [container(command=["bash", "-c", SCRIPT])]}
    memory, begin = Memory(), time.process_time()
    for version in range(5):
        body = job_body(pod_spec, {"restarts": version}, replicas=1500)
        body["metadata"]["resourceVersion"] = str(version)
        owner = memory.parse(body)
        assert owner.status.restarts == version
    made = [pod_manifest(owner, member, Options()) for member in gang_of(owner).members]
    assert [len(made), read] == [1500, [SCRIPT]]
    # 0.15 s; 3 s where each reads it.
    assert time.process_time() - begin < allowed(1)


@pytest.mark.timed
def test_a_pod_is_made_without_copying_or_changing_the_template() -> None:
    body = job_body(
        {"containers": [container(), {"name": "side"}], "x": [{} for _ in range(8_000)]},
        replicas=1500,
    )
    owner, before = parse_job(body), copy.deepcopy(body)
    begin = time.process_time()
    for member in gang_of(owner).members[:100]:
        made = pod_manifest(owner, member, Options(priority_classes={"normal": "x"}))
        assert made["spec"]["containers"][1] == {"name": "side"}
    assert time.process_time() - begin < allowed(0.25)  # 0.02 s; 0.8 s where each copies it
    assert body == before


def test_a_changed_spec_is_read_again_whatever_its_generation_says() -> None:
    memory, body = Memory(), job_body()
    before = memory.parse(body)
    changed = job_body({"containers": [container(command=["ditask", "--topology", "star"])]})
    changed["metadata"]["resourceVersion"] = "2"
    after = memory.parse(changed)
    assert (before.topology, after.topology) == ("mesh", "star")
    assert before.fingerprint != after.fingerprint


def test_only_where_there_is_a_server_its_pods_get_address_and_token() -> None:
    """What changes for the pods that are made from then on, and nothing that they are judged by."""
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


def test_a_templates_own_server_variable_stands() -> None:
    template = container(env=[{"name": "DI_SERVER_URL", "value": "mine"}])
    options = Options(server_url="http://dijob-server.home:8080")
    body = manifest(job(template={"spec": {"containers": [template]}}), options=options)
    assert [e["value"] for e in main(body)["env"] if e["name"] == "DI_SERVER_URL"] == ["mine"]
