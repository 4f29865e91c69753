"""The page's data about jobs of the history."""

from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest
import yaml
from dijob.client import AsyncClient
from dijob_extras.ui.past import list_past, past_page, past_row, show_past
from unit.cli.test_history import FAILED, LOGS, cluster, record


def test_a_failed_job_shows_its_first_failure_in_the_list() -> None:
    row = past_row(FAILED)
    assert (row["phase"], row["tone"], row["uid"]) == ("Failed", "problem", "uid-broken")
    assert "KeyError" in row["message"]
    assert "\n" not in row["message"]


TONES = {"Succeeded": "good", "Failed": "problem", "Running": "good", "Pending": "quiet"}


@pytest.mark.parametrize(("phase", "tone"), TONES.items())
def test_the_tone_of_an_outcome(phase: str, tone: str) -> None:
    assert past_row(record("x", phase=phase))["tone"] == tone


def test_a_job_that_waits_for_its_user_is_a_problem_until_it_is_over() -> None:
    def tone(reason: str, deleted: str = "") -> str:
        one = record("x", phase="Pending", reason=reason, ended="", deleted=deleted)
        return str(past_row(one)["tone"])

    assert tone("AddressMissing") == "problem"
    assert tone("AddressMissing", "2026-11-27T11:00:00Z") == "quiet"
    assert tone("Gathering") == "quiet"


def test_the_page_of_a_record_has_its_logs_curve_and_manifest() -> None:
    page = past_page(FAILED, LOGS, "")
    assert [log["title"] for log in page["logs"]] == [
        "Rank 0",
        "Rank 1 (failed, exit code 3, only its end)",
    ]
    assert [point["return"] for point in page["points"]] == [float(n) for n in range(8)]
    manifest = yaml.safe_load(page["yaml"])
    assert manifest["spec"] == {"replicas": 2}
    assert manifest["metadata"]["labels"] == {"team": "blue"}
    assert (page["goodput"], page["unseen"]) == (50, "")
    assert all("history broken -n default --uid uid-broken" in text for _, text in page["commands"])


async def first(messages: Any) -> tuple[str, Any]:
    async with aclosing(messages) as found:
        async for message in found:
            assert message is not None
            return message.event, message.data
    raise AssertionError("no message")


async def test_the_page_reads_the_history_with_the_users_token(tmp_path: Path) -> None:
    async with cluster(tmp_path, token="admin") as (_, config), AsyncClient(config) as client:
        event, data = await first(list_past(client, everywhere=False))
        assert (event, data["sentence"]) == ("past", "")
        assert [row["name"] for row in data["jobs"]] == ["broken", "good"]
        _, data = await first(list_past(client, everywhere=True))
        assert [row["name"] for row in data["jobs"]] == ["broken", "good", "other"]
        event, data = await first(show_past(client, "broken", "uid-broken"))
        assert (event, [log["failed"] for log in data["logs"]]) == ("record", [False, True])
        event, data = await first(show_past(client, "none", "x"))
        assert (event, "no job none" in data["sentence"]) == ("gone", True)


async def test_a_user_without_permission_sees_why_there_is_nothing(tmp_path: Path) -> None:
    async with cluster(tmp_path, token="eve") as (_, config), AsyncClient(config) as client:
        _, data = await first(list_past(client, everywhere=False))
        assert (data["jobs"], "eve cannot list dijobs" in data["sentence"]) == ([], True)


async def test_a_cluster_without_a_history_says_how_to_enable_it(tmp_path: Path) -> None:
    async with cluster(tmp_path, token="admin") as (proxy, config), AsyncClient(config) as client:
        proxy.absent = True
        _, data = await first(list_past(client, everywhere=False))
        assert (data["jobs"], "history.enabled" in data["sentence"]) == ([], True)
