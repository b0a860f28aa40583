"""A kind that a test adds: one file, and one line in the registry."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, ClassVar, Literal

import numpy as np
from pydantic import Field

from twin.kinds.flow import Flow, Mixing
from twin.kinds.mechanism import Grouping
from twin.kinds.windowed import Windowed, content_and_fires


class Distinct(Windowed):
    """Operator that passes on one tuple of each key in its window, at each evaluation."""

    does: ClassVar[str] = "passes one tuple of each key on"
    costs_like: ClassVar[str] = "aggregate"

    kind: Literal["distinct"] = "distinct"
    keys: Annotated[int, Field(ge=1)]

    @property
    def keyed(self) -> bool:
        """Whether its records have keys: always."""
        return True

    def values(self, parallelism: int) -> int:
        """Number of its keys."""
        return self.keys

    def through(self, inputs: tuple[np.ndarray, ...], bursts: Sequence[np.ndarray], mixing: Mixing) -> Flow:
        """Flow of a tuple per key and evaluation."""
        total, together, burst_s = mixing.arriving(inputs, bursts)
        content, fires = content_and_fires(self.window, total, together, burst_s)
        found = self.keys * -np.expm1(-content / self.keys)
        often, longest_s = np.minimum(fires, together), np.where(fires > together, burst_s, 0.0)
        return Flow(inputs, total, fires * found, content, fires, found, often, longest_s)

    @property
    def mechanism(self) -> Grouping:
        """Mechanism of an aggregate."""
        return Grouping(self.window, self.keys)
