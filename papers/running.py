"""Runs an experiment: case by case, then what is derived from rows, shapes, figures and notes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, replace
from functools import partial
from typing import Any

from papers import shapes
from papers.interface import CaseTable, DerivedTable, Experiment, ExperimentResult, Row, Table, headings, items
from papers.workspace import Workspace
from scenarios.executing.progress import every_tenth


def run(experiment: Experiment, workspace: Workspace) -> ExperimentResult:
    """Measures every case, or finds earlier results; the workspace keeps these, and has the sizes and the seed."""
    filled: dict[str, Table] = {}
    for name, spec in experiment.tables.items():
        if isinstance(spec, CaseTable):
            columns = headings(_of(spec.columns, workspace))
            rows = tuple(_complete(spec, columns, _measured(experiment, spec, workspace)))
            filled[name] = Table(_title(spec, workspace), columns, rows)
    tables: dict[str, Table] = {}
    for name, spec in experiment.tables.items():
        if isinstance(spec, DerivedTable):
            tables[name] = Table(spec.title, headings(spec.columns), tuple(spec.rows(filled[spec.of].rows)))
            continue
        tables[name] = filled[name]
        if spec.shapes is not None:
            tables["against"] = shapes.against(spec.shapes(filled[name].rows), simulated=not experiment.about)
    by_table = {name: table.rows for name, table in tables.items()}
    first = next(iter(by_table.values()))
    notes = tuple(items(experiment.notes if isinstance(experiment.notes, str) else experiment.notes(first)))
    figures = {name: partial(draw, by_table) for name, draw in experiment.figures.items()}
    return ExperimentResult({name: _shown(table) for name, table in tables.items()}, figures, notes, experiment.about)


def _title(spec: CaseTable, workspace: Workspace) -> str:
    given = spec.title
    return given.format_map(asdict(workspace.sizes)) if isinstance(given, str) else given(workspace)


def _shown(table: Table) -> Table:
    """Table without the values that figures alone need."""
    rows = ({key: value for key, value in row.items() if not key.startswith("_")} for row in table.rows)
    return replace(table, rows=tuple(rows))


def _measured(experiment: Experiment, spec: CaseTable, workspace: Workspace) -> Iterator[Row]:
    cases = _of(spec.cases, workspace)
    report = every_tenth(
        lambda done, total: workspace.audience.stage(f"    {done} of {total} cases of {experiment.name}")
    )
    for done, case in enumerate(cases, start=1):
        found = spec.measure(workspace, **case)
        for row in [found] if isinstance(found, Mapping) else found:
            yield {**case, **row}
        if len(cases) > 1:
            report(done, len(cases))


def _complete(spec: CaseTable, columns: Mapping[str, str], rows: Iterator[Row]) -> Iterator[Row]:
    """Rows with what the paper printed for each, and None where a row has no value for a column."""
    for row in rows:
        printed = printed_for(spec, row)
        yield {**dict.fromkeys(columns), **row, **printed}


def printed_for(spec: CaseTable, row: Row) -> Mapping[str, Any]:
    """Cells that the paper printed for the case of a row; none if it printed nothing."""
    key = tuple(row.get(column) for column in spec.by)
    cells = spec.published.get(key[0] if len(key) == 1 else key, {}) if key else {}
    return cells if isinstance(cells, Mapping) else {"paper": cells}


def _of(given: Any, workspace: Workspace) -> Any:
    """Value of a part of an experiment, which is a function of the workspace where it depends on the scale."""
    return given(workspace) if callable(given) else given
