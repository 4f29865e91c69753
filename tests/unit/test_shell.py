"""The shell on a simulated cluster: what its passes make of what the apiserver says."""

import pytest
from dijob import names
from unit.builders import job_body
from unit.simulated import simulated

pytestmark = pytest.mark.virtual_time


async def test_a_job_starts() -> None:
    async with simulated(job_body()) as world:
        await world.settle()
        assert world.cluster.job().status.phase == "Running"
        assert world.cluster.names_of("pods") == {"job-0", "job-1", "job-2"}
        lists = {process.env["DI_NODES"] for process in world.cluster.processes}
        assert lists == {"10.0.0.1,10.0.0.2,10.0.0.3"}
        print([(r.method, r.target.plural, r.target.name) for r in world.writes()], world.cluster.loop.time())
        assert names.LABEL_JOB
