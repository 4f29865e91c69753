"""Python imports this when it starts in a pod of a DIJob: the launcher puts this folder first into
PYTHONPATH. Here DI-engine is told its place in the job as soon as a program imports it, and then
the image's own sitecustomize runs, which this one hides.

A process that never needs DI-engine pays for what is in this file alone, so it imports nothing that
Python has not imported already.

A pod may have an older Python too (2.7 of a tool, 3.6 of the distribution). It cannot run
DI-engine, so here it only runs the image's own sitecustomize. This file is valid in Python 2.7 for
that reason: types are in comments.
"""

import sys

# DI-engine and dijob_runtime need it.
OLDEST = (3, 7)
if sys.version_info >= (3, 4):
    from importlib.machinery import PathFinder

TYPE_CHECKING = False
if TYPE_CHECKING:  # typing takes milliseconds to import
    from importlib.machinery import ModuleSpec
    from types import ModuleType
    from typing import Any, Optional, Sequence

# The modules of DI-engine that are changed once they are imported, each with the module whose
# `patch` does it.
PATCHES = {
    "ding.entry.cli_ditask": "dijob_runtime.hook.ditask",
    "ding.framework.task": "dijob_runtime.hook.task",
    "ding.framework.parallel": "dijob_runtime.hook.parallel",
    "ding.framework.middleware.distributer": "dijob_runtime.hook.distributer",
    "ding.framework.message_queue.nng": "dijob_runtime.hook.nng",
    "ding.framework.message_queue.redis": "dijob_runtime.hook.redis",
    "mpire.worker": "dijob_runtime.hook.mpire",
}


class Finder:
    """Finds what PathFinder finds, with a patch behind it."""

    @staticmethod
    def find_spec(name, path=None, target=None):
        # type: (str, Optional[Sequence[str]], Optional[ModuleType]) -> Optional[ModuleSpec]
        patch = PATCHES.get(name)
        if patch is None:
            return None
        spec = PathFinder.find_spec(name, path, target)
        if spec is not None and spec.loader is not None:
            spec.loader = Patching(spec.loader, patch)  # type: ignore[assignment]
        return spec


class Patching:
    """A module's own loader, which patches the module once it has run."""

    def __init__(self, loader, patch):
        # type: (Any, str) -> None
        self._loader = loader
        self._patch = patch

    def __getattr__(self, name):
        # type: (str) -> Any
        """get_source and the like, for tracebacks and inspect."""
        return getattr(self._loader, name)

    def create_module(self, spec):
        # type: (ModuleSpec) -> Optional[ModuleType]
        return self._loader.create_module(spec)  # type: ignore[no-any-return]

    def exec_module(self, module):
        # type: (ModuleType) -> None
        self._loader.exec_module(module)
        try:
            __import__(self._patch)
            sys.modules[self._patch].patch(module)
        except Exception as error:
            # Another DI-engine than those that are known: a program works with it as it would
            # without this.
            text = "dijob: WARNING: unsupported version of %s, this rank may not join its job: %r\n"
            sys.stderr.write(text % (module.__name__, error))


def run_the_images_own():
    # type: () -> None
    """The sitecustomize that Python would have found without this one."""
    here = __file__.rpartition("/")[0]
    others = [path for path in sys.path if path.rstrip("/") != here]
    if sys.version_info < (3, 4):
        _run_in_python_2(others)
        return
    spec = PathFinder.find_spec("sitecustomize", others)
    if spec is None or spec.loader is None:
        return
    module = type(sys)("sitecustomize")
    module.__spec__, module.__file__, module.__loader__ = spec, spec.origin, spec.loader
    sys.modules["sitecustomize"] = module
    spec.loader.exec_module(module)


def _run_in_python_2(folders):
    # type: (Any) -> None
    import imp

    try:
        found = imp.find_module("sitecustomize", folders)
    except ImportError:
        return
    # Python 2 would run it in the module of this file, and clears a module that nothing refers to.
    vars(sys)["dijob_sitecustomize"] = sys.modules.pop("sitecustomize")
    imp.load_module("sitecustomize", *found)  # type: ignore[arg-type]  # a file of Python 2


if sys.version_info >= OLDEST:
    sys.meta_path.insert(0, Finder)
run_the_images_own()
