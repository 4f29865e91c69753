"""The catalog of reasons: the code uses each of them, docs/conditions.md shows all, and events
match it.
"""

import ast
import re
from pathlib import Path

import dijob
import pytest
from dijob import names
from dijob.api.spec import Spec
from dijob.api.status import Condition, ListProof, Status
from dijob.core.facts import Fact
from dijob.core.report.summary import apply_facts, events, job_phase
from dijob.crd.conditions import conditions_page as table
from dijob.names import Phase
from dijob.reasons import (
    CATALOGUE,
    EventType,
    Failed,
    PeersReady,
    Reason,
    ReasonKind,
    Running,
    find_reason,
)
from samples.builders import NOW, later

ALL = [reason for each in CATALOGUE for reason in each]
IDS = [str(reason) for reason in ALL]
OPERATOR = Path(dijob.__file__).parent


def test_every_type_of_condition_is_in_the_catalogue() -> None:
    assert set(CATALOGUE) == set(Reason.__subclasses__())


def test_no_reason_is_an_alias() -> None:
    assert [reason.name for reason in ALL] == [
        name for each in CATALOGUE for name in each.__members__
    ]


def written(folder: Path) -> set[str]:
    """Return every `Class.Name` that the operator's code uses outside the catalog."""
    paths = (path for path in folder.rglob("*.py") if path.parent.name != "reasons")
    nodes = (node for path in paths for node in ast.walk(ast.parse(path.read_text())))
    return {
        ast.unparse(node).removeprefix("reasons.")
        for node in nodes
        if isinstance(node, ast.Attribute)
    }


def test_the_code_uses_every_reason() -> None:
    assert {str(reason) for reason in ALL} <= written(OPERATOR)


def test_a_stored_reason_is_found_by_type_and_name() -> None:
    assert find_reason("Running", "Blocked") is Running.Blocked
    assert find_reason("Running", "NoSuchReason") is None
    assert find_reason("FromTheFuture", "Blocked") is None


def shown() -> dict[tuple[str, str], list[str]]:
    """Return the rows of the page: their other cells by type and reason."""
    found: dict[tuple[str, str], list[str]] = {}
    for section in table().split("\n## ")[1:]:
        title, *lines = section.splitlines()
        for line in lines:
            if line.startswith(("| True", "| False")):
                state, reason, *rest = (cell.strip() for cell in line.strip("|").split("|"))
                found[title, reason] = [state, *rest]
    return found


def test_the_page_shows_the_whole_catalogue() -> None:
    assert shown() == {
        (reason.condition, reason.name): [
            f"{entry.status}, {entry.kind}",
            entry.means,
            entry.remedy,
            entry.event.value,
        ]
        for reason in ALL
        if (entry := reason.entry)
    }


def test_the_page_names_the_annotation_of_a_pause() -> None:
    assert f"`{names.ANNOTATION_PAUSED}` is set" in table()


@pytest.mark.parametrize("reason", ALL, ids=IDS)
def test_exactly_the_events_in_the_catalogue_are_published(reason: Reason) -> None:
    status, event = reason.entry.status, reason.entry.event
    running = Condition(type="Running", status="True", reason="Begun")
    opposite = Condition(type=reason.condition, status=str(not status), reason="Before")
    other = Condition(type=reason.condition, status=str(status), reason="Before")
    for conditions in ((), (opposite,), (other,)):
        before = Status(
            conditions=(running, *conditions) if not isinstance(reason, Running) else conditions
        )
        after = apply_facts(before, [Fact(reason, "words")], 1, NOW)
        found = events(before, after)
        assert [("Warning" if one.warning else "Normal") for one in found] == list(
            filter(None, [event.value])
        )
        # The last part of the page lists them.
        good = status and reason.entry.kind is ReasonKind.GOOD
        assert all(
            (one.reason, one.message) == (reason.condition if good else reason.name, "words")
            for one in found
        )
        assert events(after, after) == ()


@pytest.mark.parametrize("reason", ALL, ids=IDS)
def test_each_problem_has_a_remedy(reason: Reason) -> None:
    assert re.fullmatch("[A-Z][A-Za-z]+", reason.name)
    entry = reason.entry
    assert entry.means
    assert "|" not in entry.means + entry.remedy
    if entry.kind is ReasonKind.PROBLEM:
        assert entry.remedy
        assert entry.event is EventType.WARNING, "a problem that `kubectl describe` does not tell"
    else:
        assert entry.event is not EventType.WARNING, "a warning of what is not wrong"
    if entry.kind is ReasonKind.GOOD:
        assert not entry.remedy


def having_had(*facts: Fact, before: Status | None = None, seconds: float = 0) -> Status:
    return apply_facts(before or Status(), facts, 1, later(seconds))


def told(old: Status, new: Status) -> list[tuple[str, str, bool]]:
    return [(one.reason, one.message, one.warning) for one in events(old, new)]


def test_the_first_start_has_one_event_with_its_duration() -> None:
    waits = having_had(Fact(Running.Starting, "waits"), Fact(PeersReady.Starting, "waits"))
    begun = having_had(
        Fact(Running.Begun, "all 3 ranks are running"),
        Fact(PeersReady.AllRanksReady, "all"),
        before=waits,
        seconds=7,
    )
    assert told(waits, begun) == [("Running", "all 3 ranks are running, after 7 s", False)]


def test_a_recovery_has_an_event_with_its_duration() -> None:
    runs = having_had(Fact(Running.Begun), Fact(PeersReady.AllRanksReady))
    lost = having_had(Fact(PeersReady.RankNotReady, "rank 1: its pod is gone"), before=runs)
    healed = having_had(
        Fact(PeersReady.AllRanksReady, "all ranks are Ready with peer list revision 2"),
        before=lost,
        seconds=6,
    )
    assert told(runs, lost) == [("RankNotReady", "rank 1: its pod is gone", True)]
    assert told(lost, healed) == [
        ("PeersReady", "all ranks are Ready with peer list revision 2, after 6 s", False)
    ]


def test_a_change_of_the_size_of_an_ended_job_has_an_event_that_is_no_warning() -> None:
    ended = having_had(Fact(Failed.DeadlineExceeded)).model_copy(update={"desired": 3})
    resized = ended.model_copy(update={"desired": 5})
    text = "the job has ended (Failed), so the change of its size has no effect (from 3 to 5)"
    assert told(ended, resized) == [("SizeIgnored", text, False)]
    unset = ended.model_copy(update={"desired": 0})
    assert told(ended, ended) == told(unset, ended) == []


def test_a_change_of_size_has_an_event() -> None:
    three = having_had(Fact(Running.Begun)).model_copy(update={"address_list": ListProof(size=3)})
    four = three.model_copy(update={"address_list": ListProof(size=4)})
    assert told(three, four) == [("Scaled", "from 3 to 4 ranks", False)]
    assert (
        told(Status(address_list=ListProof(size=3)), Status(address_list=ListProof(size=4))) == []
    )


def test_the_page_names_fields_that_exist_and_every_phase() -> None:
    page = table()
    head = " ".join(page.split("\n## ")[0].split())
    assert [word for word in Phase if word not in head] == []
    first = re.search(r"first of these that applies: (.*?), else (\w+)\.", head, re.DOTALL)
    assert first
    assert re.findall(r"[A-Z]\w+", first[1]) == falling()
    assert first[2] == job_phase(Status())
    known = {str(each.alias) for model in (Spec, Status) for each in model.model_fields.values()}
    named = set(re.findall(r"`(?:spec\.|status\.)?([a-z]+[A-Z][A-Za-z]+)`", page))
    assert named - known == set()


def having(*types: str) -> Status:
    return Status(conditions=tuple(Condition(type=type_, status="True") for type_ in types))


def falling() -> list[str]:
    """Return the phases in order: each one applies when those before it do not."""
    types, found = {each.__name__ for each in CATALOGUE}, list[str]()
    while (now := job_phase(having(*types))) is not Phase.PENDING:
        found.append(now)
        types -= {type_ for type_ in types if job_phase(having(*(types - {type_}))) is not now}
    return found
