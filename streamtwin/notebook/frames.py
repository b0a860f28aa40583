"""Rows as pandas data frames."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pandas import DataFrame


def frame(rows: Iterable[Any], index: str | None = None) -> DataFrame:
    """A line a row: mappings, or dataclasses such as what `validate` gives. index: the column that names the rows.

    Raises KeyError if there is no such column.
    """
    from pandas import DataFrame

    made = DataFrame([_mapping(row) for row in rows])
    return made if index is None or not len(made) else made.set_index(index)


def _mapping(row: Any) -> Mapping[str, Any]:
    """NamedTuples and mappings as they are."""
    if dataclasses.is_dataclass(row) and not isinstance(row, type):
        return dataclasses.asdict(row)
    found: Mapping[str, Any] = row._asdict() if hasattr(row, "_asdict") else row
    return found
