"""The requests of `explain` to an API server, and its findings for the answers."""

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
import yaml
from click.testing import CliRunner
from dijob.cli.errors import Exit
from dijob.cli.main import group

Answer = tuple[int, Any]
FILE = Path(__file__).parents[3] / "examples/dijob.yaml"
JOBS = "POST /apis/diengine.opendilab.org/v2alpha1/namespaces/rl/dijobs"
PODS = "POST /api/v1/namespaces/rl/pods"
GROUPS = "POST /apis/scheduling.k8s.io/v1beta1/namespaces/rl/podgroups"
VOLCANO_QUEUES = "GET /apis/scheduling.volcano.sh/v1beta1/queues"
KAI_QUEUES = "GET /apis/scheduling.run.ai/v2/queues"
NODES = "GET /api/v1/nodes"
QUOTAS = "GET /api/v1/namespaces/rl/resourcequotas"
NODE: dict[str, Any] = {
    "metadata": {"name": "n"},
    "status": {
        "allocatable": {"cpu": "64", "memory": "256Gi", "pods": "110"},
        "conditions": [{"type": "Ready", "status": "True"}],
    },
}
USUAL: dict[str, Answer] = {
    JOBS: (201, {}),
    PODS: (201, {}),
    NODES: (200, {"items": [NODE]}),
    "GET /api/v1/pods": (200, {"items": []}),
    QUOTAS: (200, {"items": []}),
    "GET /api/v1/namespaces/rl/limitranges": (200, {"items": []}),
    "GET /api/v1/namespaces/rl/configmaps/my-module": (
        200,
        {"metadata": {"name": "my-module"}},
    ),
}


def status(code: int, message: str, reason: str = "") -> Answer:
    return code, {"kind": "Status", "message": message, "reason": reason}


@dataclass
class Apiserver:
    """Responds to each path as the test specifies, and records the requests."""

    answers: dict[str, Answer] = field(default_factory=lambda: dict(USUAL))
    asked: list[str] = field(default_factory=list)
    config: Path = Path()
    file: Path = FILE

    def explain(self, *more: str) -> Any:
        argv = ["explain", str(self.file), "-o", "json", "--kubeconfig", str(self.config), *more]
        return CliRunner().invoke(group, argv)

    def findings(self, *more: str) -> dict[str, str]:
        done = self.explain(*more)
        seen = json.loads(done.output)["cluster"]
        assert seen["asked"], seen
        wanted = Exit.FAILED if any(f["verdict"] == "no" for f in seen["findings"]) else Exit.OK
        assert done.exit_code == wanted
        return {one["text"]: one["verdict"] for one in seen["findings"]}


@pytest.fixture
def apiserver(tmp_path: Path) -> Iterator[Apiserver]:
    made = Apiserver(config=tmp_path / "config")

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            sent = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            call = f"{self.command} {self.path.partition('?')[0]}"
            made.asked.append(f"{self.command} {self.path}")
            code, body = made.answers[call]
            if call.startswith("POST") and call.endswith("/pods") and code == HTTPStatus.CREATED:
                body = json.loads(sent)  # as an API server without defaults and webhooks
            data = (body if isinstance(body, str) else json.dumps(body)).encode()
            self.send_response(code)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        do_POST = do_GET

        def log_message(self, *words: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        url = f"http://127.0.0.1:{server.server_address[1]}"
        context = {"cluster": "k", "user": "u", "namespace": "rl"}
        config = {
            "clusters": [{"name": "k", "cluster": {"server": url}}],
            "contexts": [{"name": "c", "context": context}],
            "users": [{"name": "u", "user": {"token": "t"}}],
            "current-context": "c",
        }
        made.config.write_text(yaml.safe_dump(config))
        yield made
        server.shutdown()
        thread.join()


def test_a_job_that_is_accepted_and_fits(apiserver: Apiserver) -> None:
    image = (
        "no node has dijob/ditask:0.5.3 yet; explain does not check whether the registry serves it"
    )
    assert apiserver.findings() == {
        "the cluster accepts the DIJob in namespace rl": "yes",
        "the cluster accepts a pod like test-0": "yes",
        "nodes: all 3 pods fit now (1 node ready)": "yes",
        "quotas: the namespace has none": "yes",
        "objects that the pods need: ConfigMap my-module": "yes",
        image: "unknown",
    }
    writes = [call for call in apiserver.asked if not call.startswith("GET")]
    assert writes
    assert all(call.endswith("?dryRun=All&fieldValidation=Strict") for call in writes)


@pytest.mark.parametrize(
    ("call", "answer", "said", "verdict"),
    [
        pytest.param(
            JOBS,
            status(409, "it exists"),
            "the DIJob test already exists in namespace rl",
            "unknown",
            id="the job exists",
        ),
        pytest.param(
            JOBS,
            (404, "404 page not found"),
            "has no DIJob resource: install the operator",
            "no",
            id="no operator",
        ),
        pytest.param(
            JOBS,
            status(404, 'namespaces "rl" not found'),
            'namespaces "rl" not found',
            "no",
            id="no namespace",
        ),
        pytest.param(
            JOBS, status(422, "a rule."), "rejects the DIJob: a rule", "no", id="an invalid job"
        ),
        pytest.param(
            PODS,
            status(403, 'cannot create resource "pods"'),
            "pods: you lack permission to create pods",
            "unknown",
            id="no permission to create pods",
        ),
        pytest.param(
            PODS,
            status(403, "violates PodSecurity"),
            "rejects a pod like test-0",
            "no",
            id="pod security",
        ),
        pytest.param(
            NODES,
            status(403, "no"),
            "lack permission to list nodes",
            "unknown",
            id="no permission to list nodes",
        ),
        pytest.param(
            QUOTAS,
            status(403, "no"),
            "quotas: you lack permission to",
            "unknown",
            id="no permission to list quotas",
        ),
    ],
)
def test_answers(apiserver: Apiserver, call: str, answer: Answer, said: str, verdict: str) -> None:
    apiserver.answers[call] = answer
    found = apiserver.findings()
    assert [found[text] for text in found if said in text] == [verdict], found


@pytest.mark.parametrize(
    ("answer", "said", "verdict"),
    [
        pytest.param((201, {}), "accepts the PodGroup of the job's engine", "yes", id="served"),
        pytest.param(
            (404, "404 page not found"),
            "does not serve PodGroup of scheduling.k8s.io/v1beta1: enable the feature gate",
            "no",
            id="not served",
        ),
        pytest.param(
            status(403, 'cannot create resource "podgroups"'),
            "podgroups: you lack permission to create them here",
            "unknown",
            id="no permission to create PodGroups",
        ),
        pytest.param(status(422, "a rule."), "rejects the PodGroup: a rule", "no", id="invalid"),
    ],
)
def test_the_object_of_the_jobs_engine(
    apiserver: Apiserver, tmp_path: Path, answer: Answer, said: str, verdict: str
) -> None:
    body = next(each for each in yaml.safe_load_all(FILE.read_text()) if each)
    body["spec"]["scheduling"] = {"engine": "Native"}
    apiserver.file = tmp_path / "gang.yaml"
    apiserver.file.write_text(yaml.safe_dump(body))
    apiserver.answers[GROUPS] = answer
    found = apiserver.findings()
    assert [found[text] for text in found if said in text] == [verdict], found


@dataclass(frozen=True)
class QueueCase:
    """An engine and its queue, the answer of the API server, and the finding."""

    scheduling: dict[str, str]
    path: str
    answer: Answer
    said: str
    verdict: str


QUEUES = {
    "it exists": QueueCase(
        {"engine": "Volcano", "queue": "a"},
        f"{VOLCANO_QUEUES}/a",
        (200, {"status": {"state": "Open"}}),
        "queue a exists",
        "yes",
    ),
    "it has no state": QueueCase(
        {"engine": "Volcano"},
        f"{VOLCANO_QUEUES}/default",
        (200, {}),
        "the queue default is not open",
        "no",
    ),
    "queues of KAI have no state": QueueCase(
        {"engine": "KAI", "queue": "a"}, f"{KAI_QUEUES}/a", (200, {}), "queue a exists", "yes"
    ),
    "it is closed": QueueCase(
        {"engine": "Volcano"},
        f"{VOLCANO_QUEUES}/default",
        (200, {"status": {"state": "Closed"}}),
        "the queue default is Closed",
        "no",
    ),
    "it does not exist": QueueCase(
        {"engine": "Volcano", "queue": "a"},
        f"{VOLCANO_QUEUES}/a",
        status(404, 'queues "a" not found', "NotFound"),
        "the queue a does not exist (kubectl get queues.scheduling.volcano.sh)",
        "no",
    ),
    "no permission": QueueCase(
        {"engine": "KAI"},
        f"{KAI_QUEUES}/default-queue",
        status(403, "no"),
        "the queue default-queue cannot be read",
        "unknown",
    ),
}


@pytest.mark.parametrize("case", QUEUES.values(), ids=QUEUES)
def test_the_queue_of_the_jobs_engine(
    apiserver: Apiserver, tmp_path: Path, case: QueueCase
) -> None:
    body = next(each for each in yaml.safe_load_all(FILE.read_text()) if each)
    body["spec"]["scheduling"] = case.scheduling
    apiserver.file = tmp_path / "queue.yaml"
    apiserver.file.write_text(yaml.safe_dump(body))
    groups = case.path.partition("/queues")[0].replace("GET", "POST").replace("/v2", "/v2alpha2")
    apiserver.answers |= {f"{groups}/namespaces/rl/podgroups": (201, {}), case.path: case.answer}
    found = apiserver.findings()
    assert [found[text] for text in found if case.said in text] == [case.verdict], found


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        pytest.param(status(401, "Unauthorized"), "log in again", id="not authenticated"),
        pytest.param(status(500, "etcd is away"), "etcd is away", id="an internal error"),
    ],
)
def test_responses_that_are_not_about_the_job(
    apiserver: Apiserver, answer: Answer, said: str
) -> None:
    apiserver.answers[JOBS] = answer
    done = apiserver.explain()
    seen = json.loads(done.output)["cluster"]
    assert (done.exit_code, seen["asked"]) == (Exit.OK, False)
    assert {one["verdict"] for one in seen["findings"]} == {"unknown"}
    assert seen["why"].startswith("not checked: ")
    assert said in seen["why"]


def test_the_option_names_the_namespace(apiserver: Apiserver) -> None:
    answers = {call.replace("/rl/", "/other/"): answer for call, answer in USUAL.items()}
    apiserver.answers = answers
    assert "the cluster accepts the DIJob in namespace other" in apiserver.findings("-n", "other")


LOCAL_QUEUE = "GET /apis/kueue.x-k8s.io/v1beta2/namespaces/rl/localqueues/team-a"
INACTIVE = {"type": "Active", "status": "False", "message": "the ClusterQueue is missing"}


CLUSTER_QUEUE = "GET /apis/kueue.x-k8s.io/v1beta2/clusterqueues/all"


def queue_of(quota: str) -> Answer:
    """Return a ClusterQueue without a cohort."""
    given = {"name": "default", "resources": [{"name": "pods", "nominalQuota": quota}]}
    group = {"coveredResources": ["pods"], "flavors": [given]}
    return 200, {"metadata": {"name": "all"}, "spec": {"resourceGroups": [group]}}


@pytest.mark.parametrize(
    ("answer", "said", "verdict"),
    [
        (queue_of("1"), "the job can never fit into the ClusterQueue all", "no"),
        (queue_of("100"), "does not cover", "unknown"),
        (status(403, "no"), "the size of the queue's quota was not checked", "unknown"),
    ],
    ids=["it never fits", "a resource is not covered", "no permission"],
)
def test_the_quota_of_the_queue_of_kueue(
    apiserver: Apiserver, tmp_path: Path, answer: Answer, said: str, verdict: str
) -> None:
    body = next(each for each in yaml.safe_load_all(FILE.read_text()) if each)
    body["metadata"]["labels"] = {"kueue.x-k8s.io/queue-name": "team-a"}
    container = body["spec"]["template"]["spec"]["containers"][0]
    container["resources"] = {"requests": {"cpu": "1"}}
    apiserver.file = tmp_path / "queue.yaml"
    apiserver.file.write_text(yaml.safe_dump(body))
    apiserver.answers[LOCAL_QUEUE] = 200, {"spec": {"clusterQueue": "all"}}
    apiserver.answers[CLUSTER_QUEUE] = answer
    found = apiserver.findings()
    assert [found[text] for text in found if said in text] == [verdict], found


@pytest.mark.parametrize(
    ("answer", "said", "verdict"),
    [
        ((200, {}), "queue team-a exists", "yes"),
        ((200, {"status": {"conditions": [INACTIVE]}}), "the ClusterQueue is missing", "no"),
        (
            status(404, 'localqueues.kueue.x-k8s.io "team-a" not found', "NotFound"),
            "change the label kueue.x-k8s.io/queue-name",
            "no",
        ),
        ((404, "404 page not found"), "the job cannot be queued: install Kueue", "no"),
        (status(403, "no"), "the queue team-a cannot be read", "unknown"),
    ],
    ids=["it exists", "it is not active", "it does not exist", "no Kueue", "no permission"],
)
def test_the_queue_of_kueue(
    apiserver: Apiserver, tmp_path: Path, answer: Answer, said: str, verdict: str
) -> None:
    body = next(each for each in yaml.safe_load_all(FILE.read_text()) if each)
    body["metadata"]["labels"] = {"kueue.x-k8s.io/queue-name": "team-a"}
    apiserver.file = tmp_path / "queue.yaml"
    apiserver.file.write_text(yaml.safe_dump(body))
    apiserver.answers[LOCAL_QUEUE] = answer
    found = apiserver.findings()
    assert [found[text] for text in found if said in text] == [verdict], found
