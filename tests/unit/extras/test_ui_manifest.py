"""What `ui` shows of a job's spec."""

from dijob.client import Job
from dijob_extras.ui.manifest import spec_page
from manifests import dijob
from unit.extras.seen import job

MAIN = {
    "image": "registry/train:1",
    "command": ["/bin/sh", "-c"],
    "args": ["echo a\necho b"],
    "resources": {"requests": {"cpu": "2"}, "limits": {"nvidia.com/gpu": 1}},
}


def test_the_program_of_a_job() -> None:
    found = Job({**dijob("test", MAIN, replicas=3), "status": {}})
    assert spec_page(found)["programs"] == [
        {
            "task": "",
            "ranks": "ranks 0-2",
            "image": "registry/train:1",
            "command": "/bin/sh -c echo a\necho b",
            "requests": "cpu 2",
            "limits": "nvidia.com/gpu 1",
        }
    ]


def test_the_yaml_has_only_what_a_user_writes() -> None:
    found = job()
    last = {"kubectl.kubernetes.io/last-applied-configuration": "{}"}
    meta = {**found.body["metadata"], "managedFields": [{}], "annotations": last}
    text = spec_page(Job({**found.body, "metadata": meta}))["yaml"]
    assert text.startswith("apiVersion: diengine.opendilab.org/v2alpha1\nkind: DIJob\nmetadata:\n")
    assert "replicas: 3" in text
    for absent in ("status", "managedFields", "uid", "annotations"):
        assert f"{absent}:" not in text


def test_the_commands_name_the_job_and_the_pod_of_the_failure() -> None:
    running = dict(spec_page(job())["commands"])
    assert running["Follow the logs of all ranks"] == "kubectl dijob logs test -n ns -f"
    assert running["Open a shell in the pod"] == "kubectl exec -it test-0 -n ns -- sh"
    ends = [{"type": "Finished", "status": "True"}]
    failed = job(phase="Failed", conditions=ends, firstFailure={"rank": 2, "exitCode": 1})
    ended = dict(spec_page(failed)["commands"])
    assert ended["Read the log"] == "kubectl dijob logs test -n ns --rank 2"
    assert ended["Describe the pod"] == "kubectl describe pod test-2 -n ns"
    assert not {"Open a shell in the pod", "Inspect the connections"} & ended.keys()


def test_an_invalid_job_has_yaml_and_commands() -> None:
    found = spec_page(job(spec={"replicas": -1}))
    assert found["programs"] == []
    assert "replicas: -1" in found["yaml"]
    assert "Describe the pod" not in dict(found["commands"])
