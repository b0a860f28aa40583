"""Splits and side outputs: each record goes to some of the operator's consumers, by share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, ClassVar, Literal

import numpy as np
from pydantic import Field

from twin.kinds.flow import Flow, Mixing
from twin.kinds.mechanism import Routing
from twin.kinds.operator import OperatorBase

Part = Annotated[float, Field(gt=0, le=1)]
WHOLE = 1.0 + 1e-9


class Router(OperatorBase):
    """Sends each record to one of its consumers, or to none, if the shares add up to 1 or less; if they add up to more,
    to each consumer at random, independently of the others."""

    runs_alone: ClassVar[bool] = True
    does: ClassVar[str] = "sends shares of the records to different consumers"

    kind: Literal["router"] = "router"
    shares: Annotated[Mapping[str, Part], Field(min_length=1, description="of its input, by consumer")]

    @property
    def exclusive(self) -> bool:
        """Whether a record goes to one consumer at most: the shares add up to 1 or less."""
        return sum(self.shares.values()) <= WHOLE

    @property
    def gain(self) -> float:
        """Share of the input that goes to any consumer; 1 if records may go to several."""
        return min(1.0, sum(self.shares.values()))

    def share_to(self, consumer: str) -> float:
        """Share of the output that goes to the consumer of that name."""
        return self.shares[consumer] / self.gain

    def why_not_to(self, consumers: Sequence[str]) -> str:
        """Says which consumer has no share, or which share has no consumer; empty if they agree."""
        missing = [name for name in consumers if name not in self.shares]
        if missing:
            return f"gives no share to its consumer {missing[0]!r}; add '{missing[0]}: SHARE' to its shares"
        beyond = [name for name in self.shares if name not in consumers]
        return f"gives a share to {beyond[0]!r}, to which no stream leads; add one, or leave it out" if beyond else ""

    def through(self, inputs: tuple[np.ndarray, ...], bursts: Sequence[np.ndarray], mixing: Mixing) -> Flow:
        """Flow through the router; records that go to no consumer are lost."""
        total, together, burst_s = mixing.arriving(inputs, bursts)
        none, out = np.zeros_like(total), self.gain * total
        return Flow(inputs, total, out, none, none, none, np.where(together < out, together, np.inf), burst_s)

    @property
    def mechanism(self) -> Routing:
        """Routing by the given shares."""
        return Routing(self.shares, self.exclusive)
