"""Filters, which pass a share of the records."""

from __future__ import annotations

from typing import ClassVar, Literal

from twin.columns import DataType
from twin.kinds.operator import Fraction
from twin.kinds.selective import Selective

FilterFunction = Literal["<", ">", "<=", ">=", "!=", "startswith", "endswith"]


class Filter(Selective):
    """Passes a share `selectivity` of its input (Costream, Definition 6)."""

    thins: ClassVar[bool] = True
    does: ClassVar[str] = "lets a share of the records pass"
    costs_like: ClassVar[str] = ""

    kind: Literal["filter"] = "filter"
    selectivity: Fraction
    function: FilterFunction = "<"
    literal_type: DataType = "int"
