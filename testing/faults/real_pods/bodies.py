"""The manifests of the jobs: light peers, real DI-engine over Redis, and torchrun."""

from collections.abc import Iterable

from jobs import Body, job, peers, program
from node_loss import placed

from faults.real_pods.shapes import Shape, Wiring

# Kubernetes evicts the pods 2 s after it has noticed that a node is lost. This keeps a wave short.
LOST_NODE_SECONDS = 2

# In both programs, a rank touches a file when it has exchanged data with all other ranks
# (looks.BEAT). A program that is merely running proves nothing.
TICKS = """
import pathlib, time
from ding.framework import task
from ding.framework.context import OnlineRLContext

def main():
    with task.start(async_mode=False, ctx=OnlineRLContext()):
        me, heard = task.router.node_id, {}
        task.on("tick", lambda node: heard.__setitem__(node, time.monotonic()))
        while True:
            try:
                task.emit("tick", me)
            except Exception as error:
                print("not sent:", error)
            if all(time.monotonic() - heard.get(node, -9) < 1.5 for node in range(2)):
                pathlib.Path("/tmp/beat").touch()
            time.sleep(0.2)
"""
SUMS = """
import pathlib, time
import torch
import torch.distributed as dist

dist.init_process_group("gloo")
while True:
    dist.all_reduce(torch.ones(1))
    pathlib.Path("/tmp/beat").touch()
    time.sleep(0.2)
"""


def bodies(shape: Shape) -> list[Body]:
    """Return the objects of one job."""
    spec = {"backoffLimit": shape.backoff_limit, "lostNodeSeconds": LOST_NODE_SECONDS}
    size = len(shape.pods)
    if shape.wiring is Wiring.REDIS:
        command = ["ditask", "--package", "/code", "--main", "main.main"]
        made = program(shape.name, command, TICKS, replicas=size, messageQueue={"type": "redis"})
    elif shape.wiring is Wiring.TORCH:
        made = program(shape.name, ["torchrun", "main.py"], SUMS, replicas=size, runtime="torch")
    elif shape.pods[0] == f"{shape.name}-0":
        made = [peers(shape.name, "--forever", replicas=size, topology=shape.wiring.value)]
    else:
        made = [_with_tasks(shape)]
    whole = made[-1]["spec"]
    whole |= spec
    # Spread the pods across the nodes, so that some ranks survive the loss of a node.
    for template in (whole, *whole.get("tasks", ())):
        if "template" in template:
            template["template"]["spec"] |= placed(shape.name)
    return made


def _with_tasks(shape: Shape) -> Body:
    made = job(shape.name, {"command": ["light-peer", "--forever"]})
    template = made["spec"].pop("template")
    made["spec"].pop("replicas")
    kinds = [pod.split("-")[1] for pod in shape.pods]
    made["spec"]["tasks"] = [
        {
            "type": kind,
            "replicas": kinds.count(kind),
            "template": {"spec": {**template["spec"]}},
        }
        for kind in dict.fromkeys(kinds)
    ]
    return made


def all_bodies(shapes: Iterable[Shape]) -> list[Body]:
    """Return the objects of all jobs."""
    return [body for shape in shapes for body in bodies(shape)]
