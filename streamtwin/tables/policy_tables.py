"""Policies beside each other as one table to read: a line a quantity, a column a policy."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from streamtwin.tables.comparison_tables import keeps_up, value
from streamtwin.tables.wide import Column, Wide

NOTED = "*"


def of_policies(document: Mapping[str, Any], meanings: Mapping[str, str]) -> Wide:
    """meanings: what to call the metrics of the document; those that the document has not are left out."""
    title = (
        f"{document['scenario']}: simulated, {document['replications']} runs of each on the same random numbers, "
        f"means ± 95 %; {NOTED} significantly other than {document['compared_with']!r}"
    )
    names = {name: meaning for name, meaning in meanings.items() if name in document["metrics"]}
    columns = [Column(("",), (*names.values(), "keeps up"), number=False)]
    for row in document["variants"]:
        cells = [_cell(name, row["metrics"][name]) for name in names]
        columns.append(Column((row["variant"],), (*cells, _state(row, document["replications"])), number=False))
    return Wide(title, tuple(columns))


def untold(document: Mapping[str, Any]) -> Iterator[str]:
    """A line for each policy of which the runs are too short to tell whether it keeps up."""
    for row in document["variants"]:
        if _state(row, document["replications"]) == "?":
            yield f"whether {row['variant']} keeps up {keeps_up(row)}"


def course_rows(document: Mapping[str, Any], panels: Mapping[str, str]) -> dict[str, list[Any]]:
    """Columns for a figure over time: panel, series, x [s], mean, half_width."""
    table: dict[str, list[Any]] = {key: [] for key in ("panel", "series", "x", "mean", "half_width")}
    for row in document["variants"]:
        course = row["course"]
        for name, panel in panels.items():
            points = zip(course["at_s"], course[name], course[f"{name}_half_width95"], strict=True)
            for at_s, mean, half in points:
                for key, each in zip(table, (panel, row["variant"], at_s, mean, half), strict=True):
                    table[key].append(each)
    return table


def _cell(name: str, cell: Mapping[str, Any]) -> str:
    mean, half = cell["mean"], cell["half_width95"]
    share = name.startswith("slo.")
    text = value(name, 100 * mean, None if half is None else 100 * half) if share else value(name, mean, half)
    return text + (" %" if share else "") + (f" {NOTED}" if cell.get("significant") else "")


def _state(row: Mapping[str, Any], runs: int) -> str:
    full, failed = row["backpressured_runs"], runs - row["success_runs"]
    if failed:
        return f"no results or a crash in {failed} of {runs}"
    return f"no, in {full} of {runs}" if full else "?" if row.get("full") else "yes"
