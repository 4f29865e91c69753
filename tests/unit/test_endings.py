"""The words for the end of a process: what it exited with, and the line of its output that says
why.
"""

import pytest
from dijob.core.observed.endings import headline, how_it_ended

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
# As torch 2 prints it.
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
HEADLINES = {
    "torchrun": (
        TORCHRUN,
        "torchrun's local rank 2 exited -9, whose own words stand further up in the log",
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
    "words after a traceback": (
        TRACEBACK + "wandb: run saved\n",
        "ModuleNotFoundError: No module named 'mymod'",
    ),
    "the last of two tracebacks": (CHAINED, "RuntimeError: CUDA error: out of memory"),
    "a traceback whose header is cut off": (
        TRACEBACK.split("\n", 2)[2],
        "ModuleNotFoundError: No module named 'mymod'",
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
    assert headline(text) == line


ENDS = {
    "exit code": (
        (1, 0, "Error", TRACEBACK),
        "exited 1: ModuleNotFoundError: No module named 'mymod'",
    ),
    "no output": ((3, 0, "Error", ""), "exited 3"),
    "a signal": ((137, 9, "Error", "saving"), "was ended by SIGKILL: saving"),
    "no such signal": ((228, 100, "Error", ""), "was ended by signal 100"),
    "out of memory": ((137, 9, "OOMKilled", ""), "ran out of memory (OOMKilled)"),
    "no container": (
        (None, None, "Evicted", "The node was low on disk"),
        "failed (Evicted): The node was low on disk",
    ),
    "nothing is known": ((None, None, "", ""), "failed"),
}


@pytest.mark.parametrize(("end", "words"), ENDS.values(), ids=ENDS)
def test_the_words_of_an_end(end: tuple[int | None, int | None, str, str], words: str) -> None:
    assert how_it_ended(*end) == words
