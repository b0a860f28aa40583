"""Sinks, where results arrive."""

from __future__ import annotations

from typing import ClassVar, Literal

from twin.kinds.mechanism import Collecting
from twin.kinds.operator import OperatorBase


class Sink(OperatorBase):
    """Sink where results arrive, and where latency and throughput are measured."""

    is_sink: ClassVar[bool] = True
    does: ClassVar[str] = "receives the results"
    costs_like: ClassVar[str] = ""

    kind: Literal["sink"] = "sink"

    @property
    def mechanism(self) -> Collecting:
        """Collecting: the sink only counts and measures."""
        return Collecting()
