"""Unwraps a command that apptainer or singularity runs in a container.

The pod's command already runs in a container. So the command in the apptainer container becomes the
pod's command, and the container's image becomes the pod's image.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from dijob_extras.slurm.script import unquote_word

_ENGINES: Final = ("apptainer", "singularity")
# Options of `exec` and `run` that take a value as the next word (apptainer 1.3). All others are
# flags, so the word after them can be the image.
_VALUES: Final = frozenset(
    {"-B", "--bind", "-H", "--home", "--pwd", "--cwd", "-W", "--workdir", "--env", "--env-file"}
    | {"-S", "--scratch", "-o", "--overlay", "--network", "--security", "--hostname", "--mount"}
    | {"--app", "--dns", "--add-caps", "--drop-caps", "--fusemount"}
)
_DOCKER: Final = "docker://"


@dataclass(frozen=True)
class Inner:
    """The command in the container.

    `image` is the name of the container's image in a registry, or "" if the image is a file. `said`
    is a note about what was left out, or "" if there was no container.
    """

    words: tuple[str, ...]
    image: str = ""
    said: str = ""


def strip_apptainer(words: Sequence[str]) -> Inner:
    """Remove `apptainer exec [options] IMAGE` from a command. Other commands are returned
    unchanged.
    """
    known = [unquote_word(word) for word in words]
    if len(known) < 3 or known[0].rpartition("/")[2] not in _ENGINES:
        return Inner(tuple(words))
    at = next((n for n, word in enumerate(known) if word in ("exec", "run")), len(known)) + 1
    while at < len(known) and known[at].startswith("-"):
        at += 2 if known[at] in _VALUES else 1
    if at + 1 >= len(known):
        # No command follows, so the image's entry point would run. It is unknown here.
        return Inner(tuple(words))
    image = known[at]
    name = image.removeprefix(_DOCKER) if image.startswith(_DOCKER) else ""
    advice = f"{known[0]} is left out: the pod's image replaces {image}, and volumes replace its"
    return Inner(tuple(words[at + 1 :]), name, f"{advice} bind mounts")
