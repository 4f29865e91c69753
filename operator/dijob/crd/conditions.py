"""Generates docs/conditions.md: every condition and reason, what to do about it, and which of them
are published as events.

The page is generated from the catalog of reasons, so that it cannot miss a reason that the operator
writes.
"""

from dijob.reasons import CATALOGUE, Reason

_HEAD = """# Conditions, reasons, and what to do

Generated from `operator/dijob/reasons` by `make crds`; do not edit.

`kubectl describe dijob NAME` shows the phase, the conditions and the events of a job.

- **status.phase** is a one-word, human-readable summary of the conditions. It is the first of these
  that applies: Failed, Succeeded, Terminating, Suspended, Running, Starting (the peer list is
  published), else Pending.
- **status.message** is the most important information at the moment: why the job ended, what is
  wrong, or what the job is waiting for.
- **status.conditions** are for programs. Each is True or False, with a reason (one word, below) and
  a message (which rank, and why). A condition that is absent has never applied.
  Reconciling and Stalled are absent whenever they do not apply.

```sh
kubectl wait --for=condition=Running --timeout=10m dijob/NAME          # it has started
kubectl wait --for=condition=Finished --timeout=24h dijob/NAME         # it has succeeded or failed
kubectl get dijob NAME -o jsonpath='{.status.phase}: {.status.message}{"\\n"}'   # how, and why
```

Each reason in the tables has a kind:

- **good**: the state is as it should be.
- **waiting**: no action is needed unless the state persists.
- **problem**: something went wrong. Either you must act, or the job recovers by itself.
- **over**: the state is final.

The last column is the type of the event that reports the reason. It is empty if no event reports
the reason.
"""

_EVENTS = """## Events

An event has the reason and the message of its condition. It is published when the condition's
status or reason changes. Three events have the condition's type as their reason: Succeeded, Running
and PeersReady. The events Running and PeersReady also say how many seconds it took to reach that
state. Two more events (Normal) have no condition: Scaled reports that the size of a running job has
changed, and SizeIgnored reports that a change to the size of an ended job has no effect. If an
event is published again with the same message, the cluster keeps one event and updates its count
and last timestamp. Clusters usually delete events after an hour. Conditions remain.

```sh
kubectl get events --field-selector involvedObject.kind=DIJob,involvedObject.name=NAME
kubectl get events -A --field-selector involvedObject.kind=DIJob,type=Warning
```
"""

_TABLE = "| status | reason | what it means | what to do | event |\n|---|---|---|---|---|\n"


def conditions_page() -> str:
    """Return the page as Markdown."""
    return "\n".join([_HEAD, *map(_reasons_section, CATALOGUE), _EVENTS])


def _reasons_section(reasons: type[Reason]) -> str:
    # The docstring of a condition type is its description for users (see catalogue.Reason).
    text = " ".join((reasons.__doc__ or "").split())
    return f"## {reasons.__name__}\n\n{text}\n\n{_TABLE}" + "".join(map(_reason_row, reasons))


def _reason_row(reason: Reason) -> str:
    entry = reason.entry
    state = f"{entry.status}, {entry.kind}"
    cells = (state, reason.name, entry.means, entry.remedy, entry.event.value)
    return "".join(f"| {cell} " if cell else "| " for cell in cells) + "|\n"
