"""Objects that a tenant may send and that do nobody any good, as Hypothesis makes them up from the
CRD's own schema.
"""

import json
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

import yaml
from faults.kube import Json, dijob
from faults.structural import values
from faults.twists import TWISTS, annotations, labels
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy
from manifests import GROUP
from planes import ROOT

# So many ranks a job has at most: what is under test is what it says, not how many pretended nodes
# there are.
RANKS = 3

# Which of the jobs that were sent before, modulo their number.
PLACES = st.integers(0, 600)


@dataclass(frozen=True)
class Sent:
    """One request: what kind of object, and its body. Whose status it is, is said by "of": a
    number.
    """

    kind: str
    body: Json


def schema() -> Json:
    """The CRD's schema, with fewer ranks."""
    crd = yaml.safe_load((ROOT / "crds/dijob.yaml").read_text())
    found: Json = deepcopy(crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"])
    spec = found["properties"]["spec"]["properties"]
    for sized in (spec, spec["tasks"]["items"]["properties"]):
        for name in ("replicas", "minReplicas", "maxReplicas"):
            if name in sized:
                sized[name] |= {"minimum": 0, "maximum": RANKS}
    return found


@st.composite
def job(draw: DrawFn, fields: dict[str, SearchStrategy[Any]]) -> Sent:
    """A DIJob whose pods the apiserver may like or not."""
    body = dijob("", "", draw(st.integers(1, RANKS)))
    for field in draw(st.lists(st.sampled_from(sorted(fields)), max_size=3, unique=True)):
        body["spec"][field] = draw(fields[field])
    for twist in sorted(
        draw(st.lists(st.sampled_from(TWISTS), max_size=3, unique=True)), key=TWISTS.index
    ):
        twist(draw, body)
    return Sent("dijobs", body)


def owners(uids: tuple[str, ...]) -> SearchStrategy[list[Json]]:
    """References to another tenant's job, or to one of the same namespace (by a number)."""
    reference = st.fixed_dictionaries(
        {
            "apiVersion": st.sampled_from([f"{GROUP}/v2alpha1", "v9", "batch/v1"]),
            "kind": st.sampled_from(["DIJob", "Nothing", "Job"]),
            "name": st.sampled_from(["a", "h0", "h1"]),
            "uid": st.sampled_from(uids) | PLACES,
            "controller": st.booleans(),
        }
    )
    return st.lists(reference, max_size=1)


@st.composite
def child(draw: DrawFn, kind: str, uids: tuple[str, ...]) -> Sent:
    """A pod or a service that says of itself that it is part of a job."""
    name = draw(st.just("a") | PLACES.map("h{}".format))
    suffix = (
        f"-{draw(st.sampled_from(['0', '1', '2', '7', '99999', 'mq']))}" if kind == "pods" else ""
    )
    meta = {
        "name": f"{name}{suffix}",
        "labels": draw(labels()),
        "annotations": draw(annotations()),
        "ownerReferences": draw(owners(uids)),
        "finalizers": draw(st.sampled_from([[], ["example.org/stays"]])),
    }
    pod = {
        "containers": [{"name": "di-container", "image": "x"}],
        **draw(st.sampled_from([{}, {"nodeName": "nowhere"}])),
    }
    spec = pod if kind == "pods" else {"clusterIP": "None", "ports": [{"port": 1}]}
    return Sent(
        kind,
        {
            "apiVersion": "v1",
            "kind": "Pod" if kind == "pods" else "Service",
            "metadata": meta,
            "spec": spec,
        },
    )


def objects(uids: tuple[str, ...]) -> SearchStrategy[Sent]:
    """All kinds, jobs most often."""
    whole = schema()["properties"]
    fields = {
        name: values(part)
        for name, part in whole["spec"]["properties"].items()
        if name != "template"
    }
    status = st.fixed_dictionaries({"of": PLACES, "status": values(whole["status"])})
    made = {
        "dijobs": job(fields),
        "status": status.map(lambda body: Sent("status", body)),
        "pods": child("pods", uids),
        "services": child("services", uids),
    }
    return st.sampled_from(
        ["dijobs", "dijobs", "dijobs", "status", "pods", "pods", "services"]
    ).flatmap(made.__getitem__)


def drawn(strategy: SearchStrategy[Sent], count: int, number: int) -> list[Sent]:
    """So many of them; the same ones for the same number."""
    found: list[Sent] = []

    @seed(number)
    @settings(
        max_examples=count,
        phases=[Phase.generate],
        database=None,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(strategy)
    def collect(value: Sent) -> None:
        found.append(Sent(value.kind, json.loads(json.dumps(value.body))))

    collect()
    return found
