"""JSON logs: each line is one object with the job that it is about."""

import json
import logging
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from dijob.controller import logs
from dijob.controller.logs import JsonLines
from samples.builders import job_body
from simulator.simulated import simulated

ROOT = Path(__file__).parents[3]


class Lines(logging.Handler):
    """Collects the log lines, parsed as JSON."""

    def __init__(self) -> None:
        super().__init__()
        self.setFormatter(JsonLines())
        self.read: list[dict[str, Any]] = []

    def emit(self, record: logging.LogRecord) -> None:
        text = self.format(record)
        assert "\n" not in text
        self.read.append(json.loads(text))


@pytest.fixture
def lines(caplog: pytest.LogCaptureFixture) -> Iterator[Lines]:
    found = Lines()
    caplog.set_level(logging.INFO)
    logging.getLogger().addHandler(found)
    yield found
    logging.getLogger().removeHandler(found)


def test_a_line_has_time_level_logger_and_message(lines: Lines) -> None:
    before = datetime.now(UTC)
    logging.getLogger("dijob.x").warning("it said %r\n\u2028", "a\tb")
    (line,) = lines.read
    when = datetime.fromisoformat(line.pop("time"))
    assert abs((when - before).total_seconds()) < 5
    assert line == {
        "level": "warning",
        "logger": "dijob.x",
        "message": "it said 'a\\tb'\n\u2028",
    }


def test_an_exception_has_its_traceback_in_the_same_line(lines: Lines) -> None:
    try:
        raise ValueError("no")
    except ValueError:
        logging.getLogger("dijob.x").exception("failed")
    assert lines.read[0]["exception"].endswith("ValueError: no")
    assert "test_logs.py" in lines.read[0]["exception"]


def test_kopfs_lines_about_an_object_have_the_job(lines: Lines) -> None:
    reference = {"k8s_ref": {"namespace": "ns", "name": "job", "kind": "DIJob"}}
    logging.getLogger("kopf.objects").warning("seen", extra=reference)
    assert lines.read[0]["job"] == "ns/job"


@pytest.mark.virtual_time
async def test_lines_of_a_reconciliation_have_the_job(lines: Lines) -> None:
    other = job_body()
    other["metadata"] |= {"name": "other", "uid": "other-uid"}
    async with simulated(job_body(), other) as world:
        world.refuse("PATCH", "dijobs", 503, times=1)
        await world.until(
            lambda: (
                {world.cluster.job(name).status.phase for name in ("job", "other")} == {"Running"}
            )
        )
    about = [line for line in lines.read if line["message"].startswith("ns/")]
    assert {line["job"] for line in about} == {"ns/job", "ns/other"}
    assert all(line["message"].startswith(f"{line['job']}: ") for line in about)
    failed = next(line for line in about if "reconcile failed" in line["message"])
    assert "RequestError: 503" in failed["exception"]
    (listed,) = [line for line in lines.read if "pods of DIJobs): reconciling" in line["message"]]
    assert "job" not in listed
    assert logs.JOB.get() == ""


def failed(script: str) -> str:
    """Run a script that ends with an exception, and return what it wrote to standard error."""
    done = subprocess.run(
        [sys.executable, "-c", script],
        cwd=ROOT,
        env={"PYTHONPATH": "operator"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 1
    return done.stderr


FORGED = (
    "x\n[2026-11-26 07:00:00,000] dijob.controller.write.recorder [CRITICAL]"
    " FORGED LINE\x1b[31m\x9b2J\u202e"
)


@pytest.mark.parametrize("form", logs.LogFormat)
def test_text_from_outside_cannot_forge_a_log_line(form: logs.LogFormat) -> None:
    """H22: the log quotes the holder of a Lease, and API errors that quote users' text. An uncaught
    exception is a log line too.
    """
    script = f"""
import logging, warnings
from dijob.controller import logs
logs.configure("info", logs.LogFormat({form.value!r}))
log = logging.getLogger("dijob.controller.leader.claims")
log.info("%s: release %s serves it", "namespace a", {FORGED!r})
try:
    raise ValueError({FORGED!r})
except ValueError:
    log.exception("failed")
warnings.warn({FORGED!r})
raise KeyError({FORGED!r})
"""
    error = failed(script)
    lines = error.splitlines()
    assert [line for line in lines if line[0] in "{["] == [line for line in lines if line[0] != " "]
    assert not any("FORGED" in line and "CRITICAL] dijob" in line[:60] for line in lines)
    assert not any(line.startswith("[2026-11-26 07:00:00,000]") for line in lines)
    assert not set("\x1b\x9b\u202e") & set(error)
    if form is logs.LogFormat.JSON:
        read = [json.loads(line) for line in lines]
        assert len(read) == 4
        assert read[-1]["level"] == "critical"
        assert "KeyError" in read[-1]["exception"]
        assert not set("\x1b\x9b\u202e") & set("".join(map(str, read[0].values())))
        assert "\n" not in read[0]["message"]
