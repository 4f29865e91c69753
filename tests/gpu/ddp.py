"""DDP on one GPU: an all-reduce over NCCL, and 20 steps of a model. In a rehearsal (run.sh --cpu),
the same over gloo on the CPU.
"""

import os

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

backend = "gloo" if os.environ.get("GPU_CHECKS_DEVICE") == "cpu" else "nccl"
dist.init_process_group(backend)
device = torch.device("cpu")
if backend == "nccl":
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
    torch.cuda.set_device(device)
total = torch.ones(1 << 20, device=device)
dist.all_reduce(total)
assert int(total[0]) == dist.get_world_size()
own = None if device.index is None else [device.index]
model = DistributedDataParallel(torch.nn.Linear(64, 8).to(device), device_ids=own)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
losses = []
for _ in range(20):
    optimizer.zero_grad()
    loss = model(torch.ones(16, 64, device=device)).square().mean()
    loss.backward()
    optimizer.step()
    losses.append(float(loss))
assert losses[-1] < losses[0]
name = "gloo"
if backend == "nccl":
    name = "NCCL " + ".".join(map(str, torch.cuda.nccl.version()))
print(
    f"{name}, world {dist.get_world_size()}: 20 steps, loss {losses[0]:.3f} -> {losses[-1]:.2e}",
    flush=True,
)
dist.destroy_process_group()
