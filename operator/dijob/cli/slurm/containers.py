"""A command that runs in a container on the node: its own words, and its image. A pod is that
container."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from dijob.cli.slurm.script import plain

_ENGINES: Final = ("apptainer", "singularity")
# Options of `exec` and `run` that have a value (apptainer 1.3).
_VALUES: Final = frozenset(
    {"-B", "--bind", "-H", "--home", "--pwd", "--cwd", "-W", "--workdir", "--env", "--env-file"}
    | {"-S", "--scratch", "-o", "--overlay", "--network", "--security", "--hostname", "--mount"}
    | {"--app", "--dns", "--add-caps", "--drop-caps", "--fusemount"}
)
_DOCKER: Final = "docker://"


@dataclass(frozen=True)
class Inner:
    """The command in the container. `image` is what a registry calls it, "" where it is a file;
    `said` is what the call asked for besides, "" where it was no such call."""

    words: tuple[str, ...]
    image: str = ""
    said: str = ""


def inner(words: Sequence[str]) -> Inner:
    """The command without `apptainer exec [options] IMAGE`; as it is where it is no such one."""
    known = [plain(word) for word in words]
    if len(known) < 3 or known[0].rpartition("/")[2] not in _ENGINES:
        return Inner(tuple(words))
    at = next((n for n, word in enumerate(known) if word in ("exec", "run")), len(known)) + 1
    while at < len(known) and known[at].startswith("-"):
        at += 2 if known[at] in _VALUES else 1
    if at + 1 >= len(known):
        return Inner(tuple(words))  # the image's own entry point
    image = known[at]
    name = image.removeprefix(_DOCKER) if image.startswith(_DOCKER) else ""
    instead = f"{known[0]} is left out: the pod's image takes the place of {image}"
    return Inner(tuple(words[at + 1 :]), name, f"{instead}, and volumes that of bound folders")
