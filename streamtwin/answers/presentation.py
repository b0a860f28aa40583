"""What an answer looks like to people, whoever shows it: a terminal, a page, a notebook, files."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from streamtwin.tables.wide import Wide

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True, slots=True, kw_only=True)
class Presentation:
    """heading: of a page. sentences: the first one is the answer. notes: what a reader should know besides.

    rows: of table.csv and of the data frame, all with the same keys. figure: draws it; None: there is nothing to draw.
    """

    heading: str
    sentences: Sequence[str]
    notes: Sequence[str] = ()
    tables: Sequence[Wide] = ()
    rows: Sequence[Mapping[str, Any]] = ()
    figure: Callable[[], Figure] | None = None
