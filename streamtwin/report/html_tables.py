"""The tables of the terminal as HTML."""

from __future__ import annotations

from collections.abc import Iterable

from figures.svg import element, text
from streamtwin.report.page import scrolling
from streamtwin.tables.wide import Column, Wide


def table(shown: Wide) -> str:
    """One table under its title, in a frame that scrolls."""
    head = element("tr", *(_cell("th", " ".join(column.heading), column) for column in shown.columns))
    rows = zip(*(column.cells for column in shown.columns), strict=True)
    body = (
        element("tr", *(_cell("td", cell, column) for cell, column in zip(row, shown.columns, strict=True)))
        for row in rows
    )
    return scrolling(
        element("table", element("caption", text(shown.title)), element("thead", head), element("tbody", *body, ""))
    )


def tables(several: Iterable[Wide]) -> list[str]:
    """The tables as HTML, in order."""
    return [table(each) for each in several]


def _cell(kind: str, words: str, column: Column) -> str:
    return element(kind, text(words), class_="number" if column.number else None)
