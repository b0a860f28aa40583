"""Comparisons of a paper's words with our results: agrees, differs, or not comparable, and why."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from papers.interface import Row, Rows, Table

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
