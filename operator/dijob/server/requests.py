"""The bodies of requests. The docstrings of the models are shown in the API description."""

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

    @model_validator(mode="after")
    def _says_something(self) -> "ProgressRequest":
        if not self.model_dump(exclude_none=True):
            raise ValueError("set at least one of iteration, env_step and episode_return")
        return self

    @property
    def progress(self) -> Progress:
        """The report in the form of the status."""
        return Progress(**self.model_dump(exclude_none=True))


class Posted(BaseModel):
    """A profiling, which can be any JSON object."""

    model_config = ConfigDict(extra="allow")
