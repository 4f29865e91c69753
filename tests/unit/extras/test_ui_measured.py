"""What `ui --measure` reads in the containers of a job."""

from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest
from dijob_extras.ui.measured import GpuUse, Measurement, compute_use, read_measurement
from dijob_extras.ui.usage import Use, add_measured, describe_use
from unit.extras.seen import pod

GIB = 2**30
V2 = f"""# cpu.stat
usage_usec 90500000
user_usec 80000000
# memory.current
{3 * GIB}
# memory.stat
anon 123
inactive_file {GIB}
"""
V1 = f"""# cpuacct/cpuacct.usage
90500000000
# memory/memory.usage_in_bytes
{3 * GIB}
# memory/memory.stat
inactive_file 1
total_inactive_file {GIB}
"""
GPUS = """# gpus
83, 12288, 143771
0, 1, 143771
"""


@pytest.mark.parametrize("text", [V2, V1], ids=["cgroup v2", "cgroup v1"])
def test_cgroup_files_give_cpu_and_memory_without_the_file_cache(text: str) -> None:
    found = read_measurement(text + GPUS, 5.0)
    gpus = tuple(
        GpuUse(busy, Decimal(used * 2**20), Decimal(143771 * 2**20))
        for busy, used in ((83, 12288), (0, 1))
    )
    assert found == Measurement(5.0, Decimal("90.5"), Decimal(2 * GIB), gpus)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "no section\n",
        "# cpu.stat\nusage_usec\n# memory.current\nmax\n",
        "# cpu.stat\nusage_usec -1\n# memory.current\n1e9\n",
        f"# memory.current\n{'9' * 5000}\n",
        "# gpus\nFailed to initialize NVML: Driver/library version mismatch\n",
        "# gpus\n[N/A], 1, 2\n",
    ],
    ids=["nothing", "no section", "no values", "negative", "huge", "no driver", "no figure"],
)
def test_text_of_a_container_that_is_no_measurement_is_ignored(text: str) -> None:
    assert read_measurement(text, 5.0) == Measurement(5.0)


@pytest.mark.parametrize(
    ("before", "cpu"),
    [
        (None, None),
        (Measurement(0.0, Decimal(60)), Decimal("3.05")),
        (Measurement(0.0, Decimal(91)), None),
        (Measurement(10.0, Decimal(90)), None),
        (Measurement(0.0), None),
    ],
    ids=["the first", "the second", "it has restarted", "at the same time", "no figure"],
)
def test_cpus_are_the_difference_of_two_measurements(
    before: Measurement | None, cpu: Decimal | None
) -> None:
    found = compute_use(Measurement(10.0, Decimal("90.5")), before)
    assert found.get("cpu") == cpu


def test_the_numbers_of_the_metrics_api_take_precedence_and_get_the_gpus() -> None:
    pods = [pod(0), pod(1), pod(2)]
    known = {"test-0/di-container": Use({"cpu": Decimal(1)})}
    gpu = GpuUse(50, Decimal(GIB), Decimal(2 * GIB))
    now = {f"test-{rank}": Measurement(5.0, None, Decimal(GIB), (gpu,)) for rank in (0, 1)}
    assert add_measured(known, pods, now, {}) == {
        "test-0/di-container": Use({"cpu": Decimal(1)}, (gpu,)),
        "test-1/di-container": Use({"memory": Decimal(GIB)}, (gpu,)),
    }


@pytest.mark.parametrize(
    ("gpus", "text"),
    [
        (1, "memory 1Gi, GPU 83 %, 12Gi of 80Gi"),
        (2, "memory 1Gi, GPU 0 83 %, 12Gi of 80Gi, GPU 1 83 %, 12Gi of 80Gi"),
    ],
)
def test_each_gpu_of_a_rank_is_shown(gpus: int, text: str) -> None:
    one = GpuUse(83, Decimal(12 * GIB), Decimal(80 * GIB))
    use: dict[str, Any] = {"test-0/di-container": Use({"memory": Decimal(GIB)}, (one,) * gpus)}
    found = pod(0)
    spec = {"containers": [{"name": "di-container", "resources": {}}]}
    assert describe_use(replace(found, body={**found.body, "spec": spec}), use) == text
