"""Jobs that share a quota of pods: the other job gets the capacity that one of them releases."""

from dijob.api.parse import parse_job
from dijob.core.actions import CreatePod, DeletePod, PublishAddresses
from dijob.core.observed.rejections import of_creation
from dijob.core.observed.views import ApiRejection, Creation, Observed, Pod
from samples.builders import job_body, later, plan, stored, view


class Tenant:
    """A job in a namespace with pods of other owners. Its plans are executed within the limits of
    the quota.

    `Quota` below counts the pods of all tenants.
    """

    def __init__(self, name: str, quota: "Quota") -> None:
        body = job_body(replicas=4, scheduleTimeoutSeconds=10, service="Auto")
        body["metadata"] |= {"name": name, "uid": name}
        self.job, self.quota = parse_job(body), quota
        self.pods: dict[int, Pod] = {}
        self.rejections: dict[str, ApiRejection] = {}
        self.creations: dict[str, Creation] = {}
        self.begun = False
        quota.tenants.append(self)

    def passes(self, seconds: float) -> None:
        seen = Observed(self.pods, rejections=dict(self.rejections), creations=dict(self.creations))
        decided = plan(self.job, seen, later(seconds))
        self.job = stored(self.job, decided)
        for action in decided.actions:
            match action:
                case CreatePod(member=member):
                    self._create(member.rank, f"pod/{member.name}", seconds)
                case DeletePod(name=name):
                    self.pods = {rank: pod for rank, pod in self.pods.items() if pod.name != name}
                case PublishAddresses():
                    self.begun = True

    def _create(self, rank: int, key: str, seconds: float) -> None:
        if self.quota.used >= self.quota.pods:
            self.rejections[key] = of_creation(
                403, "exceeded quota", self.rejections.get(key), later(seconds)
            )
            return
        self.rejections.pop(key, None)
        name, born = key.removeprefix("pod/"), later(seconds).isoformat()
        self.creations[name] = Creation(1, later(seconds))
        self.pods[rank] = view(
            rank, self.job, name=name, uid=f"{name} {seconds}", created=born, ip=f"10.1.0.{rank}"
        )


class Quota:
    """A namespace's quota of pods."""

    def __init__(self, pods: int) -> None:
        self.pods = pods
        self.tenants: list[Tenant] = []

    @property
    def used(self) -> int:
        return sum(len(tenant.pods) for tenant in self.tenants)


def test_one_of_two_jobs_of_four_ranks_starts_under_a_quota_of_six_pods() -> None:
    quota = Quota(6)
    one, other = Tenant("one", quota), Tenant("other", quota)
    # Half of each job exists, so neither can start.
    for tenant in (one, other):
        quota.pods = 3 if tenant is one else 6
        tenant.passes(0)
    assert (len(one.pods), len(other.pods)) == (3, 3)
    for second in range(1, 120):
        for tenant in (one, other):
            if not tenant.begun:
                tenant.passes(second)
        if one.begun or other.begun:
            break
    assert one.begun or other.begun
    given = [tenant.job.status.given_back for tenant in (one, other) if not tenant.begun]
    assert [each and "exceeded quota" in each.message for each in given] == [True]
