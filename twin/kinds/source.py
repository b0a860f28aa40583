"""Where tuples come from."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Literal

from twin.columns import Columns
from twin.kinds.mechanism import Reading
from twin.kinds.operator import OperatorBase


class Source(OperatorBase):
    """Polls a broker and emits its tuples."""

    is_source: ClassVar[bool] = True
    does: ClassVar[str] = "reads from the message broker"
    costs_like: ClassVar[str] = ""

    kind: Literal["source"] = "source"
    columns: Columns = Columns(ints=1, strings=1, doubles=1)

    def columns_out(self, inputs: Sequence[Columns]) -> Columns:
        """As given."""
        return self.columns

    @property
    def mechanism(self) -> Reading:
        """See OperatorBase."""
        return Reading()
