"""DI-engine's own DQN example (ding/example/dqn.py) with its policy on the GPU."""

import torch
from ding.example import dqn
from dizoo.classic_control.cartpole.config.cartpole_dqn_config import main_config

main_config.policy.cuda = True


def main() -> None:
    dqn.main()
    used = torch.cuda.max_memory_allocated() / 2**20
    print(f"GPU memory at most {used:.0f} MB", flush=True)
