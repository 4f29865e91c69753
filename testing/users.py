"""Kubeconfigs of users with few permissions."""

import json
from collections.abc import Callable
from pathlib import Path


def write_kubeconfig(kubectl: Callable[..., str], token: str, path: Path) -> Path:
    """Write the kubeconfig that `kubectl` uses, with this token as the only credential."""
    config = json.loads(kubectl("config", "view", "--raw", "--flatten", "-o", "json"))
    config["users"][0]["user"] = {"token": token.strip()}
    path.write_text(json.dumps(config))
    return path
