"""DDP over NCCL on one GPU: an all-reduce, and 20 steps of a model."""

import os

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group("nccl")
device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
torch.cuda.set_device(device)
total = torch.ones(1 << 20, device=device)
dist.all_reduce(total)
assert int(total[0]) == dist.get_world_size()
model = DistributedDataParallel(torch.nn.Linear(64, 8).to(device), device_ids=[device.index])
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
losses = []
for _ in range(20):
    optimizer.zero_grad()
    loss = model(torch.ones(16, 64, device=device)).square().mean()
    loss.backward()
    optimizer.step()
    losses.append(float(loss))
assert losses[-1] < losses[0]
version = ".".join(map(str, torch.cuda.nccl.version()))
print(f"NCCL {version}, world {dist.get_world_size()}: loss {losses[0]:.3f} -> {losses[-1]:.2e}")
dist.destroy_process_group()
