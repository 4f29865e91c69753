"""`make demo`: a cluster, the images, the operator by its chart, and a real DQN that trains on four
pods.

Everything is built from source the first time; every step says what it does, how long it has taken
and how long all of it takes. The cluster stays up at the end, to be looked at.
"""

import os
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import Final

from cluster import Cluster, ClusterError, Options, up
from cluster.shell import Progress

ROOT: Final = Path(__file__).parents[2]
EXAMPLE: Final = "cartpole-dqn"
IMAGES: Final = ("ditask", "launcher", "operator")
RETURN: Final = re.compile(r"Episode Return\(([-0-9.]+)\)")
TARGET: Final = 195.0
COLD_SECONDS, WARM_SECONDS = 1500.0, 300.0
TRAINING_SECONDS: Final = 900.0
# The example's rank 1 is DI-engine's evaluator (ding/example/dqn.py).
EVALUATOR: Final = f"{EXAMPLE}-1"


def main() -> int:
    """0 when the job has succeeded and the evaluator's last return reached the target."""
    begin = Progress(WARM_SECONDS if _is_warm() else COLD_SECONDS)
    try:
        begin.say(f"images {', '.join(IMAGES)} (built once, ~9 min)")
        subprocess.run([sys.executable, ROOT / "images/build.py", *IMAGES], check=True)
        begin.say(
            "a test cluster (kind where Docker answers, else one built from Go modules: ~8 min"
            " once)"
        )
        archives = tuple(_archive(image) for image in IMAGES)
        cluster = up(Options(images=archives))
        _install(cluster, begin)
        return _train(cluster, begin)
    except ClusterError as error:
        print(f"demo: {error}", file=sys.stderr)
        return 1
    except subprocess.CalledProcessError as error:
        print(f"demo: {error.cmd[0]} ended with exit code {error.returncode}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("demo: interrupted. The cluster may still be up: make cluster-down", file=sys.stderr)
        return 130


def _is_warm() -> bool:
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "dijob"
    return any(cache.glob("bin-*")) and any((cache / "images").glob("ditask-*.tar"))


def _archive(image: str) -> Path:
    printed = subprocess.run(
        [sys.executable, ROOT / "images/build.py", "--print", image],
        check=True,
        capture_output=True,
        text=True,
    )
    return Path(printed.stdout.strip())


def _install(cluster: Cluster, progress: Progress) -> None:
    progress.say("helm install dijob charts/dijob")
    helm = [
        "upgrade",
        "--install",
        "dijob",
        str(ROOT / "charts/dijob"),
        "--namespace",
        "dijob-system",
    ]
    flags = ["--create-namespace", "--wait", "--timeout", "3m"]
    env = {**os.environ, **cluster.env()}
    subprocess.run(
        [str(cluster.helm), *helm, *flags], check=True, env=env, stdout=subprocess.DEVNULL
    )
    # An image of the same name may be newer than the one that runs.
    cluster.run_kubectl("-n", "dijob-system", "rollout", "restart", "deployment")
    cluster.run_kubectl(
        "-n", "dijob-system", "rollout", "status", "deployment", "--timeout=120s", timeout=130
    )


def _train(cluster: Cluster, progress: Progress) -> int:
    cluster.run_kubectl("delete", "dijob", EXAMPLE, "--ignore-not-found")
    progress.say(f"kubectl apply -f examples/{EXAMPLE}.yaml")
    cluster.run_kubectl("apply", "-f", str(ROOT / f"examples/{EXAMPLE}.yaml"))
    phase = _follow(cluster, progress)
    print(cluster.run_kubectl("get", "dijob,pods", "-o", "wide"))
    returns = _returns(cluster)
    if phase != "Succeeded" or not returns or returns[-1] < TARGET:
        print(cluster.run_kubectl("describe", "dijob", EXAMPLE))
        print(
            f"demo: the job is {phase}, the evaluator's returns were {returns}; {TARGET} was"
            " wanted",
            file=sys.stderr,
        )
        return 1
    print(
        f"from `kubectl logs {EVALUATOR}`: last Episode Return {returns[-1]:.1f} (target"
        f" {TARGET:.0f})"
    )
    progress.say("done. The cluster is still up; look around, and take it down when you like:")
    print(
        '  eval "$(make -s cluster-env)"\n  kubectl describe dijob cartpole-dqn\n  make'
        " cluster-down"
    )
    return 0


def _follow(cluster: Cluster, progress: Progress) -> str:
    """Say what is new about the job until it has ended; its last phase."""
    said: set[str] = set()
    end = time.monotonic() + TRAINING_SECONDS
    while time.monotonic() < end:
        phase = cluster.run_kubectl("get", "dijob", EXAMPLE, "-o", "jsonpath={.status.phase}")
        conditions = cluster.run_kubectl("get", "dijob", EXAMPLE, "-o", _CONDITIONS).splitlines()
        news = [
            *conditions,
            *(f"evaluator: Episode Return {value:.1f}" for value in _returns(cluster)),
        ]
        for line in news:
            if line not in said:
                said.add(line)
                progress.say(line)
        if phase in ("Succeeded", "Failed"):
            return phase
        time.sleep(2)
    return "still not ended after 15 minutes"


_CONDITIONS: Final = (
    'jsonpath={range .status.conditions[*]}{.type}={.status} ({.reason}): {.message}{"\\n"}{end}'
)


def _returns(cluster: Cluster) -> list[float]:
    """What the evaluator has measured so far, from its own log."""
    try:
        return [float(value) for value in RETURN.findall(cluster.run_kubectl("logs", EVALUATOR))]
    except ClusterError:
        return []  # its container is not there yet


if __name__ == "__main__":
    sys.exit(main())
