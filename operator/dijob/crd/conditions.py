"""docs/conditions.md: every condition and reason, what to do about it, and which of them are
published as events.
"""

from dijob.reasons import CATALOGUE, Reason

_HEAD = """# Conditions, reasons, and what to do

Generated from `operator/dijob/reasons` by `make crds`; do not edit.

`kubectl describe dijob NAME` shows all of this about a job: its phase, its conditions, its events.

- **status.phase** is one word for people, derived from the conditions. The first that holds:
  Failed, Succeeded, Terminating, Suspended, Running, Starting (the addresses are published), else
  Pending.
- **status.message** is the sentence that matters most now: why the job ended, what is wrong, or
  what it waits for.
- **status.conditions** are for programs. Each is True or False, with a reason (one word, below) and
  a message (which rank, and why). A condition that is absent has never applied.

```sh
kubectl wait --for=condition=Running --timeout=10m dijob/NAME          # it has begun
kubectl wait --for=condition=Finished --timeout=24h dijob/NAME         # it has ended, well or badly
kubectl get dijob NAME -o jsonpath='{.status.phase}: {.status.message}{"\\n"}'   # how, and why
```

In the tables: **good** is as it should be; **waiting** needs nothing unless it lasts; **problem**
is something that went wrong, whether you must act or the job heals by itself; **over** will not
change any more. The last column is the type of the event that tells of it, if any.
"""

_EVENTS = """## Events

An event has the reason and the message of its condition, and is published when the condition's
status or reason changes. Three have the condition's type as their reason: Running and PeersReady,
which say after how many seconds, and Succeeded. Besides these, Scaled (Normal) says that a running
job has another size. An event that is published again in the same words is folded into the first:
its count and its last time go up. The cluster forgets events, usually after an hour; conditions
stay.

```sh
kubectl get events --field-selector involvedObject.kind=DIJob,involvedObject.name=NAME
kubectl get events -A --field-selector involvedObject.kind=DIJob,type=Warning
```
"""

_TABLE = "| status | reason | what it means | what to do | event |\n|---|---|---|---|---|\n"


def conditions() -> str:
    """The page as Markdown."""
    return "\n".join([_HEAD, *map(_section, CATALOGUE), _EVENTS])


def _section(reasons: type[Reason]) -> str:
    text = " ".join((reasons.__doc__ or "").split())
    return f"## {reasons.__name__}\n\n{text}\n\n{_TABLE}" + "".join(map(_row, reasons))


def _row(reason: Reason) -> str:
    entry = reason.entry
    state = f"{entry.status}, {entry.kind}"
    cells = (state, reason.name, entry.means, entry.remedy, entry.event.value)
    return "".join(f"| {cell} " if cell else "| " for cell in cells) + "|\n"
