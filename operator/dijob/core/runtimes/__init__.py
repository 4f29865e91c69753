"""What a pod's environment says, one pure file per runtime and one row here: env(member, gang) -> variables."""

from collections.abc import Callable
from typing import Final

from dijob.core.members import Gang, Member
from dijob.core.runtimes import ditask

Env = Callable[[Member, Gang], dict[str, str]]

# Values known when the pod is created. Addresses come later, through the pod's annotations (manifests.py).
RUNTIMES: Final[dict[str, Env]] = {"ditask": ditask.env}
