"""`make demo`: starts a cluster, installs the operator with its chart, and trains a real DQN on
four pods.

The first run builds everything from source. Every step prints what it does, the elapsed time and
the expected total time. The cluster stays up at the end, so that you can inspect it.
"""

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from cluster import Cluster, ClusterError, Options, up
from cluster.shell import Progress

ROOT: Final = Path(__file__).parents[2]
EXAMPLE: Final = "cartpole-dqn"
IMAGES: Final = ("ditask", "launcher", "operator")
RETURN: Final = re.compile(r"Episode Return\(([-0-9.]+)\)")
TARGET: Final = 195.0
COLD_SECONDS, WARM_SECONDS = 560.0, 90.0
TRAINING_SECONDS: Final = 900.0
# In the example, rank 1 is DI-engine's evaluator (ding/example/dqn.py).
EVALUATOR: Final = f"{EXAMPLE}-1"


def main() -> int:
    """Exit code 0 if the job succeeds and the last return reaches the target, else 1."""
    begin = Progress(WARM_SECONDS if _is_warm() else COLD_SECONDS)
    try:
        begin.say(
            f"the programs of a test cluster, and the images {', '.join(IMAGES)} (~8 min the first"
            " time)"
        )
        with _programs():
            subprocess.run([sys.executable, ROOT / "images/build.py", *IMAGES], check=True)
        begin.say("a test cluster (kind if Docker is available, else two embedded nodes)")
        archives = tuple(_archive(image) for image in IMAGES)
        cluster = up(Options(images=archives))
        _install(cluster, begin)
        return _train(cluster, begin)
    except ClusterError as error:
        print(f"demo: {error}", file=sys.stderr)
        return 1
    except subprocess.CalledProcessError as error:
        print(f"demo: {error.cmd[0]} failed with exit code {error.returncode}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print(
            "demo: interrupted. The cluster may still be up; to remove it, run: make cluster-down",
            file=sys.stderr,
        )
        return 130


@contextmanager
def _programs() -> Iterator[None]:
    """Build the cluster's programs during the block."""
    argv = [sys.executable, "-m", "cluster", "build"]
    # The build runs in a separate session, so that Ctrl-C in a terminal interrupts it only once,
    # below.
    building = subprocess.Popen(argv, stdout=subprocess.DEVNULL, start_new_session=True)
    try:
        yield
    except BaseException:
        building.send_signal(signal.SIGINT)  # it stops the compiler, and removes its files
        building.wait()
        raise
    if building.wait():
        raise subprocess.CalledProcessError(building.returncode, ["python -m cluster build"])


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
    deployment = ["-n", "dijob-system", "get", "deployment", "dijob", "--ignore-not-found"]
    installed = cluster.run_kubectl(*deployment)
    subprocess.run(
        [str(cluster.helm), *helm, *flags], check=True, env=env, stdout=subprocess.DEVNULL
    )
    if not installed:
        return  # helm has waited for the operator
    # Restart the operator, because the image may be newer than the running one of the same name.
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
            f"demo: the job is {phase}, and the evaluator's returns are {returns}; the target is"
            f" {TARGET}",
            file=sys.stderr,
        )
        return 1
    print(
        f"from `kubectl logs {EVALUATOR}`: last Episode Return {returns[-1]:.1f} (target"
        f" {TARGET:.0f})"
    )
    progress.say("done. The cluster is still up. To inspect and then remove it, run:")
    print(
        '  eval "$(make -s cluster-env)"\n  kubectl describe dijob cartpole-dqn\n  make'
        " cluster-down"
    )
    return 0


def _follow(cluster: Cluster, progress: Progress) -> str:
    """Print changes to the job until it has ended, and return its last phase."""
    printed: set[str] = set()
    end = time.monotonic() + TRAINING_SECONDS
    while time.monotonic() < end:
        phase = cluster.run_kubectl("get", "dijob", EXAMPLE, "-o", "jsonpath={.status.phase}")
        conditions = cluster.run_kubectl("get", "dijob", EXAMPLE, "-o", _CONDITIONS).splitlines()
        news = [
            *conditions,
            *(f"evaluator: Episode Return {value:.1f}" for value in _returns(cluster)),
        ]
        for line in news:
            if line not in printed:
                printed.add(line)
                progress.say(line)
        if phase in ("Succeeded", "Failed"):
            return phase
        time.sleep(2)
    return "still running after 15 minutes"


_CONDITIONS: Final = (
    'jsonpath={range .status.conditions[*]}{.type}={.status} ({.reason}): {.message}{"\\n"}{end}'
)


def _returns(cluster: Cluster) -> list[float]:
    """Return the evaluator's results so far, from its log."""
    try:
        return [float(value) for value in RETURN.findall(cluster.run_kubectl("logs", EVALUATOR))]
    except ClusterError:
        return []  # its container does not exist yet


if __name__ == "__main__":
    sys.exit(main())
