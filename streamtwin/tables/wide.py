"""Tables that lose no column: one that is too wide for a terminal goes on below, with its first columns again."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass, replace

from rich import box
from rich.console import Console, ConsoleOptions, RenderResult
from rich.table import Table
from rich.text import Text

GAP = 3
"""Number of characters between two columns."""
HEADING = 12
"""Characters of the lines into which a heading is broken, if need be; more if a number below it is wider."""
WRAPPED = 24
"""Most characters that a column of text needs; longer text is broken into lines where there is no more room."""


@dataclass(frozen=True, slots=True)
class Column:
    """Column of a table. heading: its lines. cells: as shown. number: is right-aligned, and never broken into lines."""

    heading: tuple[str, ...]
    cells: tuple[str, ...]
    number: bool

    @property
    def least(self) -> int:
        """Least width (characters) at which the column can be read."""
        widest = max(map(len, [*self.heading, *self.cells]), default=0)
        if self.number:
            return widest
        words = [word for text in (*self.heading, *self.cells) for word in text.split()]
        return min(WRAPPED, widest) if not words else max(min(WRAPPED, widest), min(WRAPPED, max(map(len, words))))

    def broken(self) -> Column:
        """Column with its heading broken into lines."""
        most = max([HEADING, *map(len, self.cells)] if self.number else [HEADING])
        return replace(self, heading=tuple(textwrap.wrap(" ".join(self.heading), most)))


@dataclass(frozen=True, slots=True)
class Wide:
    """Table of columns under a title. The leading columns of text tell what a row is about, and are in every part."""

    title: str
    columns: tuple[Column, ...]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Yields one table, or several below each other. The title may be wider than they are."""
        if self.title:
            yield Text(self.title, style="bold")
        for number, part in enumerate(parts(self.columns, options.max_width)):
            if number:
                yield ""
            yield _table(part)


def parts(columns: Sequence[Column], width: int) -> list[list[Column]]:
    """Columns in groups that fit, with headings in lines if need be; each has the leading ones and at least another."""
    if _needed(columns) <= width:
        return [list(columns)]
    broken = [column.broken() for column in columns]
    numbers = [index for index, column in enumerate(broken) if column.number]
    lead = max(1, numbers[0]) if numbers else 1
    groups = [broken[:lead]]
    for column in broken[lead:]:
        if len(groups[-1]) > lead and _needed([*groups[-1], column]) > width:
            groups.append(broken[:lead])
        groups[-1] = [*groups[-1], column]
    return groups


def _needed(columns: Sequence[Column]) -> int:
    return sum(column.least for column in columns) + GAP * (len(columns) - 1)


def _table(columns: Sequence[Column]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    for column in columns:
        heading, side = "\n".join(column.heading), "right" if column.number else "left"
        table.add_column(heading, justify=side, no_wrap=column.number, min_width=column.least)  # type: ignore[arg-type]
    for row in zip(*(column.cells for column in columns), strict=True):
        table.add_row(*row)
    return table
