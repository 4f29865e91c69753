"""Patch for DI-engine's compile_config (ding/config/config.py): a restarted training run resumes.

The pipelines of DI-engine (ding/entry/serial_entry*.py) and of LightZero (lzero/entry) call
compile_config, which appends a timestamp to the folder's name if the folder already exists. If
resume.py finds a folder of this run, the patch keeps it and sets the learner's option
load_ckpt_before_run. DI-engine then loads the policy and the iteration. The patch also
restores the environment step, because only some pipelines do so themselves.
"""

from __future__ import annotations

import atexit
import inspect
import os
import sys
import tempfile
import weakref
from contextlib import suppress
from functools import wraps
from pathlib import Path
from types import ModuleType
from typing import Any, Callable, Optional, Tuple

from dijob_runtime.messages import log_message
from dijob_runtime.resume import (
    ALWAYS,
    OFF,
    VARIABLE,
    describe_run,
    find_folder,
    find_mount,
    list_checkpoints,
    lock_folder,
    write_record,
)
from dijob_runtime.world import FOLDER

# Only these modules run the learner's hooks, which load the checkpoint. A program with its own loop
# might not load the checkpoint. Such a program therefore gets a new folder, as it would without
# this patch.
PIPELINES = ("ding.entry.serial_entry", "lzero.entry.train_")
# Trainable parts that are not in the learner's checkpoint.
NOT_SAVED = ("reward_model", "world_model")
PARAMETERS = ("cfg", "create_cfg", "seed", "save_cfg", "renew_dir")

# The folder to keep (None: use a new folder), and the checkpoint to load (None: load none).
Decision = Tuple[Optional[str], Optional[str]]

# The checkpoints that this process still has to load, by experiment name.
_to_load: dict[str, str] = {}
_collectors: list[Any] = []


def patch(module: ModuleType) -> None:
    """Wrap compile_config, the learner's hooks and the creation of collectors."""
    if os.environ.get(VARIABLE) == OFF or not (os.environ.get("DI_RANK") and FOLDER.is_dir()):
        return
    known: Any = module
    missing = set(PARAMETERS) - set(inspect.signature(known.compile_config).parameters)
    if missing:
        log_message(
            "a restarted training cannot resume with this version of DI-engine: compile_config has"
            f" no parameter {min(missing)}"
        )
        return
    _patch_learner(known.BaseLearner)
    _patch_collector(vars(sys.modules["ding.worker"])["ISerialCollector"])
    known.compile_config = _wrap_compile(known.compile_config)


def _wrap_compile(usual: Any) -> Any:
    signature = inspect.signature(usual)

    @wraps(usual)
    def compile_config(*args: Any, **kwargs: Any) -> Any:
        caller = str(sys._getframe(1).f_globals.get("__name__"))
        call = signature.bind(*args, **kwargs)
        call.apply_defaults()
        given = call.arguments
        if not caller.startswith(PIPELINES) or not given["save_cfg"] or _user_decides(given):
            return usual(*args, **kwargs)
        name = given["cfg"].setdefault("exp_name", "default_experiment")
        record = describe_run(given["cfg"], given["create_cfg"], given["seed"], os.environ)
        folder, checkpoint = _agree_on_decision(lambda: _try_to_decide(name, given, record))
        if folder is not None:
            given["cfg"]["exp_name"], given["renew_dir"] = folder, False
        made = usual(*call.args, **call.kwargs)
        given["cfg"]["exp_name"] = name
        if checkpoint is not None:
            made.policy.learn.learner.hook.load_ckpt_before_run = checkpoint
            _to_load[made.exp_name] = checkpoint
        if _di_engine().get_rank() == 0:
            _record_run(made.exp_name, record)
        return made

    return compile_config


def _user_decides(given: Any) -> bool:
    """Return whether the configuration itself states what to load.

    `resume_training=False` does not count: it is the default, and DI-engine's examples set it.
    """
    learn = given["cfg"].get("policy", {}).get("learn", {})
    hook = learn.get("learner", {}).get("hook", {})
    return (
        not given["renew_dir"]
        or bool(learn.get("resume_training"))
        or bool(hook.get("load_ckpt_before_run"))
    )


def _try_to_decide(name: str, given: Any, record: Any) -> Decision:
    """Return the decision, or start a new training run if an error occurs, for example on the
    volume.
    """
    try:
        return _decide(name, given, record)
    except Exception as error:
        log_message(f"{name} is not resumed, because of an unexpected error: {error!r}")
        return None, None


def _decide(name: str, given: Any, record: Any) -> Decision:
    """Make the decision in rank 0 of the training, which writes the checkpoints."""
    if not os.path.exists(name) or _find_mount(name) is None:
        return None, None
    unsaved = [part for part in (*given["cfg"], *given["create_cfg"]) if part.endswith(NOT_SAVED)]
    if unsaved:
        log_message(
            f"{name} is not resumed, because the learner's checkpoint does not contain the"
            f" {unsaved[0]}: DI-engine creates a new folder"
        )
        return None, None
    folder = find_folder(name, record, os.environ.get(VARIABLE) == ALWAYS)
    if folder is None:
        log_message(
            f"{name} is not resumed, because it belongs to another job, rank, process or"
            f" configuration: DI-engine creates a new folder ({VARIABLE}={ALWAYS} resumes it)"
        )
        return None, None
    return folder, _find_newest_complete(folder)


def _find_newest_complete(folder: str) -> str | None:
    skipped: list[str] = []
    found = None
    for path in list_checkpoints(f"./{folder}"):
        # DI-engine writes in place, so a process that is killed can leave a truncated file. The
        # errors of pickle, zipfile and torch have no common base class.
        with suppress(Exception):
            if "last_iter" in _di_engine().read_file(str(path)):
                found = os.path.abspath(path)
                break
        skipped.append(path.name)
    if skipped:
        log_message(f"skipped incomplete checkpoints in {folder}: {', '.join(skipped)}")
    if found is None:
        log_message(f"{folder} has no complete checkpoint: the training starts at iteration 0")
    return found


def _agree_on_decision(decide: Callable[[], Decision]) -> Decision:
    """Return the decision of rank 0, in every process of a DDP training run.

    Only rank 0 needs the volume. It sends the checkpoint's content to the other ranks, because DDP
    synchronizes the parameters only once, before the checkpoint is loaded.
    """
    if _di_engine().get_world_size() == 1:
        return decide()
    distributed = sys.modules["torch"].distributed
    first = _di_engine().get_rank() == 0
    box: list[Any] = [None]
    if first:
        folder, checkpoint = decide()
        box = [(folder, checkpoint, Path(checkpoint).read_bytes() if checkpoint else None)]
    distributed.broadcast_object_list(box, 0)
    folder, checkpoint, content = box[0]
    if content is not None and not first:
        checkpoint = _write_temporary_file(content)
    return folder, checkpoint


def _write_temporary_file(content: bytes) -> str:
    with tempfile.NamedTemporaryFile(suffix=".pth.tar", delete=False) as file:
        file.write(content)
    atexit.register(_remove_file, file.name)
    return file.name


def _remove_file(name: str) -> None:
    with suppress(OSError):
        os.unlink(name)


def _record_run(folder: str, record: Any) -> None:
    """Write the record that the next run uses to find this folder."""
    if _find_mount(folder) is None:
        return
    lock_folder(Path(folder))
    try:
        write_record(Path(folder), record)
    except OSError as error:
        log_message(f"a restart cannot resume this training: {error}")


def _find_mount(name: str) -> str | None:
    """Return the mount point above an experiment's checkpoints.

    DI-engine prepends "./" to the name, even to an absolute path.
    """
    return find_mount(Path(f"./{name}"), Path("/proc/self/mountinfo").read_text())


def _patch_learner(learner_class: Any) -> None:
    usual = learner_class.call_hook

    @wraps(usual)
    def call_hook(learner: Any, name: str) -> None:
        checkpoint = _to_load.pop(learner.exp_name, None) if name == "before_run" else None
        if checkpoint is None:
            usual(learner, name)
            return
        try:
            usual(learner, name)
        except Exception:
            log_message(
                f"{checkpoint} cannot be loaded: remove the folder {learner.exp_name}, or set"
                f" {VARIABLE}={OFF}"
            )
            raise
        # DI-engine before 0.5.3 does not save the environment step.
        step = getattr(learner, "collector_envstep", 0)
        _set_environment_step(learner.exp_name, step)
        if learner.rank == 0:
            log_message(
                f"resumes {learner.exp_name} at iteration {learner.train_iter}, environment step"
                f" {step}, from {os.path.basename(checkpoint)}"
            )

    learner_class.call_hook = call_hook


def _patch_collector(collector_class: Any) -> None:
    def create(cls: Any, *_: Any, **__: Any) -> Any:
        made = object.__new__(cls)
        _collectors.append(weakref.ref(made))
        return made

    collector_class.__new__ = create


def _set_environment_step(experiment: str, step: int) -> None:
    for reference in _collectors:
        collector = reference()
        if getattr(collector, "_exp_name", None) == experiment:
            # LightZero's collectors have no setter.
            collector._total_envstep_count = step


def _di_engine() -> Any:
    return sys.modules["ding.utils"]
