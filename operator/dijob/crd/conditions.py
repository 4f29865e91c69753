"""docs/conditions.md: every condition and reason, what to do about it, and which of them are told as events."""

from collections.abc import Iterator

from dijob.api.status import Condition, Status
from dijob.core.actions import Event
from dijob.core.report.summary import events
from dijob.crd.reason import Reason
from dijob.crd.reasons import REASONS
from dijob.names import Condition as Type

_HEAD = """# Conditions, reasons, and what to do

Generated from `operator/dijob/crd/reasons.py` by `make crds`; do not edit.

`kubectl describe dijob NAME` shows all of this about a job: its phase, its conditions, its events.

- **status.phase** is one word for people, derived from the conditions. The first that holds: Failed, Succeeded,
  Suspended, Running, Starting (the addresses are published), else Pending.
- **status.message** is the sentence that matters most now: why the job ended, what is wrong, or what it waits for.
- **status.conditions** are for programs. Each is True or False, with a reason (one word, below) and a message (which
  rank, and why). One that is not there has had nothing to say.

```sh
kubectl wait --for=condition=Running --timeout=10m dijob/NAME          # it has begun
kubectl wait --for=condition=Finished --timeout=24h dijob/NAME         # it has ended, well or badly
kubectl get dijob NAME -o jsonpath='{.status.phase}: {.status.message}{"\\n"}'   # how, and why
```

In the tables: **good** is as it should be; **waiting** needs nothing unless it lasts; **problem** is something
that went wrong, whether you must act or the job heals by itself; **over** will not change any more. The last column is
the type of the event that tells of it, if any.
"""

_EVENTS = """## Events

An event has the reason and the message of its condition; that of a job which runs or has succeeded has the condition's
type as its reason. It is told when the condition's status or reason changes. What is told again in the same words is
folded into the same event: its count and its last time go up. The cluster forgets events, usually after an hour;
conditions stay.

```sh
kubectl get events --field-selector involvedObject.kind=DIJob,involvedObject.name=NAME
kubectl get events -A --field-selector involvedObject.kind=DIJob,type=Warning
```
"""

_TABLE = "| status | reason | what it means | what to do | event |\n|---|---|---|---|---|\n"


def conditions() -> str:
    """The page as Markdown."""
    return "\n".join([_HEAD, *map(_section, REASONS), _EVENTS])


def told(type_: Type, reason: Reason) -> Event | None:
    """The event of a condition that turns up with this reason."""
    condition = Condition(type=type_, status=str(reason.status), reason=reason.name)
    return next(iter(events(Status(), Status(conditions=(condition,)))), None)


def _section(type_: Type) -> str:
    about = REASONS[type_]
    return f"## {type_}\n\n{about.text}\n\n{_TABLE}" + "".join(f"{row}\n" for row in _rows(type_))


def _rows(type_: Type) -> Iterator[str]:
    for reason in REASONS[type_].reasons:
        cells = (f"{reason.status}, {reason.kind}", reason.name, reason.means, reason.remedy, _event(type_, reason))
        yield "".join(f"| {cell} " if cell else "| " for cell in cells) + "|"


def _event(type_: Type, reason: Reason) -> str:
    event = told(type_, reason)
    return "" if event is None else "Warning" if event.warning else "Normal"
