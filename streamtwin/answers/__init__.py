"""Presentations of answers: one for each question, for the terminal, the folder, the page and the notebook."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from streamtwin.tables.tables import Wide

if TYPE_CHECKING:
    from matplotlib.figure import Figure


SIMULATED = "Every number on this page is simulated: nothing was measured on a real cluster."


@dataclass(frozen=True, slots=True, kw_only=True)
class Presentation:
    """Presentation of an answer. heading: title of a page. sentences: the first one is the answer. notes: warnings and
    other remarks. rows: of table.csv and of the data frame; all have the same keys. figure: a function that draws the
    figure; None if there is nothing to draw. numbers: words on where the numbers come from.
    """

    heading: str
    sentences: Sequence[str]
    notes: Sequence[str] = ()
    tables: Sequence[Wide] = ()
    rows: Sequence[Mapping[str, Any]] = ()
    figure: Callable[[], Figure] | None = None
    numbers: str = SIMULATED
