"""The event on a job that another controller manages (spec.managedBy).

The event is the operator's only write for such a job. The status belongs to the other controller:
MultiKueue copies it from another cluster, and would overwrite a condition of this operator. So the
operator posts the event only while the status has no phase. A phase shows that the other
controller manages the job. The CRD gives each new job a status without a phase.
"""

from collections.abc import Mapping
from typing import Any, Final

from dijob.api.managers import LEFT_ALONE_MESSAGE
from dijob.api.model import Metadata
from dijob.controller.observe.memory import JobMemory
from dijob.controller.write.recorder import Recorder
from dijob.core.actions import Event

REASON: Final = "ManagedElsewhere"


async def report_manager(
    recorder: Recorder, body: Mapping[str, Any], manager: str, memory: JobMemory
) -> None:
    """Post the event, unless the job has a phase or this process has posted the event before."""
    if memory.manager_reported or (body.get("status") or {}).get("phase"):
        return
    memory.manager_reported = True
    # Not a warning: this is what the user has asked for.
    event = Event(REASON, LEFT_ALONE_MESSAGE.format(manager), warning=False)
    await recorder.tell(Metadata.model_validate(body["metadata"]), event)
