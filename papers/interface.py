"""Description of an experiment: cases, what is measured of each, what the paper prints, how both agree; and figures."""

from __future__ import annotations

import importlib
import itertools
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from papers.workspace import Sizes
from scenarios.learning import CorpusRecipe

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from papers.workspace import Workspace


# experiments ---------------------------------------------------------------------------------------------------------
# Description of an experiment: cases, what is measured of each, what the paper printed for it; and its result.
#
# `papers.running` makes tables, figures and notes of them.


Row = Mapping[str, Any]
Rows = Sequence[Row]
Drawer = Callable[[Mapping[str, Rows]], "Figure"]
"""Function that draws the rows of an experiment's tables, given by name. `papers.interface` has the usual ones."""


def grid(**choices: Iterable[Any]) -> tuple[Row, ...]:
    """Cases, one for each combination of choices; the last choice changes fastest."""
    return tuple(dict(zip(choices, values, strict=True)) for values in itertools.product(*choices.values()))


def headings(text: str) -> dict[str, str]:
    """Columns of a table by key, from `key: heading | key: heading`; a key alone is its own heading."""
    cells = (cell.partition(":") for cell in " ".join(text.split()).split("|"))
    return {key.strip(): (heading if colon else key).strip() for key, colon, heading in cells}


def cells_of(columns: str, printed: Mapping[Any, Sequence[Any]]) -> dict[Any, Row]:
    """Published cells by case, as `CaseTable` takes them. columns: keys of the values of each case, in order."""
    return {case: dict(zip(columns.split(), values, strict=True)) for case, values in printed.items()}


def items(text: str) -> list[str]:
    """Items of a Markdown list."""
    return [" ".join(item.split()) for item in re.split(r"^- ", text, flags=re.MULTILINE) if item.strip()]


def _no_recipes(_sizes: Sizes, _seed: int) -> Sequence[CorpusRecipe]:
    return ()


@dataclass(frozen=True, kw_only=True)
class CaseTable:
    """Table of cases. Parts that depend on the scale are functions of the workspace; a title that is a text may name
    fields of `Sizes` in braces.

    columns: the keys of a row and their headings with units, as in `headings`; a heading says "paper" over a published
    figure. A key without a column is in the JSON alone, one that begins with `_` in figures alone. cases: arguments of
    `measure`, in the order of the rows. measure: (workspace, **case) -> what is found of a case, as one row or several;
    the case's own values stand in them as well. published: what the paper printed, by the values of the columns `by`; a
    value that is no mapping is that of the column `paper`. shapes: function of all rows that compares them with what
    the paper says in words (`papers.interface`).
    """

    title: str | Callable[[Workspace], str]
    columns: str | Callable[[Workspace], str]
    measure: Callable[..., Row | Iterable[Row]]
    cases: Rows | Callable[[Workspace], Rows] = ({},)
    published: Mapping[Any, Any] = field(default_factory=dict)
    by: tuple[str, ...] = ()
    shapes: Callable[[Rows], Rows] | None = None


@dataclass(frozen=True, kw_only=True)
class DerivedTable:
    """Table made of the rows of another one. of: that one's name."""

    title: str
    columns: str
    of: str
    rows: Callable[[Rows], Rows]


@dataclass(frozen=True, kw_only=True)
class Experiment:
    """Experiment for one table or figure of a paper.

    name: as in `twin reproduce costream.table3`. source: where it is published. summary: a line for `twin list`.
    tables, figures: by the name of the file that they become. notes: explanations of the tables: a Markdown list, or a
    function of the first table's rows. about: what our figures are of; empty: of simulated runs. recipes: corpora that
    `measure` will need, so that Spark makes them together, before anything else is loaded.
    """

    name: str
    source: str
    summary: str
    tables: Mapping[str, CaseTable | DerivedTable]
    figures: Mapping[str, Drawer] = field(default_factory=dict)
    notes: str | Callable[[Rows], str] = ""
    about: str = ""
    recipes: Callable[[Sizes, int], Sequence[CorpusRecipe]] = _no_recipes


@dataclass(frozen=True)
class Table:
    """Filled table. rows: None where a row has no value for a column."""

    title: str
    columns: Mapping[str, str]
    rows: tuple[Row, ...]


@dataclass(frozen=True)
class ExperimentResult:
    """Result of an experiment, ready to be written."""

    tables: Mapping[str, Table]
    figures: Mapping[str, Callable[[], Figure]] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    about: str = ""


# a paper's words beside ours -----------------------------------------------------------------------------------------
# Comparisons of a paper's words with our results: agrees, differs, or not comparable, and why.


COLUMNS: Mapping[str, str] = {
    "what": "what",
    "paper": "paper",
    "ours": "ours",
    "verdict": "verdict",
    "why": "because",
}


def shape(what: str, paper: str, ours: str, same: bool, why: str = "") -> Row:
    """Row of a statement that can be compared. why: what explains a difference, or weakens an agreement."""
    return {"what": what, "paper": paper, "ours": ours, "verdict": "agrees" if same else "differs", "why": why}


def apart(what: str, paper: str, ours: str, why: str) -> Row:
    """Row of a statement that cannot be compared."""
    return {"what": what, "paper": paper, "ours": ours, "verdict": "not comparable", "why": why}


def against(rows: Rows, *, simulated: bool) -> Table:
    """Table of the comparisons on a page. simulated: whether figures are of simulated runs."""
    return Table("Against the paper" + (", by simulated runs" if simulated else ""), COLUMNS, tuple(rows))


def within(values: Sequence[float], low: float, high: float) -> bool:
    """Whether there are values and all are between the ends, which are included."""
    return bool(values) and all(low <= value <= high for value in values)


def span(values: Sequence[float], form: str = ".2g") -> str:
    """Text of the least and the largest value."""
    return " to ".join(dict.fromkeys(f"{end:{form}}" for end in (min(values), max(values)))) if values else "none"


# usual figures -------------------------------------------------------------------------------------------------------
# Usual figures of experiments, as data: which columns of a table are lines over something, or groups of bars.


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
