"""What operators share that keep state by key over event time: key groups, distinct keys, and the size of a state."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, ClassVar, Self

import numpy as np
from pydantic import Field, model_validator

from twin.columns import Columns
from twin.kinds.operator import KeyedOperator
from twin.windows import EventWindow


class EventTimed(KeyedOperator):
    """State by key over event time. Its key groups are the partitions of its attribute, so that many replicas can share
    its work; one key group: an operator that cannot be split."""

    needs_event_time: ClassVar[bool] = True

    keys: Annotated[int, Field(ge=1, le=10**9, description="distinct keys in the stream, all alike in a key group")]
    state_bytes_per_key: Annotated[float, Field(ge=0, le=10**9, description="of the state of one key")] = 100.0

    @model_validator(mode="after")
    def _check_groups(self) -> Self:
        if self.key_groups is None:
            raise ValueError(
                f"{self.name!r} has no key_groups, so its state can be in one place only; give their number, "
                "1 for an operator that cannot be split"
            )
        self.require_keys(self.keys)
        return self

    @property
    def forms(self) -> tuple[EventWindow, ...]:
        """The complete windows that it emits."""
        return ()

    @property
    def keyed(self) -> bool:
        """Always."""
        return True

    @property
    def counted(self) -> int:
        """Its keys."""
        return self.keys

    def columns_out(self, inputs: Sequence[Columns]) -> Columns:
        """A key and its value."""
        return Columns(ints=1, doubles=1)

    def distinct(self, tuples: np.ndarray) -> np.ndarray:
        """Expected distinct keys among so many tuples: K (1 - exp(-n / K))."""
        return np.asarray(-self.keys * np.expm1(-tuples / self.keys))
