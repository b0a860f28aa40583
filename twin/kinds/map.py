"""Maps and flat maps, which turn each record into others."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from twin.columns import Columns
from twin.kinds.operator import KeyedOperator, Name
from twin.kinds.selective import Selective


class Map(Selective, KeyedOperator):
    """Emits `selectivity` records per input record: 1 is a map, above 1 a flat map (a word splitter emits 10)."""

    does: ClassVar[str] = "turns one record into another"
    costs_like: ClassVar[str] = ""

    kind: Literal["map"] = "map"
    selectivity: Annotated[float, Field(ge=0, le=10**6)] = 1.0
    columns: Annotated[Columns | None, Field(description="of the output; absent: as the input")] = None
    passes: Annotated[
        tuple[Name, ...],
        Field(exclude_if=lambda names: not names, description="attributes of its input that its output has unchanged"),
    ] = ()

    def kept(self, attributes: frozenset[str]) -> frozenset[str]:
        """Attributes that the operator passes unchanged (the field `passes`)."""
        return attributes & frozenset(self.passes)
