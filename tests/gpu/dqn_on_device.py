"""DI-engine's own DQN example (ding/example/dqn.py) with its policy on the GPU, or on the CPU in a
rehearsal (run.sh --cpu).
"""

import os

import torch
from ding.example import dqn
from dizoo.classic_control.cartpole.config.cartpole_dqn_config import main_config

main_config.policy.cuda = os.environ.get("GPU_CHECKS_DEVICE") != "cpu"


def main() -> None:
    dqn.main()
    if main_config.policy.cuda:
        used = torch.cuda.max_memory_allocated() / 2**20
        print(f"GPU memory at most {used:.0f} MB", flush=True)
