"""docs/conditions.md: all that the code can say is in the table and nothing else; events are as summary.py tells."""

import ast
import re
from collections.abc import Iterator
from dataclasses import replace

import pytest
from dijob.api.spec import Spec
from dijob.api.status import Condition, Status
from dijob.core.membership.losses import Loss
from dijob.core.report import conditions
from dijob.core.report.summary import Fact, conclude, events, phase
from dijob.crd.conditions import conditions as table
from dijob.crd.conditions import told
from dijob.crd.reason import Kind, Reason
from dijob.crd.reasons import REASONS
from dijob.names import Condition as Type
from dijob.names import Phase
from unit.builders import NOW
from unit.spoken import Scope, Unreadable, argument, calls, fields_of, values

Said = tuple[Type, bool, str]
ROWS = [(type_, reason) for type_, about in REASONS.items() for reason in about.reasons]
IDS = [f"{type_}-{reason.status}-{reason.name}" for type_, reason in ROWS]


def facts() -> Iterator[Said]:
    """Each condition that the code can make: its type, its status, its reason."""
    order = fields_of(Fact)
    for scope, call in calls("Fact"):
        for type_ in argument(scope, call, order, "type"):
            # One type at a time, where the reason is made from it.
            here = replace(scope, bound={call.args[0].id: type_}) if isinstance(call.args[0], ast.Name) else scope
            for status in argument(here, call, order, "status"):
                yield from ((type_, status, reason) for reason in argument(here, call, order, "reason"))


SAID = set(facts())


def test_the_table_has_each_reason_that_the_code_can_say_and_no_other() -> None:
    table = [(type_, reason.status, reason.name) for type_, reason in ROWS]
    assert set(table) == SAID
    assert len(table) == len(set(table))


def test_every_type_has_a_section() -> None:
    assert set(REASONS) == set(Type)


def test_the_reasons_of_the_code_are_words_and_their_types_are_types() -> None:
    for type_, status, reason in SAID:
        assert isinstance(type_, Type)
        assert isinstance(status, bool)
        assert re.fullmatch("[A-Z][A-Za-z]+", reason), reason


def test_every_loss_is_a_reason_of_the_list_that_died() -> None:
    lost = {reason for at, call in calls("Loss") for reason in argument(at, call, fields_of(Loss), "reason")}
    assert lost >= {"PodLost", "Scaled"}
    assert {(Type.ADDRESSES_READY, False, reason) for reason in lost} <= SAID


def test_nothing_but_conditions_is_told_as_an_event() -> None:
    made = [(scope.module.__name__, ast.unparse(call.func)) for scope, call in (*calls("Event"), *calls("Condition"))]
    assert {module for module, name in made if name == "Event"} == {"dijob.core.report.summary"}
    assert {module for module, name in made if name == "Condition"} == {
        "dijob.core.report.summary",
        "dijob.crd.conditions",
    }


UNREADABLE = {
    "a sum": "def f(): return 'Pod' + 'Lost'",
    "a text with values": "def f(x): return f'{x}Lost'",
    "a call": "def f(): return str(1)",
    "nobody's name": "def f(): return nowhere",
    "nobody's parameter": "def f(x): return x",
    "a property": "def progress(this): return this.world.loss.reason",
}


@pytest.mark.parametrize("code", UNREADABLE.values(), ids=UNREADABLE)
def test_a_reason_that_is_no_literal_and_no_constant_is_refused(code: str) -> None:
    (function,) = ast.parse(code).body
    assert isinstance(function, ast.FunctionDef)
    (end,) = function.body
    assert isinstance(end, ast.Return)
    assert end.value
    with pytest.raises(Unreadable):
        values(end.value, Scope(conditions, function))


def shown() -> dict[Said, list[str]]:
    """The page's rows: their other cells by type, status and reason."""
    found: dict[Said, list[str]] = {}
    for section in table().split("\n## ")[1:]:
        title, *lines = section.splitlines()
        for line in lines:
            if line.startswith(("| True", "| False")):
                state, reason, *rest = (cell.strip() for cell in line.strip("|").split("|"))
                status, kind = state.split(", ")
                found[Type(title), status == "True", reason] = [kind, *rest]
    return found


SHOWN = shown()


def test_the_page_shows_the_whole_table() -> None:
    assert set(SHOWN) == SAID
    for type_, reason in ROWS:
        kind, means, remedy, _ = SHOWN[type_, reason.status, reason.name]
        assert (kind, means, remedy) == (reason.kind, reason.means, reason.remedy)


@pytest.mark.parametrize(("type_", "reason"), ROWS, ids=IDS)
def test_an_event_that_is_said_to_be_shown_is_told_and_no_other(type_: Type, reason: Reason) -> None:
    opposite = Status(conditions=(Condition(type=type_, status=str(not reason.status), reason="Before"),))
    other = Status(conditions=(Condition(type=type_, status=str(reason.status), reason="Before"),))
    for before in (Status(), opposite, other):
        after = conclude(before, [Fact(type_, reason.status, reason.name, "words")], 1, NOW)
        found = events(before, after)
        assert [{True: "Warning", False: "Normal"}[event.warning] for event in found] == list(
            filter(None, [SHOWN[type_, reason.status, reason.name][-1]])
        )
        # As the page's last part says.
        assert all(event.message == "words" for event in found)
        good = reason.status and type_ in (Type.RUNNING, Type.SUCCEEDED)
        assert all(event.reason == (type_ if good else reason.name) for event in found)
        assert events(after, after) == ()


@pytest.mark.parametrize(("type_", "reason"), ROWS, ids=IDS)
def test_each_row_says_what_to_do_where_there_is_something(type_: Type, reason: Reason) -> None:
    assert reason.means
    assert "|" not in reason.means + reason.remedy
    if reason.kind is Kind.PROBLEM:
        assert reason.remedy
        event = told(type_, reason)
        assert event is not None, "a problem that `kubectl describe` does not tell"
        assert event.warning, "a problem that is told as good news"
    if reason.kind is Kind.GOOD:
        assert not reason.remedy


def test_the_page_names_fields_that_exist_and_every_phase() -> None:
    page = table()
    head = page.split("\n## ")[0]
    assert [word for word in Phase if word not in head] == []
    first = re.search(r"The first that holds: (.*?), else (\w+)\.", head, re.DOTALL)
    assert first
    assert re.findall(r"[A-Z]\w+", first[1]) == falling()
    assert first[2] == phase(Status())
    known = {str(each.alias) for model in (Spec, Status) for each in model.model_fields.values()}
    named = set(re.findall(r"`(?:spec\.|status\.)?([a-z]+[A-Z][A-Za-z]+)`", page))
    assert named - known == set()


def having(*types: Type) -> Status:
    return Status(conditions=tuple(Condition(type=type_, status="True") for type_ in types))


def falling() -> list[str]:
    """The phases in their order: each is what is left when those before it do not hold."""
    types, found = set(Type), list[str]()
    while (now := phase(having(*types))) is not Phase.PENDING:
        found.append(now)
        types -= {type_ for type_ in types if phase(having(*(types - {type_}))) is not now}
    return found
