"""Text of a tenant is printed without control sequences of a terminal (H10)."""

import io
import unicodedata
from datetime import UTC, datetime
from typing import Any

import pytest
import yaml
from click.testing import CliRunner
from dijob.cli import printing
from dijob.cli.calling import in_words
from dijob.cli.commands.logs import Prefix
from dijob.cli.doctor import checks
from dijob.cli.doctor.verdict import problem
from dijob.cli.main import group
from dijob.cli.watching import live, view
from dijob.client import DijobError, Job, Line, dump
from dijob.client.bar import measure_progress
from dijob_extras.ui.sse import Message, encode_message
from rich.console import Console
from unit.cli.test_watching import SHOWN, pod
from unit.cli.test_watching import job as job_of

EVIL = "\x1b]0;owned\x07\x1b[2J\x9b31m\u202egnp.exe\nrank 0: Ready \U0001f44d\x85x"
SEEN = "gnp.exe rank 0: Ready \U0001f44d x"


def safe(text: str) -> bool:
    """Whether a terminal shows the text unchanged."""
    return all(char == "\n" or unicodedata.category(char) not in ("Cc", "Cf") for char in text)


def test_the_table_of_jobs_has_a_line_per_job() -> None:
    rows = printing.format_table(
        [printing.HEAD, printing.job_cells(job_of(message=EVIL), datetime.now(UTC))]
    )
    assert safe(rows)
    assert len(rows.splitlines()) == 2
    assert SEEN in rows


@pytest.mark.parametrize("terminal", [True, False])
def test_watch_shows_events_and_messages_safely(terminal: bool) -> None:
    event = {"metadata": {"uid": "e"}, "type": "Warning", "reason": EVIL, "message": EVIL}
    state = pod(0)
    state.body["status"]["containerStatuses"][0] |= {
        "ready": False,
        "state": {"waiting": {"reason": EVIL}},
    }
    seen = view.Snapshot(job_of(message=EVIL), [state], [event], [EVIL])
    if terminal:
        console = Console(width=300, record=True, file=io.StringIO())
        console.print(live.render_snapshot(seen, datetime.now(UTC), 5))
        text = console.export_text()
    else:
        text = "\n".join(view.change_lines(seen, datetime.now(UTC)).values())
    assert safe(text)
    assert not any(line.strip().startswith("rank 0: Ready") for line in text.splitlines())
    assert SEEN in text


def test_a_finding_of_doctor_is_one_line() -> None:
    text = checks.format_checklist("test", [("ends", problem(EVIL, EVIL))])
    assert safe(text)
    assert len(text.splitlines()) == 3


def test_a_jobs_progress_is_one_line() -> None:
    assert in_words(job_of(message=EVIL)) == f"test: Running: {SEEN}"
    assert measure_progress(job_of(message=EVIL)).line.endswith(SEEN)


def test_an_error_that_quotes_the_cluster_is_safe(monkeypatch: pytest.MonkeyPatch) -> None:
    async def refused(*_: Any) -> Any:
        raise DijobError(EVIL)

    monkeypatch.setattr("dijob.client.AsyncClient.__aenter__", refused)
    done = CliRunner().invoke(group, ["get", "test"], color=True)
    assert done.exit_code == 1
    assert safe(done.stderr)


def test_json_and_yaml_are_safe_and_keep_the_values() -> None:
    body = {"metadata": {"name": "a", "annotations": {"x": EVIL, EVIL: "שלום"}}}
    for kind in ("json", "yaml"):
        text = printing.format_object(body, kind)
        assert safe(text)
        assert yaml.safe_load(text) == body
    assert "שלום" in dump({"metadata": {"name": "a", "annotations": {"x": "שלום"}}})


def test_the_page_gets_text_that_it_can_show() -> None:
    data = encode_message(Message("job", {"message": EVIL, "ranks": [{"state": EVIL}]})).decode()
    assert "\u202e" not in data
    assert "\\u001b" not in data


def test_logs_obey_nothing_but_colours_in_a_terminal() -> None:
    line = Line(0, 1, "test-1", f"\x1b[32mok\x1b[0m {EVIL[: EVIL.index(chr(10))]}")
    shown = Prefix(terminal=True).of(None, 2).put(line)
    mark = "\x1b[33m[1]\x1b[0m "
    assert shown == f"{mark}\x1b[32mok\x1b[0m gnp.exe\x1b[0m"
    assert safe(shown.replace("\x1b", ""))


def test_a_line_of_a_log_cannot_overwrite_its_prefix() -> None:
    forged = Line(0, 1, "test-1", "loss 1\r[0] all is well")
    assert Prefix(terminal=True, width=1).put(forged).endswith("[1]\x1b[0m [0] all is well")


@pytest.mark.parametrize("how", [Prefix(width=0), Prefix(terminal=True, raw=True)])
def test_a_pipe_and_raw_get_the_line_as_it_is(how: Prefix) -> None:
    assert how.put(Line(0, 1, "test-1", EVIL)) == EVIL


def test_a_job_is_shown_as_before() -> None:
    assert isinstance(SHOWN.job, Job)
    assert in_words(SHOWN.job) == "test: Running: rank 2 is lost"
