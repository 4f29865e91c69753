"""Lists of an apiserver that lags behind: they alone cause no change to pods."""

import copy

import pytest
from dijob import names
from dijob.kube.kinds import JOBS
from samples.builders import Body, job_body
from simulator.objects import Target
from simulator.operator_process import Operator
from simulator.simulated import simulated

pytestmark = pytest.mark.virtual_time

JOB = Target(names.PLURAL, "ns", "job")


@pytest.mark.parametrize("shown", ["later", "while it is asked for"])
async def test_a_pod_of_a_size_that_a_list_does_not_know_yet_stays(
    shown: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    elastic = job_body(minReplicas=1, maxReplicas=8, replicas=3)
    async with simulated(elastic) as world:
        await world.running()
        old = copy.deepcopy(world.cluster.server.get(JOB))
        world.cluster.server.patch(JOB, {"spec": {"replicas": 4}})
        await world.until(lambda: world.cluster.job().status.ready_replicas == 4)
        await world.settle()
        follow = Operator._watch_jobs

        async def behind(operator: Operator, path: str) -> None:
            operator.arrivals.seen(None, old)
            get = operator.api.get

            async def asked(path: str, **query: str) -> Body:
                answer: Body = await get(path, **query)
                if path == JOBS.path("ns", "job") and shown != "later":
                    operator.arrivals.seen("MODIFIED", copy.deepcopy(answer))
                return answer

            monkeypatch.setattr(operator.api, "get", asked)
            await world.operator_alone(5.0)
            await follow(operator, path)

        monkeypatch.setattr(Operator, "_watch_jobs", behind)
        await world.restart()
        await world.settle()
        assert not world.writes("DELETE", "pods")
        assert world.cluster.names_of("pods") == {"job-0", "job-1", "job-2", "job-3"}
        assert world.cluster.job().status.renewals == 0
