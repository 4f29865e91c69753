"""Runs the operator, and records the duration of each reconciliation in seconds, one per line:
python -m faults.lab.passes FILE dijob ARGS.
"""

import runpy
import sys
from typing import Any

from dijob.controller import metrics


def main() -> None:
    """Install the recorder and run the operator."""
    file, module = sys.argv[1:3]
    out, observe = open(file, "a", buffering=1), metrics.RECONCILE_SECONDS.observe  # noqa: SIM115

    def noted(seconds: float, *more: Any) -> None:
        out.write(f"{seconds:.6f}\n")
        observe(seconds, *more)

    metrics.RECONCILE_SECONDS.observe = noted  # type: ignore[method-assign,assignment]
    sys.argv[:] = sys.argv[2:]
    runpy.run_module(module, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
