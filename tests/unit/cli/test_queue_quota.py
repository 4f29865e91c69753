"""Whether a job can ever fit into its ClusterQueue of Kueue."""

from typing import Any

import pytest
from dijob.api.parse import parse_job
from dijob.cli.queue_quota import compare_with_quota
from dijob.core.options import Options
from dijob.core.render.scheduling import kueue
from samples.builders import job_body, tasks_body
from samples.specs import Body

NAME = "the job can never fit into the ClusterQueue all: "


def flavor(name: str = "default", **quotas: Any) -> Body:
    """Return a flavor; a quota is (nominal, borrowing limit) or the nominal quota."""
    found = []
    for resource, given in quotas.items():
        nominal, borrowed = given if isinstance(given, tuple) else (given, None)
        one = {"name": resource, "nominalQuota": nominal}
        found.append(one | ({"borrowingLimit": borrowed} if borrowed is not None else {}))
    return {"name": name, "resources": found}


def queue(*flavors: Body, covers: tuple[str, ...] = ("cpu",), cohort: str = "") -> Body:
    spec: Body = {"resourceGroups": [{"coveredResources": [*covers], "flavors": [*flavors]}]}
    return {"metadata": {"name": "all"}, "spec": spec | ({"cohortName": cohort} if cohort else {})}


def sized(requests: Body, body: Body | None = None, **spec: Any) -> Body:
    """Return the Workload of a job whose ranks have these requests."""
    made = body or job_body(**spec)
    templates = [
        made["spec"].get("template"),
        *(t["template"] for t in made["spec"].get("tasks", ())),
    ]
    for template in filter(None, templates):
        template["spec"]["containers"][0]["resources"] = {"requests": requests}
    return kueue.workload(parse_job(made), 0, Options())


CPU = {"cpu": "2"}
BOTH = {"cpu": "2", "memory": "4Gi"}
FITS: dict[str, tuple[Body, Body]] = {
    "enough quota": (queue(flavor(cpu="8")), sized(CPU, replicas=4)),
    "a cohort without a borrowing limit": (
        queue(flavor(cpu="1"), cohort="c"),
        sized(CPU, replicas=4),
    ),
    "a cohort with a sufficient borrowing limit": (
        queue(flavor(cpu=("1", "7")), cohort="c"),
        sized(CPU, replicas=4),
    ),
    "partial admission": (queue(flavor(cpu="4")), sized(CPU, replicas=4, minReplicas=2)),
    "the second flavor": (
        queue(flavor(cpu="1"), flavor("big", cpu="8")),
        sized(CPU, replicas=4),
    ),
    "no requests": (queue(flavor(cpu="1")), sized({}, replicas=4)),
    "pods that are not covered": (queue(flavor(cpu="8")), sized(CPU, replicas=4)),
    "a request of zero that is not covered": (
        queue(flavor(cpu="8")),
        sized({**CPU, "example.com/a": "0"}, replicas=4),
    ),
}
MISFITS: dict[str, tuple[Body, Body, str]] = {
    "too little quota": (
        queue(flavor(cpu="6")),
        sized(CPU, replicas=4),
        "4 pods of pod set main need cpu 8, but flavor default has at most cpu 6",
    ),
    "a borrowing limit without a cohort": (
        queue(flavor(cpu=("6", "7"))),
        sized(CPU, replicas=4),
        "flavor default has at most cpu 6",
    ),
    "a cohort with a borrowing limit of zero": (
        queue(flavor(cpu=("6", "0")), cohort="c"),
        sized(CPU, replicas=4),
        "flavor default has at most cpu 6",
    ),
    "a cohort with a borrowing limit": (
        queue(flavor(cpu=("6", "1")), cohort="c"),
        sized(CPU, replicas=4),
        "flavor default has at most cpu 7",
    ),
    "partial admission": (
        queue(flavor(cpu="3")),
        sized(CPU, replicas=4, minReplicas=2),
        "2 pods of pod set main need cpu 4",
    ),
    "no flavor alone": (
        queue(flavor(cpu="6"), flavor("other", cpu="6")),
        sized(CPU, replicas=4),
        "but flavor default has at most cpu 6; flavor other has at most cpu 6",
    ),
    "no flavor with both resources": (
        queue(
            flavor(cpu="8", memory="4Gi"),
            flavor("other", cpu="4", memory="64Gi"),
            covers=("cpu", "memory"),
        ),
        sized(BOTH, replicas=4),
        "flavor default has at most memory 4Gi; flavor other has at most cpu 4",
    ),
    "the number of pods": (
        queue(flavor(cpu="8", pods="3"), covers=("cpu", "pods")),
        sized(CPU, replicas=4),
        "need cpu 8, pods 4, but flavor default has at most pods 3",
    ),
    "no flavor": (queue(), sized(CPU, replicas=4), "4 pods of pod set main need cpu 8"),
    "the sum of several tasks": (
        queue(flavor(cpu="7")),
        sized({"cpu": "2"}, tasks_body()),
        "its pods need cpu 8, but all flavors together have at most cpu 7",
    ),
}


@pytest.mark.parametrize(("cluster_queue", "workload"), FITS.values(), ids=FITS)
def test_a_job_that_may_fit_is_not_reported(cluster_queue: Body, workload: Body) -> None:
    found = compare_with_quota(cluster_queue, workload)
    assert (found.misfit, found.doubt) == ("", "")


@pytest.mark.parametrize(("cluster_queue", "workload", "words"), MISFITS.values(), ids=MISFITS)
def test_a_job_that_can_never_fit(cluster_queue: Body, workload: Body, words: str) -> None:
    found = compare_with_quota(cluster_queue, workload)
    assert found.misfit.startswith(NAME)
    assert words in found.misfit


def test_a_resource_that_the_queue_does_not_cover_is_uncertain() -> None:
    workload = sized({**CPU, "nvidia.com/gpu": "1"}, replicas=2)
    found = compare_with_quota(queue(flavor(cpu="8")), workload)
    assert found.misfit == ""
    assert "the ClusterQueue all does not cover nvidia.com/gpu" in found.doubt
