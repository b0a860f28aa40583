"""Numbers a kind of operators or a type of data: the costs of a tuple before and while its values are looked at."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from pydantic import Field, create_model

from twin.kinds.registry import BY_KIND
from twin.query import AnyOperator, Columns
from twin.spec import Spec

Micros = Annotated[float, Field(ge=0, le=10**7, description="CPU microseconds on one reference core")]


class CostsByKind(Spec):
    """CPU microseconds per input tuple, before its values are looked at."""

    def of(self, operator: AnyOperator) -> float:
        """An operator's. A kind that the profile does not name costs what the kind does that it is like."""
        own: float | None = getattr(self, operator.kind)
        return float(getattr(self, operator.costs_like)) if own is None else own


def _costs_of(kind: type[AnyOperator]) -> Any:
    """The field of a kind; kinds that cost like another one need not be named, so profiles from before them hold."""
    if not kind.costs_like:
        return Micros, ...
    like = f"absent: as {kind.costs_like}"
    return Micros | None, Field(default=None, exclude_if=lambda cost: cost is None, description=like)


if TYPE_CHECKING:

    class PerKind(CostsByKind):
        """A field a kind of operators."""

        def __init__(self, **micros: float | None) -> None: ...

else:
    PerKind = create_model(
        "PerKind",
        __base__=CostsByKind,
        __module__=__name__,
        __doc__=CostsByKind.__doc__,
        **{name: _costs_of(kind) for name, kind in BY_KIND.items()},
    )


class PerType(Spec):
    """A number per value of each data type."""

    ints: Annotated[float, Field(ge=0, le=10**9)]
    strings: Annotated[float, Field(ge=0, le=10**9)]
    doubles: Annotated[float, Field(ge=0, le=10**9)]

    def total(self, columns: Columns) -> float:
        """Summed over all values of one tuple."""
        return self.ints * columns.ints + self.strings * columns.strings + self.doubles * columns.doubles
