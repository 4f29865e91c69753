"""Installs the import hook that makes DI-engine join its job, in each Python process of a pod.

Python imports this module when it starts, because the launcher prepends this directory to
PYTHONPATH. The hook waits until a program imports one of the modules in PATCHES, and then applies
the patch for it. An import hook works for programs that the launcher does not start itself: scripts
that run through a shell, in a venv, or in child processes. Finally, this module runs the image's
own sitecustomize, which is hidden by this module.

Most Python processes never import DI-engine, so this module must start fast. It imports only what
Python has already imported.

The image may also have an older Python (for example a tool's 2.7 or a distribution's 3.6). Such a
Python cannot run DI-engine, so this module then only runs the image's own sitecustomize. This file
is valid Python 2.7, with types in comments, so that an older Python can import it.
"""

import sys

# The oldest Python version that DI-engine and dijob_runtime support.
OLDEST = (3, 7)
if sys.version_info >= (3, 4):
    from importlib.machinery import PathFinder

TYPE_CHECKING = False
if TYPE_CHECKING:  # not at run time: importing typing takes milliseconds
    from importlib.machinery import ModuleSpec
    from types import ModuleType
    from typing import Any, Optional, Sequence

# For each module that is patched on import: the module that contains its `patch` function. A patch
# is imported only when it is needed, so that other programs start fast.
PATCHES = {
    "ding.entry.cli_ditask": "dijob_runtime.hook.ditask",
    "ding.framework.task": "dijob_runtime.hook.task",
    "ding.framework.parallel": "dijob_runtime.hook.parallel",
    "ding.framework.middleware.distributer": "dijob_runtime.hook.distributer",
    "ding.framework.middleware.functional.data_processor": "dijob_runtime.hook.fetcher",
    "ding.framework.middleware.functional.evaluator": "dijob_runtime.hook.pipelines",
    "ding.framework.middleware.functional.trainer": "dijob_runtime.hook.pipelines",
    "ding.envs.env_manager.base_env_manager": "dijob_runtime.hook.environments",
    "ding.envs.env_manager.subprocess_env_manager": "dijob_runtime.hook.environments",
    "ding.utils.log_helper": "dijob_runtime.hook.tables",
    "ding.worker.learner.base_learner": "dijob_runtime.hook.learner",
    "ding.framework.message_queue.nng": "dijob_runtime.hook.nng",
    "ding.framework.message_queue.redis": "dijob_runtime.hook.redis",
    "ding.utils": "dijob_runtime.hook.dist_context",
    "ding.utils.pytorch_ddp_dist_helper": "dijob_runtime.hook.ddp",
    "ding.worker.learner.learner_hook": "dijob_runtime.hook.learner_hook",
    "ding.framework.middleware.functional.termination_checker": (
        "dijob_runtime.hook.termination_checker"
    ),
    "ding.config.config": "dijob_runtime.hook.resume",
    "mpire.worker": "dijob_runtime.hook.mpire",
    "ding": "dijob_runtime.hook.quiet",
    "gym.logger": "dijob_runtime.hook.quiet",
    "gym_notices.notices": "dijob_runtime.hook.quiet",
}

# Maps each module that needs preparation to the module whose `prepare` function runs first.
PREPARED = {"ding": "dijob_runtime.hook.compat"}


class Finder:
    """Finds the modules in PATCHES and PREPARED, and wraps their loaders in Patching."""

    @staticmethod
    def find_spec(name, path=None, target=None):
        # type: (str, Optional[Sequence[str]], Optional[ModuleType]) -> Optional[ModuleSpec]
        patch, prepared = PATCHES.get(name), PREPARED.get(name)
        if patch is None and prepared is None:
            return None
        spec = PathFinder.find_spec(name, path, target)
        if spec is not None and spec.loader is not None:
            spec.loader = Patching(spec.loader, patch, prepared)  # type: ignore[assignment]
        return spec


class Patching:
    """Wraps a module's own loader, and runs the hook's code before or after the module."""

    def __init__(self, loader, patch, prepared):
        # type: (Any, Optional[str], Optional[str]) -> None
        self._loader = loader
        self._patch = patch
        self._prepared = prepared

    def __getattr__(self, name):
        # type: (str) -> Any
        """Delegate get_source and other attributes to the wrapped loader, for tracebacks and
        inspect.
        """
        return getattr(self._loader, name)

    def create_module(self, spec):
        # type: (ModuleSpec) -> Optional[ModuleType]
        return self._loader.create_module(spec)  # type: ignore[no-any-return]

    def exec_module(self, module):
        # type: (ModuleType) -> None
        if self._prepared is not None:
            _call(self._prepared, "prepare", module)
        self._loader.exec_module(module)
        if self._patch is not None:
            _call(self._patch, "patch", module)


def _call(name, function, module):
    # type: (str, str, ModuleType) -> None
    """Import a module of the hook and call its function."""
    try:
        __import__(name)
        found = getattr(sys.modules[name], function)
        found(module) if function == "patch" else found()
    except Exception as error:
        # The hook does not fit the installed version of the module. The program must still run as
        # it would without this hook, so the import does not fail.
        text = (
            "dijob: WARNING: unsupported version of %s, so this rank might not join its job: %r\n"
        )
        sys.stderr.write(text % (module.__name__, error))


def run_the_images_own():
    # type: () -> None
    """Run the sitecustomize that Python would have imported without this one."""
    here = __file__.rpartition("/")[0]
    others = [path for path in sys.path if path.rstrip("/") != here]
    if sys.version_info < (3, 4):
        _run_in_python_2(others)
        return
    spec = PathFinder.find_spec("sitecustomize", others)
    if spec is None or spec.loader is None:
        return
    # sys.modules must contain the image's module instead of this one, as it does without the
    # launcher.
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
    # Remove this module from sys.modules first, because Python 2 would otherwise execute the other
    # file in this module's namespace. Keep a reference to this module, because Python 2 clears the
    # globals of a module that has no references.
    vars(sys)["dijob_sitecustomize"] = sys.modules.pop("sitecustomize")
    imp.load_module("sitecustomize", *found)  # type: ignore[arg-type]  # a Python 2 file object


if sys.version_info >= OLDEST:
    sys.meta_path.insert(0, Finder)
run_the_images_own()
