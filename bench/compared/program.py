"""The two programs that every entrant runs: a torch.distributed group, and DI-engine's DQN."""

from dataclasses import dataclass
from pathlib import Path

import yaml
from archives import ROOT

CODE, STATE = "/code", "/state"
RANKS = 4
# The first line of each user's script. It records when the container began, which is a separate
# figure.
BEGIN = "export BEGUN=$(date +%s.%N)"
# The wait for DNS, for programs that do not retry a name that does not exist yet. `$1` is a
# comma-separated list.
AWAIT = """await() {
  for name in ${1//,/ }; do until getent hosts $name >/dev/null; do sleep 0.2; done; done
}"""


@dataclass(frozen=True)
class Program:
    """Files of a ConfigMap, and the shell command that runs them.

    The program gets its peers from torch's variables if `torch` is set, else from DI_RANK and
    DI_NODES, as `ditask --platform k8s` does. A group of torch restarts as a whole.
    """

    name: str
    files: dict[str, str]
    command: str
    torch: bool


CONNECTED = Program(
    "connected",
    {"connected_py": (Path(__file__).parent / "connected.py").read_text()},
    f"exec python3 {CODE}/connected.py",
    torch=True,
)


def dqn() -> Program:
    """Return the DQN of examples/cartpole-tasks.yaml. The learner keeps its state on a volume, and
    resumes from there.
    """
    _, code = yaml.safe_load_all((ROOT / "examples/cartpole-tasks.yaml").read_text())
    # The entrants have different kinds of tasks, so here the role follows from the rank.
    command = f"""roles=(learner evaluator collector collector)
role=${{roles[DI_RANK]}}
echo "role $role rank $DI_RANK"
if [ "$role" = learner ]; then cd {STATE}; else cd "$(mktemp -d)"; fi
exec ditask $PLATFORM --package {CODE} --main train.main --topology mesh --parallel-workers 1 \\
  --labels "$role\""""
    return Program("dqn", {"train_py": code["data"]["train.py"]}, command, torch=False)


@dataclass(frozen=True)
class Work:
    """A job to start: its name, its program, and the folder in which the program keeps its
    state.
    """

    name: str
    program: Program
    state: str
