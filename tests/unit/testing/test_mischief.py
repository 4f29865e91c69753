"""The faults that the proxy injects: each has exactly the intended effect."""

import json
import random
from datetime import timedelta
from typing import Any, cast

import pytest
from faults.lab.exchange import Asked, Fault, Watch
from faults.simulated_nodes.mischief import (
    HELD,
    Shifted,
    StaleLists,
    doubled,
    lost,
    reordered,
    replayed,
    sometimes,
)

Json = dict[str, Any]
PODS = "/api/v1/namespaces/n/pods"


def watch() -> Watch:
    return Watch(Asked("GET", PODS, watch=True), cast(Any, None), cast(Any, None))


def line(number: int, type_: str = "MODIFIED", uid: str = "u") -> bytes:
    meta = {"uid": uid, "resourceVersion": str(number)}
    return json.dumps({"type": type_, "object": {"metadata": meta}}).encode()


BOOKMARK = line(99, "BOOKMARK")
EVENTS = [line(number) for number in range(20)]


def told(retell: Any, lines: list[bytes]) -> list[bytes]:
    on = watch()
    return [one for given in lines for one in retell(on, given)]


def test_doubled_keeps_all_events_and_repeats_some() -> None:
    shown = told(doubled(random.Random(1), 0.5), EVENTS)
    assert sorted(set(shown)) == sorted(EVENTS)
    assert len(EVENTS) < len(shown) < 2 * len(EVENTS)


def test_reordered_keeps_all_events_before_their_bookmark() -> None:
    shown = told(reordered(random.Random(1)), [*EVENTS, BOOKMARK])
    assert sorted(shown[:-1]) == sorted(EVENTS)
    assert shown[:-1] != EVENTS
    assert shown[-1] == BOOKMARK


def test_reordered_holds_a_limited_number_of_events() -> None:
    assert told(reordered(random.Random(1)), EVENTS[:HELD]) == []


def test_replayed_repeats_old_events_of_the_same_object() -> None:
    lines = [line(number, uid=f"u{number % 2}") for number in range(20)]
    shown = told(replayed(random.Random(1), 0.5), lines)
    again = [one for index, one in enumerate(shown) if one in shown[:index]]
    assert {json.loads(one)["object"]["metadata"]["resourceVersion"] for one in again} == {"0", "1"}


def test_lost_drops_events_and_no_bookmarks() -> None:
    shown = told(lost(random.Random(1), 0.5), [*EVENTS, *[BOOKMARK] * 10])
    assert shown.count(BOOKMARK) == 10
    assert 0 < len(shown) - 10 < len(EVENTS)


def test_sometimes_injects_faults_into_requests_and_no_watches() -> None:
    answer = sometimes(random.Random(1), 0.05, Fault(500))
    met = [answer(Asked("GET", PODS, watch=False)) for _ in range(1000)]
    assert 30 < sum(one is not None for one in met) < 70
    assert not any(answer(Asked("GET", PODS, watch=True)) for _ in range(1000))


def test_the_same_seed_causes_the_same_faults() -> None:
    one, other = (told(reordered(random.Random(5)), EVENTS) for _ in range(2))
    assert one == other


def test_stale_lists_returns_old_lists_when_it_is_behind() -> None:
    lists, asked = StaleLists(), Asked("GET", PODS, watch=False)
    old, new = (json.dumps({"kind": "PodList", "n": n}).encode() for n in range(2))
    one = json.dumps({"kind": "Pod"}).encode()
    assert lists.remember(asked, old) == old
    lists.behind = True
    assert (lists.remember(asked, new), lists.answered) == (old, 1)
    assert lists.remember(Asked("GET", PODS + "/a", watch=False), one) == one
    assert lists.remember(Asked("GET", PODS, False, "other"), new) == new
    assert lists.no_stream(Asked("GET", PODS, watch=True, initial=True))


@pytest.mark.parametrize(("node", "hour"), [("kwok-2", "13"), ("kwok-1", "11")])
def test_shifted_changes_only_times_of_kubelets(node: str, hour: str) -> None:
    noon = "2026-11-25T12:00:00Z"
    pod: Json = {
        "kind": "Pod",
        "metadata": {"creationTimestamp": noon},
        "spec": {"nodeName": node},
        "status": {
            "startTime": noon,
            "conditions": [
                {"type": "PodScheduled", "lastTransitionTime": noon},
                {"type": "Ready", "lastTransitionTime": noon},
            ],
            "containerStatuses": [{"state": {"running": {"startedAt": noon}}}],
        },
    }
    shifted = Shifted(timedelta(hours=1))
    body = shifted.change(Asked("GET", PODS, watch=False), json.dumps({"items": [pod]}).encode())
    (seen,) = json.loads(body)["items"]
    later = f"2026-11-25T{hour}:00:00Z"
    assert seen["metadata"] == pod["metadata"]
    assert seen["status"] == {
        "startTime": later,
        "conditions": [
            {"type": "PodScheduled", "lastTransitionTime": noon},
            {"type": "Ready", "lastTransitionTime": later},
        ],
        "containerStatuses": [{"state": {"running": {"startedAt": later}}}],
    }
    event = json.dumps({"type": "MODIFIED", "object": pod}).encode()
    (told_,) = shifted.retell(watch(), event)
    assert json.loads(told_)["object"]["status"] == seen["status"]
