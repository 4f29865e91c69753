"""Text from tenants, and rejections that name the operator's containers, on a real apiserver."""

import json
import unicodedata
from collections.abc import Iterator
from datetime import UTC, datetime

import pytest
import yaml
from apiserver.plane import Body, Plane, job
from apiserver.test_client import dijob, said
from dijob.api.status import format_time

pytestmark = pytest.mark.apiserver

# They repeat the message of the condition that is not True.
SUMMARIES = ("Reconciling", "Stalled")

# A title, a cleared screen (7-bit and 8-bit), right-to-left text, a forged line.
EVIL = "\x1b]0;owned\x07\x1b[2J\x9b31m\u202egnp.exe\nrank 0: Ready"
STRICT = "strict-pods"


def safe(text: str) -> bool:
    return all(char in "\t\n" or unicodedata.category(char) not in ("Cc", "Cf") for char in text)


@pytest.fixture
def ended(plane: Plane) -> Iterator[str]:
    """Yield a finished job with an event from a tenant."""
    name = "evil"
    try:
        plane.apply(job(name, service="Auto", activeDeadlineSeconds=1))
        plane.until_condition(name, "Finished", "True")
        plane.kubectl("create", "-f", "-", stdin=json.dumps(event(plane.get("dijob", name) or {})))
        yield name
    finally:
        plane.remove(f"dijob/{name}", f"event/{name}.forged")


def event(about: Body) -> Body:
    meta, now = about["metadata"], format_time(datetime.now(UTC))
    keys = ("name", "namespace", "uid")
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": f"{meta['name']}.forged", "namespace": meta["namespace"]},
        "involvedObject": {
            "apiVersion": about["apiVersion"],
            "kind": about["kind"],
            **{key: meta[key] for key in keys},
        },
        "type": "Warning",
        "reason": "Forged",
        "message": EVIL,
        "firstTimestamp": now,
        "lastTimestamp": now,
        "count": 1,
    }


def test_no_command_prints_control_sequences(plane: Plane, ended: str) -> None:
    """H10."""
    plane.kubectl("annotate", "dijob", ended, f"note={EVIL}")
    watched = dijob(plane, "watch", ended).output
    assert "gnp.exe" in watched
    texts = [watched, *(dijob(plane, *words, ended).output for words in (("get",), ("doctor",)))]
    texts += [said(plane, "get", ended, "-o", kind) for kind in ("json", "yaml")]
    assert all(map(safe, texts)), texts
    assert not any(line.startswith("rank 0: Ready") for line in watched.splitlines())
    for text in texts[3:]:
        assert yaml.safe_load(text)["metadata"]["annotations"]["note"] == EVIL


def test_ranks_that_pod_security_rejects_are_one_group(plane: Plane) -> None:
    """X1, C49."""
    plane.make_namespace(STRICT, {"pod-security.kubernetes.io/enforce": "restricted"})
    try:
        body = job("six", service="Auto", minReplicas=6, maxReplicas=6)
        body["metadata"]["namespace"] = STRICT
        plane.apply(body)
        texts = set[str]()

        def tried_again() -> bool:
            found = plane.api.job(STRICT, "six")
            conditions = (found.get("status") or {}).get("conditions", ())
            found_texts = (c["message"] for c in conditions if c["type"] not in SUMMARIES)
            texts.update(text for text in found_texts if "PodSecurity" in text)
            made = datetime.fromisoformat(found["metadata"]["creationTimestamp"])
            return (datetime.now(UTC) - made).total_seconds() > 12

        plane.until("several ranks have been tried", tried_again, lambda: texts)
        (text,) = texts
        assert text.startswith("ranks 0-5: correct the main container: dijob-gate and")
        assert text.count("is forbidden") == 1
        assert 'pods "six-0" is forbidden: violates PodSecurity' in text
    finally:
        plane.kubectl("delete", "namespace", STRICT, "--wait=false")
