"""Description of an experiment: cases, what is measured of each, what the paper prints, and how both agree."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from papers.sizes import Sizes
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
"""Function that draws the rows of an experiment's tables, given by name. `papers.drawing` has the usual ones."""


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
