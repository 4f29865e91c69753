"""Requests: their bodies, their rate limits, and their rejection. The docstrings of the models are
shown in the API description.
"""

from dataclasses import dataclass
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, model_validator

from dijob import names
from dijob.api.reported import Progress

Size = Annotated[int, Field(strict=True, ge=1, le=names.MAX_REPLICAS)]
Figure = Annotated[int, Field(strict=True, ge=0, le=2**53)]


class Replicas(BaseModel):
    """A number of replicas: how many to add, how many to remove, or how many in total."""

    model_config = ConfigDict(extra="forbid")

    replicas: Size


class ProgressRequest(BaseModel):
    """Progress of the training: at least one of these values."""

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)

    iteration: Figure | None = None
    env_step: Figure | None = None
    episode_return: Annotated[float, Field(strict=True)] | None = None
    signal: Annotated[float, Field(strict=True)] | None = None

    @model_validator(mode="after")
    def _says_something(self) -> "ProgressRequest":
        if not self.model_dump(exclude_none=True):
            raise ValueError("set at least one of iteration, env_step, episode_return and signal")
        return self

    @property
    def progress(self) -> Progress:
        """The report in the format that is stored in the job's status."""
        return Progress(**self.model_dump(exclude_none=True))


class Posted(BaseModel):
    """Profiling data, which can be any JSON object."""

    model_config = ConfigDict(extra="allow")


class RequestRejection(Exception):
    """A request is rejected with an HTTP status and a message that says what to do.

    `retry_after` is in seconds; 0 means that a retry does not help.
    """

    def __init__(self, status: int, message: str, retry_after: float = 0.0) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.retry_after = retry_after


@dataclass(frozen=True)
class Rate:
    """The average rate in tokens per second, and the largest burst in tokens."""

    per_second: float
    burst: float


class Limit:
    """A token bucket for each key, for example for each job or address.

    A bucket is stored as the time at which it is full again. If no bucket is stored for a key, its
    bucket is full. So full buckets can be dropped, which happens when `most_keys` buckets are
    stored.
    """

    def __init__(self, rate: Rate, most_keys: int = 10_000) -> None:
        self._rate = rate
        self._most = most_keys
        # When the bucket of each key is full again, in monotonic seconds.
        self._full: dict[str, float] = {}

    def take(self, key: str, now: float) -> float:
        """Take a token and return 0, or return the number of seconds until the next token is
        available.
        """
        each = 1 / self._rate.per_second
        full = max(now, self._full.get(key, now))
        wait = full + each - now - self._rate.burst * each
        # The tolerance absorbs rounding errors in the sums above.
        if wait > 1e-9:
            return wait
        if len(self._full) >= self._most:
            self._full = {name: at for name, at in self._full.items() if at > now}
        self._full[key] = full + each
        return 0.0
