"""What operators share that wait for answers from outside the job, which takes no CPU."""

from __future__ import annotations

from typing import Annotated, ClassVar

from pydantic import Field

from twin.calls import Calls
from twin.kinds.operator import OperatorBase

Latency = Annotated[float, Field(ge=0, le=10**5, description="mean seconds from a call to its answer")]
LatencyScv = Annotated[float, Field(ge=0, le=100, description="squared coefficient of variation of that; Gamma")]
Places = Annotated[int, Field(ge=1, le=10**6, description="calls of one replica that wait at a time")]
PerSecond = Annotated[float, Field(gt=0, le=10**9, description="calls a second that all replicas together may make")]


class Calling(OperatorBase):
    """Makes a call for each tuple. Its service is the CPU time of making it and of taking the answer."""

    runs_alone: ClassVar[bool] = True

    @property
    def calls(self) -> Calls:
        """What it asks of outside."""
        raise NotImplementedError
