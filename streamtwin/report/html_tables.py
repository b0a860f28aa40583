"""The tables of the terminal as HTML."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from rich.table import Table
from rich.text import Text

from figures.svg import element, text
from streamtwin.report.page import scrolling
from streamtwin.tables.wide import Wide


class _Column(NamedTuple):
    heading: str
    cells: Sequence[str]
    number: bool


def table(shown: Wide | Table) -> str:
    """One table under its title, in a frame that scrolls."""
    columns = _wide(shown) if isinstance(shown, Wide) else _rich(shown)
    title = shown.title if isinstance(shown, Wide) else str(shown.title or "")
    head = element("tr", *(_cell("th", column.heading, column) for column in columns))
    rows = zip(*(column.cells for column in columns), strict=True)
    body = (
        element("tr", *(_cell("td", cell, column) for cell, column in zip(row, columns, strict=True))) for row in rows
    )
    return scrolling(
        element("table", element("caption", text(title)), element("thead", head), element("tbody", *body, ""))
    )


def tables(several: Iterable[Wide | Table]) -> list[str]:
    """The tables as HTML, in order."""
    return [table(each) for each in several]


def _cell(kind: str, words: str, column: _Column) -> str:
    return element(kind, text(words), class_="number" if column.number else None)


def _wide(shown: Wide) -> list[_Column]:
    return [_Column(" ".join(column.heading), column.cells, column.number) for column in shown.columns]


def _rich(shown: Table) -> list[_Column]:
    return [
        _Column(_plain(column.header), [_plain(cell) for cell in column.cells], column.justify == "right")
        for column in shown.columns
    ]


def _plain(cell: object) -> str:
    return Text.from_markup(str(cell)).plain
