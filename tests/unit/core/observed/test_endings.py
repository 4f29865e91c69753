"""Descriptions of how a process ended: its exit code, and the line of its output that says why."""

import pytest
from dijob.core.observed.endings import find_headline, how_it_ended

TRACEBACK = """\
Traceback (most recent call last):
  File "/app/train.py", line 3, in <module>
    import mymod
    ^^^^^^^^^^^^
ModuleNotFoundError: No module named 'mymod'
"""
CHAINED = (
    TRACEBACK
    + """
During handling of the above exception, another exception occurred:

Traceback (most recent call last):
  File "/app/train.py", line 5, in <module>
    raise RuntimeError("CUDA error: out of memory\\nCompile with TORCH_USE_CUDA_DSA")
RuntimeError: CUDA error: out of memory
Compile with TORCH_USE_CUDA_DSA
"""
)
GROUP = """\
  + Exception Group Traceback (most recent call last):
  |   File "/app/a.py", line 1, in <module>
  |     raise ExceptionGroup("several", [ValueError("a")])
  | ExceptionGroup: several (1 sub-exception)
  +-+---------------- 1 ----------------
    | ValueError: a
    +------------------------------------
"""
# The output of torch 2.
TORCHRUN = """\
orch.distributed.elastic.multiprocessing.errors.ChildFailedError:
============================================================
main.py FAILED
------------------------------------------------------------
Failures:
[1]:
  time      : 2026-11-23_07:15:00
  host      : pong-0.pong.team-a.svc.cluster.local
  rank      : 1 (local_rank: 1)
  exitcode  : 1 (pid: 19)
  error_file: <N/A>
  traceback : To enable traceback see: https://pytorch.org/docs/stable/elastic/errors.html
------------------------------------------------------------
Root Cause (first observed failure):
[0]:
  time      : 2026-11-23_07:15:00
  host      : pong-0.pong.team-a.svc.cluster.local
  rank      : 2 (local_rank: 2)
  exitcode  : -9 (pid: 18)
  error_file: <N/A>
  traceback : To enable traceback see: https://pytorch.org/docs/stable/elastic/errors.html
============================================================
"""
# DI-engine's table at its full width, and cut off at its beginning as a termination message is.
TABLE = """\
+-------+--------------+---------------+
| Name  | cur_lr_avg   | total_loss_avg |
+-------+--------------+---------------+
| Value | 0.133523     | 4.918861      |
+-------+--------------+---------------+
"""
CUT_ROW = "Value | 0.133523     | 4.918861      | 4.687330"
WARNINGS = """\
/usr/lib/python3.11/site-packages/numba/core.py:12: NumbaDeprecationWarning: no longer supported
  from numba import jit
WARNING:root:If you want to use numba to speed up segment tree, please install numba first
Gym has been unmaintained since 2022 and does not support NumPy 2.0 amongst other critical things.
Please upgrade to Gymnasium, the maintained drop-in replacement of Gym, or contact the authors.
/usr/lib/python3.8/multiprocessing/resource_tracker.py:216: UserWarning: resource_tracker: leaked
  warnings.warn('resource_tracker: There appear to be %d'
"""
LOGURU = "2026-11-26 10:00:00.000 | ERROR    | train:main:12 - no GPU found"
HEADLINES = {
    "C13: a table": ("no GPU found\n" + TABLE, "no GPU found"),
    "C13: a table alone": (TABLE, ""),
    "C13: a row that was cut": (f"no GPU found\n{CUT_ROW}\n+---", "no GPU found"),
    "C13: a table in Unicode": ("no GPU found\n│ loss │ 0.1 │\n", "no GPU found"),
    "C13: warnings of libraries": ("no GPU found\n" + WARNINGS, "no GPU found"),
    "C13: warnings alone": (WARNINGS, ""),
    "an error with bars": (LOGURU, LOGURU),
    "an error about an operator": (
        "TypeError: unsupported operand type(s) for |: 'int' and 'str'",
        "TypeError: unsupported operand type(s) for |: 'int' and 'str'",
    ),
    "torchrun": (
        TORCHRUN,
        "torchrun's local rank 2 exited -9, and the error of that process is further up in the log",
    ),
    "nothing": ("", ""),
    "blank lines": ("\n \n", ""),
    "one line": ("no GPU found\n", "no GPU found"),
    "the last of some lines": ("step 1\nstep 2\nkilled by me\n\n", "killed by me"),
    "marks under the place of an error": (
        "sh: bad substitution\n    ^^^^^\n-----\n",
        "sh: bad substitution",
    ),
    "a traceback": (TRACEBACK, "ModuleNotFoundError: No module named 'mymod'"),
    "output after a traceback": (
        TRACEBACK + "wandb: run saved\n",
        "ModuleNotFoundError: No module named 'mymod'",
    ),
    "the last of two tracebacks": (CHAINED, "RuntimeError: CUDA error: out of memory"),
    "a traceback whose header is cut off": (
        TRACEBACK.split("\n", 2)[2],
        "ModuleNotFoundError: No module named 'mymod'",
    ),
    "an exception of several lines whose header is cut off": (
        '  File "main.py", line 18, in train\nRuntimeError: no reward;\n  keys: obs\n',
        "RuntimeError: no reward;",
    ),
    "a traceback whose end is cut off": (
        "Traceback (most recent call last):\n  File 'x'\n",
        "  File 'x'".strip(),
    ),
    "a group": (GROUP, "ValueError: a"),
    "a long line": ("x" * 999, "x" * 196 + " ..."),
    "another alphabet": ("内存不足\n", "内存不足"),
}


@pytest.mark.parametrize(("text", "line"), HEADLINES.values(), ids=HEADLINES)
def test_the_headline_of_an_output(text: str, line: str) -> None:
    assert find_headline(text) == line


ENDS = {
    "exit code": (
        (1, 0, "Error", TRACEBACK),
        "exited 1: ModuleNotFoundError: No module named 'mymod'",
    ),
    "no output": ((3, 0, "Error", ""), "exited 3"),
    "C13: a healthy program": ((137, 9, "Error", "saving"), "was killed by SIGKILL"),
    "a program that had failed": (
        (143, 15, "Error", TRACEBACK),
        "was killed by SIGTERM: ModuleNotFoundError: No module named 'mymod'",
    ),
    "a program that fell": (
        (139, 11, "Error", "Fatal Python error: Segmentation fault"),
        "was killed by SIGSEGV: Fatal Python error: Segmentation fault",
    ),
    "no such signal": ((228, 100, "Error", ""), "was killed by signal 100"),
    "out of memory": ((137, 9, "OOMKilled", "step 7"), "ran out of memory (OOMKilled)"),
    "no container": (
        (None, None, "Evicted", "The node was low on disk"),
        "failed (Evicted): The node was low on disk",
    ),
    "nothing is known": ((None, None, "", ""), "failed"),
}


def test_a_cause_that_the_cluster_reports_is_named() -> None:
    """C13, H11."""
    limit = "the container's memory limit is 2Gi"
    assert how_it_ended(137, 9, "OOMKilled", "step 7", limit) == (
        f"ran out of memory (OOMKilled: {limit})"
    )
    probe = "its liveness probe failed: HTTP probe failed with statuscode: 500"
    assert how_it_ended(143, 15, "Error", "step 7", probe) == f"was killed by the kubelet: {probe}"


@pytest.mark.parametrize(("end", "words"), ENDS.values(), ids=ENDS)
def test_the_description_of_an_end(
    end: tuple[int | None, int | None, str, str], words: str
) -> None:
    assert how_it_ended(*end) == words
