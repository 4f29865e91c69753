"""The reader of the API server's audit log."""

import json
from pathlib import Path

import pytest
from faults.lab.audit import Audit


def entry(name: str) -> bytes:
    written = {
        "verb": "create",
        "userAgent": "dijob-operator/1",
        "objectRef": {"resource": "pods", "name": name, "namespace": "ns"},
        "requestReceivedTimestamp": "2026-05-04T12:00:00.000000Z",
        "stageTimestamp": "2026-05-04T12:00:00.000000Z",
        "responseStatus": {"code": 201},
    }
    return json.dumps(written).encode() + b"\n"


HALF = 60


@pytest.mark.parametrize(
    ("already", "then"),
    [(entry("before"), b""), (entry("before") + entry("half")[:HALF], entry("half")[HALF:])],
    ids=["at the end of a line", "within a line"],
)
def test_only_complete_lines_that_begin_later_count(
    tmp_path: Path, already: bytes, then: bytes
) -> None:
    log = tmp_path / "audit.log"
    log.write_bytes(already)
    audit = Audit(log)
    log.write_bytes(already + then + entry("later") + entry("unfinished")[:-HALF])
    assert [write.name for write in audit.each()] == ["later"]


def test_an_empty_log_is_read_from_its_beginning(tmp_path: Path) -> None:
    log = tmp_path / "audit.log"
    log.write_bytes(b"")
    audit = Audit(log)
    log.write_bytes(entry("first"))
    assert audit.count("ns") == {"create pods": 1}
