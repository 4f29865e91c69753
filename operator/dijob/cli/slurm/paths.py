"""The paths in a container that its image may not have: in Slurm, file systems that all nodes
share bring them.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

# Of a text: what begins with / or ~/ where a word, or the value of NAME=VALUE, may begin.
_PATH: Final = re.compile(r"""(?:^|(?<=[\s='":,(]))(?:~/|/(?!/))[\w./@%+~-]*[\w~]""")
# What an image has itself, by the first folder.
_OWN: Final = frozenset(
    ("bin", "dev", "etc", "lib", "lib64", "opt", "proc", "run", "sbin", "sys", "tmp", "usr", "var")
)


def foreign_paths(container: Mapping[str, Any]) -> list[str]:
    """The paths outside the folders that an image has itself, each once, as they are written; none
    that lies below another of them.
    """
    found = dict.fromkeys(
        path
        for text in _texts(container)
        for path in _PATH.findall(text)
        if path.strip("/").split("/")[0] not in _OWN
    )
    return [path for path in found if not any(path.startswith(f"{other}/") for other in found)]


def _texts(container: Mapping[str, Any]) -> Iterator[str]:
    yield container.get("workingDir") or ""
    yield from container.get("command") or ()
    yield from container.get("args") or ()
    yield from (one["value"] for one in container.get("env") or ())
