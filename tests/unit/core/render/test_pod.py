"""The pods and the Service that are created: their identity, what is added to the template, and
what is kept.
"""

import copy
import time

import pytest
from dijob import names, pod
from dijob.api import shellwords
from dijob.api.model import DIJob
from dijob.api.parse import parse_job
from dijob.api.parts import TemplateMetadata
from dijob.controller.observe.memory import JobMemory
from dijob.core.members import gang_of
from dijob.core.options import Options
from dijob.core.render import service
from dijob.core.render.pod import pod_manifest, template_hash
from samples.builders import Body, container, job, job_body, main, manifest
from samples.builders import pod_env as env
from speed import allowed


def test_a_pod_carries_its_owner_and_its_rank() -> None:
    body = manifest(job(), rank=2)
    meta, spec = body["metadata"], body["spec"]
    assert (meta["name"], spec["hostname"], spec["subdomain"]) == ("job-2", "job-2", "job")
    assert meta["labels"][names.LABEL_JOB] == "job"
    assert meta["labels"][names.LABEL_RANK] == "2"
    (owner,) = meta["ownerReferences"]
    assert owner["controller"] is True
    assert owner["blockOwnerDeletion"] is True, "C17"


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


PROBE = {"tcpSocket": {"port": 50514}, "periodSeconds": 1}
PROGRAMS = {**PROBE, "tcpSocket": {"port": 50515}}


@pytest.mark.parametrize(
    ("fields", "spec", "probe"),
    [
        ({}, {}, PROBE),
        (
            {"command": [*container()["command"], "--ports", "6000"]},
            {},
            {**PROBE, "tcpSocket": {"port": 5999}},
        ),
        ({"command": ["python", "train.py"]}, {}, None),
        ({"command": [*container()["command"], "--mq-type", "redis"]}, {}, None),
        ({}, {"launcher": "Off"}, None),
        (
            {"command": [*container()["command"], "--platform", "k8s"]},
            {"launcher": "Off"},
            PROGRAMS,
        ),
        (
            {"command": ["bash", "-c", "conda activate x && ditask --package p --main p.main"]},
            {},
            None,
        ),
        ({"readinessProbe": {"exec": {"command": ["true"]}}}, {}, {"exec": {"command": ["true"]}}),
    ],
    ids=["ditask", "ports", "other", "redis", "off", "off-and-told", "bypassed", "users-own"],
)
def test_a_probe_is_added_only_if_the_command_shows_its_port(
    fields: Body, spec: Body, probe: Body | None
) -> None:
    found = main(manifest(job({"containers": [container(**fields)]}, **spec)))
    assert found.get("readinessProbe") == probe


@pytest.mark.parametrize(
    ("pod_spec", "beside", "probed", "ready"),
    [
        ({}, {}, 50514, "50514 50515"),
        ({}, {"ports": [{"containerPort": 50514}, {"containerPort": 50513}]}, 50512, "50512 50515"),
        ({"hostNetwork": True}, {}, 50515, None),
        ({}, {"command": [*container()["command"], "--ports", "1024"]}, 1024, None),
    ],
    ids=["plain", "a port of the template's", "hostNetwork", "privileged"],
)
def test_c23_the_launcher_answers_the_probe_on_a_port_of_its_own(
    pod_spec: Body, beside: Body, probed: int, ready: str | None
) -> None:
    """C23: a rank whose program began without its peers is not Ready, so PeersReady is False."""
    found = main(manifest(job({"containers": [container(**beside)], **pod_spec})))
    assert found["readinessProbe"]["tcpSocket"]["port"] == probed
    given = {one["name"]: one.get("value") for one in found["env"]}
    assert given.get("DIJOB_READY") == ready


def test_defaults_do_not_overwrite_the_template() -> None:
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
def test_null_counts_as_absent(pod_spec: Body, field: str, value: object) -> None:
    """The API server would replace null by its own default, which is Always."""
    assert manifest(job(pod_spec))["spec"][field] == value


@pytest.mark.parametrize("slip", ["x", 7, {"name": "x"}, ["x"], [7]], ids=str)
@pytest.mark.parametrize("field", ["ports", "volumeMounts", "resources"])
def test_a_field_of_the_wrong_type_is_left_for_the_apiserver_to_reject(
    field: str, slip: object
) -> None:
    """The apiserver's error names the field. An exception in the operator would explain nothing to
    the user.
    """
    found = main(manifest(job({"containers": [container(**{field: slip})]})))
    assert found[field] == slip or (isinstance(slip, list) and found[field][: len(slip)] == slip)


@pytest.mark.parametrize("field", ["volumes", "initContainers"])
def test_a_wrong_type_in_the_pod_spec_is_left_too(field: str) -> None:
    assert manifest(job({field: "x"}))["spec"][field] == "x"


def test_the_pod_carries_its_template_hash() -> None:
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
        names.DEFAULT_CONTAINER: "di-container",
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
def test_with_host_network_the_port_of_each_worker_is_declared(
    ports: list[Body] | None, added: list[int]
) -> None:
    pod = {"containers": [container(ports=ports)], "hostNetwork": True}
    found = manifest(job(pod, parallelWorkers=2))["spec"]
    own = [port["containerPort"] for port in found["containers"][0]["ports"][len(ports or []) :]]
    assert own == added
    assert found["dnsPolicy"] == "ClusterFirstWithHostNet"
    names_ = [port["name"] for port in found["containers"][0]["ports"]]
    assert len(set(names_)) == len(names_)


def test_a_dns_policy_of_the_template_is_kept() -> None:
    pod = {"containers": [container()], "hostNetwork": True, "dnsPolicy": "None", "dnsConfig": {}}
    assert manifest(job(pod))["spec"]["dnsPolicy"] == "None"


def test_rendering_a_pod_does_not_modify_the_template() -> None:
    owner = job(
        {"containers": [container(env=[{"name": "A", "value": "1"}])], "volumes": [{"name": "v"}]}
    )
    before = template_hash(owner)
    assert manifest(owner, 0) == manifest(owner, 0)
    assert template_hash(owner) == before
    assert owner.spec.template is not None
    assert owner.spec.template.spec is not None
    assert len(owner.spec.template.spec["volumes"]) == 1


def test_the_service_publishes_names_before_ready() -> None:
    spec = service.headless_manifests(job(), Options())[0]["spec"]
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
def test_a_command_is_parsed_once_for_all_pods_and_statuses(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    read, real = list[str](), shellwords.simple_commands

    def noted(script: str) -> list[list[str]] | None:
        read.append(script)
        return real(script)

    monkeypatch.setattr(shellwords, "simple_commands", noted)
    pod_spec = {"containers": [container(command=["bash", "-c", SCRIPT])]}
    memory, begin = JobMemory(), time.process_time()
    for version in range(5):
        body = job_body(pod_spec, {"restarts": version}, replicas=1500)
        body["metadata"]["resourceVersion"] = str(version)
        owner = memory.parse(body)
        assert owner.status.restarts == version
    made = [pod_manifest(owner, member, Options()) for member in gang_of(owner).members]
    assert [len(made), read] == [1500, [SCRIPT]]
    # It takes 0.15 s; 3 s if each pod parses the command.
    assert time.process_time() - begin < allowed(1)


@pytest.mark.timed
def test_a_pod_is_rendered_without_copying_or_changing_the_template() -> None:
    body = job_body(
        {"containers": [container(), {"name": "side"}], "x": [{} for _ in range(8_000)]},
        replicas=1500,
    )
    owner, before = parse_job(body), copy.deepcopy(body)
    begin = time.process_time()
    for member in gang_of(owner).members[:100]:
        made = pod_manifest(owner, member, Options(priority_classes={"normal": "x"}))
        assert made["spec"]["containers"][1]["name"] == "side"
    assert time.process_time() - begin < allowed(0.25)  # 0.02 s; 0.8 s if each pod copies it.
    assert body == before


def test_a_changed_spec_is_parsed_again_whatever_its_generation() -> None:
    memory, body = JobMemory(), job_body()
    before = memory.parse(body)
    changed = job_body({"containers": [container(command=["ditask", "--topology", "star"])]})
    changed["metadata"]["resourceVersion"] = "2"
    after = memory.parse(changed)
    assert (before.topology, after.topology) == ("mesh", "star")
    assert before.fingerprint != after.fingerprint
