"""H21: an event explains that a job is skipped because another release claims its namespace."""

import asyncio
from typing import Any, cast

import pytest
from dijob.controller.cache.jobs import Jobs
from dijob.controller.leader.claim_events import AT_ONCE, REPORT_SECONDS, ClaimEvents
from dijob.controller.leader.claims import LOOK_SECONDS, Claims
from dijob.controller.write.recorder import Recorder
from dijob.kube.api import Api
from fakes.fake_api import FakeApi
from samples.builders import job_body
from simulator.virtual import VirtualClock
from unit.controller.leader.test_claims import Server

pytestmark = pytest.mark.virtual_time

CREATED = "2026-05-04T12:00:00Z"


class Namespace:
    """A namespace that a tenant claims with a Lease, and the operator of the cluster."""

    def __init__(self, jobs: int = 1) -> None:
        clock = VirtualClock(asyncio.get_running_loop())
        self.leases, self.api, self.jobs = Server(), FakeApi(), Jobs(clock)
        self.claims = Claims(cast(Api, self.leases), "dijob-system/dijob", (), clock)
        recorder = Recorder(self.api.api(), clock)
        self.left = ClaimEvents(self.claims, self.jobs, recorder, clock)
        self.keys = []
        for number in range(jobs):
            body = job_body()
            body["metadata"] |= {"name": f"job-{number}", "uid": f"uid-{number}"}
            self.jobs.put(body)
            self.keys.append(("ns", f"job-{number}"))

    async def lives(self, seconds: float, holder: str = "a") -> None:
        """Let the tenant renew the Lease, and queue each job in each period."""
        for turn in range(int(seconds / LOOK_SECONDS)):
            self.leases.put("ns", {"holderIdentity": holder.format(turn)})
            self.leases.leases["ns"]["metadata"]["creationTimestamp"] = CREATED
            await self.claims._look()
            for key in self.keys:
                assert self.claims.other(key[0])
                await self.left.report(key)
            await asyncio.sleep(LOOK_SECONDS)

    @property
    def told(self) -> list[dict[str, Any]]:
        return [body for method, path, body in self.api.calls if path.endswith("/events")]


async def test_the_event_names_the_lease_its_holder_and_its_creation() -> None:
    """H21."""
    tenant = Namespace()
    await tenant.lives(60, holder="team/x\n[2026-11-26] FORGED")
    (event,) = tenant.told
    assert (event["reason"], event["involvedObject"]["name"]) == ("NamespaceClaimed", "job-0")
    assert event["message"] == (
        "release dijob-system/dijob does not reconcile this job: Lease dijob-operator in namespace"
        f" ns, created at {CREATED}, assigns the namespace to release team/x [2026-11-26] FORGED."
        " If that release is no longer running: kubectl delete lease dijob-operator -n ns"
    )


async def test_a_holder_that_changes_constantly_causes_no_additional_events() -> None:
    tenant = Namespace()
    await tenant.lives(REPORT_SECONDS - 60, holder="x{}" + "y" * 5000)
    assert len(tenant.told) == 1
    assert len(tenant.told[0]["message"]) <= 1024


async def test_events_on_many_jobs_are_spread_over_time() -> None:
    tenant = Namespace(jobs=3 * AT_ONCE)
    await tenant.lives(LOOK_SECONDS)
    assert len(tenant.told) == AT_ONCE
    await tenant.lives(5 * LOOK_SECONDS)
    assert len(tenant.told) == 3 * AT_ONCE


async def test_a_new_claim_is_reported_again() -> None:
    tenant = Namespace()
    await tenant.lives(LOOK_SECONDS)
    tenant.left.served(tenant.keys[0])
    await tenant.lives(LOOK_SECONDS, holder="b")
    assert len(tenant.told) == 2
