"""Finds paths that the image may not contain.

On a Slurm cluster they are on file systems that all nodes share. Pods do not have these.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

# A path begins with / or ~/, at the beginning of a word or of the value in NAME=VALUE. Two slashes
# begin the rest of a URL.
_PATH: Final = re.compile(r"""(?:^|(?<=[\s='":,(]))(?:~/|/(?!/))[\w./@%+~-]*[\w~]""")
# The first folder of paths that images contain.
_OWN: Final = frozenset(
    ("bin", "dev", "etc", "lib", "lib64", "opt", "proc", "run", "sbin", "sys", "tmp", "usr", "var")
)


def foreign_paths(container: Mapping[str, Any]) -> list[str]:
    """Return the paths outside the usual folders of an image, without those below another one."""
    found = dict.fromkeys(
        path
        for text in _container_texts(container)
        for path in _PATH.findall(text)
        if path.strip("/").split("/")[0] not in _OWN
    )
    return [path for path in found if not any(path.startswith(f"{other}/") for other in found)]


def _container_texts(container: Mapping[str, Any]) -> Iterator[str]:
    yield container.get("workingDir") or ""
    yield from container.get("command") or ()
    yield from container.get("args") or ()
    yield from (one["value"] for one in container.get("env") or ())
