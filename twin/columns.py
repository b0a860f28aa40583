"""Columns of a record: numbers of values by data type."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Literal

from pydantic import Field

from twin.spec import Spec

DataType = Literal["int", "string", "double"]


Count = Annotated[int, Field(ge=0, le=10**9)]


class Columns(Spec):
    """Number of values of each data type in a record. `width` is the number of all (Costream, Table I)."""

    ints: Count = 0
    strings: Count = 0
    doubles: Count = 0

    @classmethod
    def one(cls, data_type: DataType) -> Columns:
        """Columns of a single value."""
        return cls(**{f"{data_type}s": 1})

    def count(self, data_type: DataType) -> int:
        """Number of values of one type."""
        return int(getattr(self, f"{data_type}s"))

    @property
    def width(self) -> int:
        """Number of values in a record."""
        return self.ints + self.strings + self.doubles

    def __add__(self, other: Columns) -> Columns:
        return Columns(
            ints=self.ints + other.ints, strings=self.strings + other.strings, doubles=self.doubles + other.doubles
        )


def joined_columns(inputs: Sequence[Columns], key_type: DataType) -> Columns:
    """Columns of all inputs, with one copy of the key on which they are joined."""
    joined = sum(inputs[1:], inputs[0])
    kept = max(0, joined.count(key_type) - (len(inputs) - 1))
    return joined.model_copy(update={f"{key_type}s": kept})
