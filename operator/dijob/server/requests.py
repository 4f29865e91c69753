"""The bodies of requests."""

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, model_validator

from dijob import names
from dijob.api.reported import Progress

Size = Annotated[int, Field(strict=True, ge=1, le=names.MAX_REPLICAS)]
Figure = Annotated[int, Field(strict=True, ge=0, le=2**53)]


class Replicas(BaseModel):
    """A number of replicas: how many more, how many fewer, or how many in all."""

    model_config = ConfigDict(extra="forbid")

    replicas: Size


class ProgressRequest(BaseModel):
    """How far the training is: at least one of these."""

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)

    iteration: Figure | None = None
    env_step: Figure | None = None
    episode_return: Annotated[float, Field(strict=True)] | None = None

    @model_validator(mode="after")
    def _says_something(self) -> "ProgressRequest":
        if not self.model_dump(exclude_none=True):
            raise ValueError("iteration, env_step or episode_return must be there")
        return self

    @property
    def progress(self) -> Progress:
        """The same as the status has it."""
        return Progress(**self.model_dump(exclude_none=True))


class Posted(BaseModel):
    """A profiling: any JSON object."""

    model_config = ConfigDict(extra="allow")
