"""Usual figures of experiments, as data: which columns of a table are lines over something, or groups of bars."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from papers.interface import Drawer, Row, Rows

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Cell = str | Callable[[Row], Any]
"""Column, a text with columns in braces such as "{windows} windows", or a function of a row."""
Quantity = str | Mapping[str, str]
"""Column; or several, with the words by which a text calls each in place of {quantity}."""
Only = Mapping[str, Collection[Any]]
"""Values, by column, whose rows are drawn."""


def lines(
    horizontal: str,
    vertical: str,
    *,
    x: Cell | None = None,
    y: Quantity,
    series: str = "{quantity}",
    only: Only | None = None,
    first: int = 1,
    factor: float = 1.0,
    logarithmic: bool = False,
) -> Drawer:
    """Drawer of a line for each series. x: None where y is a list in each row, whose values are numbered from `first`
    on. factor: times y."""

    def draw(tables: Mapping[str, Rows]) -> Figure:
        from figures.charts import lines as drawn

        points: dict[str, list[Any]] = {"series": [], "x": [], "y": []}
        for row, key, words in _chosen(tables, None, only, y):
            many = row[key] if x is None else [row[key]]
            points["series"] += [_text(series, row, words)] * len(many)
            points["x"] += range(first, first + len(many)) if x is None else [_cell(x, row)]
            points["y"] += [factor * value for value in many]
        return drawn(points, horizontal, vertical, logarithmic=logarithmic)

    return draw


def bars(
    label: str,
    *,
    group: Cell,
    value: Quantity,
    series: str = "{quantity}",
    only: Only | None = None,
    factors: bool = False,
) -> Drawer:
    """Drawer of bars in groups, from zero; or of `factors` >= 1 on a logarithmic axis that starts at 1."""

    def draw(tables: Mapping[str, Rows]) -> Figure:
        from figures import charts

        drawn: dict[str, list[Any]] = {"group": [], "series": [], "value": []}
        for row, key, words in _chosen(tables, None, only, value):
            drawn["group"].append(_text(group, row, words) if isinstance(group, str) else group(row))
            drawn["series"].append(_text(series, row, words))
            drawn["value"].append(row[key])
        return (charts.grouped_bars if factors else charts.bars)(drawn, label)

    return draw


def columns(
    figure: str,
    *labels: Any,
    table: str | None = None,
    only: Only | None = None,
    parts: Callable[[Row], Iterable[Row]] = lambda row: (row,),
    **cells: Cell,
) -> Drawer:
    """Drawer that calls a function of `figures` with columns, such as `lines.scalability`. labels: further arguments.
    parts: what is drawn of a row. cells: by the name of its column."""

    def draw(tables: Mapping[str, Rows]) -> Figure:
        rows = [part for row, _, _ in _chosen(tables, table, only, "") for part in parts(row)]
        return _drawn(figure, {column: [_cell(cell, row) for row in rows] for column, cell in cells.items()}, *labels)

    return draw


def samples(figure: str, *labels: Any, name: str, of: str, only: Only | None = None, **more: Any) -> Drawer:
    """Drawer that calls a function of `figures` with lists of values by name. name, of: the columns of both."""

    def draw(tables: Mapping[str, Rows]) -> Figure:
        return _drawn(figure, {row[name]: row[of] for row, _, _ in _chosen(tables, None, only, "")}, *labels, **more)

    return draw


def _drawn(figure: str, drawn: Mapping[str, Any], *labels: Any, **more: Any) -> Figure:
    module, function = figure.split(".")
    made: Figure = getattr(importlib.import_module(f"figures.{module}"), function)(drawn, *labels, **more)
    return made


def column_of(rows: Rows, *names: str) -> dict[str, list[Any]]:
    """Columns of these names, made of rows: the arguments of figures."""
    return {name: [row[name] for row in rows] for name in names}


def _chosen(
    tables: Mapping[str, Rows], table: str | None, only: Only | None, quantity: Quantity
) -> Iterator[tuple[Row, str, str]]:
    """Rows that are drawn, with the column and the words of each of their quantities."""
    rows = tables[table] if table is not None else next(iter(tables.values()))
    keys = {quantity: quantity} if isinstance(quantity, str) else quantity
    for row in rows:
        if all(row.get(column) in values for column, values in (only or {}).items()):
            for key, words in keys.items():
                yield row, key, words


def _cell(cell: Cell, row: Row) -> Any:
    return row[cell] if isinstance(cell, str) else cell(row)


def _text(text: str, row: Row, quantity: str) -> str:
    """Value of a column, or a text with columns in braces filled in."""
    return str(row[text]) if text in row else text.format(**{**row, "quantity": quantity})
