"""How long a pod's program has to end for an in-place restart; operator and launcher must agree."""

from pathlib import Path

import pytest
from dijob import names, pod
from dijob.core.observed.containers import RENEWED
from dijob.pod import KILL_SECONDS, RENEWAL_CODE
from samples.builders import container, job, pod_body, read
from samples.builders import pod_env as env

ROOT = Path(__file__).parents[4]

# terminationGracePeriodSeconds, and how long the launcher and the operator give a program to end.
GRACES = {
    "short": (3, 3),
    "none": (0, 0),
    "kubernetes' own": (30, 30),
    "a checkpoint": (600, 600),
    "null": (None, 30),
}


@pytest.mark.parametrize(("given", "seconds"), GRACES.values(), ids=GRACES)
def test_a_program_has_the_pods_grace_period_to_end_for_a_restart(
    given: int | None, seconds: int
) -> None:
    body = pod_body(owner=job({"terminationGracePeriodSeconds": given}))
    told = env(body).get("DIJOB_KILL_SECONDS", str(KILL_SECONDS))
    # The API server stores the default.
    body["spec"]["terminationGracePeriodSeconds"] = 30 if given is None else given
    assert (told, read(body).made.grace) == (str(seconds), seconds)


READ_BY_THE_LAUNCHER = (names.ANNOTATION_IPS, names.ANNOTATION_LIST_NUMBER, names.ANNOTATION_RENEW)


def test_the_launcher_and_the_operator_use_the_same_constants() -> None:
    """One side is written in Go, the other in Python."""
    text = "".join(path.read_text() for path in sorted((ROOT / "images/launcher").rglob("*.go")))
    for said in (
        f'Seconds("DIJOB_KILL_SECONDS", {KILL_SECONDS})',
        f'Variable("DIJOB_BIN_DIR", "{pod.BIN_DIR}")',
        f'filepath.Dir(BinFolderOf(os.Args[0])), "{pod.POD_DIR.removeprefix(pod.DIR + "/")}")',
        f'PodFolder, "{pod.ANNOTATIONS_FILE}"',
        f'Link("pod/{pod.TOPOLOGY_FILE}"',
        f'AnnotationPrefix = "{names.GROUP}/"',
        *(f'said["{key.rpartition("/")[2]}"]' for key in READ_BY_THE_LAUNCHER),
        f"renewalExit = {RENEWAL_CODE}",
        *(f'"{path.rpartition("/")[2]}"' for path in (pod.GATE, pod.LAUNCH, pod.INSTALL)),
    ):
        assert said in text
    assert RENEWED.match("dijob: renewal, list 7\n")
    assert '"dijob: renewal, list "' in text


def test_a_pod_of_an_older_operator_is_not_waited_for_longer_than_its_launcher_waits() -> None:
    """The launcher of such a pod sends SIGKILL after 20 s, and the pod's environment does not set a
    longer time.
    """
    body = pod_body()
    body["spec"]["terminationGracePeriodSeconds"] = 600
    assert read(body).made.grace == KILL_SECONDS


def test_a_time_set_by_the_template_is_used() -> None:
    own = container(env=[{"name": "DIJOB_KILL_SECONDS", "value": "90"}])
    assert (
        read(
            pod_body(owner=job({"containers": [own], "terminationGracePeriodSeconds": 600}))
        ).made.grace
        == 90
    )
