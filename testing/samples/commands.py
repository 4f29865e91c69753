"""Main containers that run a bash script, or a command given as a list of words."""

from typing import Any

SEED = "ditask --package my_module --main my_module.main --parallel-workers 2\n"


def bash(script: str, *options: str) -> dict[str, Any]:
    return {
        "name": "di-container",
        "command": ["/bin/bash", *(options or ("-c",))],
        "args": [script],
    }


def argv(*words: str) -> dict[str, Any]:
    return {"name": "di-container", "command": list(words)}
