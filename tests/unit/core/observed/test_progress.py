"""Which values of a launcher's report count. A user's program can write anything."""

import json
from typing import Any

import pytest
from dijob.core.observed.progress import ProgressReport, parse_progress

IGNORED = {
    "no object": "[1]",
    "nothing": "{}",
    "text": '{"iteration": "7"}',
    "a truth value": '{"iteration": true, "signal": false}',
    "negative": '{"iteration": -1}',
    "a fraction": '{"envStep": 1.5}',
    "too large": '{"envStep": 9007199254740993}',
    "many digits": f'{{"iteration": {"9" * 4000}, "signal": {"9" * 4000}}}',
    "infinite": '{"episodeReturn": 1e999, "signal": NaN}',
    "more than all": '{"waitingPercent": 101}',
    "nested": '{"iteration": {"iteration": 1}}',
    "an idle time alone": '{"idleSeconds": 5}',
    "unknown names": '{"line": "x", "written": "now"}',
}


@pytest.mark.parametrize("case", IGNORED)
def test_what_is_no_progress(case: str) -> None:
    assert parse_progress(json.loads(IGNORED[case])) is None


def test_valid_values_count_beside_others() -> None:
    given: Any = {
        "iteration": 7,
        "envStep": -1,
        "episodeReturn": 2,
        "waitingPercent": 40,
        "idleSeconds": 3,
    }
    report = parse_progress(given)
    assert report == ProgressReport(
        iteration=7, episode_return=2.0, waiting_percent=40, idle_seconds=3
    )
    assert report.values == {"iteration": 7, "episode_return": 2.0, "waiting_percent": 40}
