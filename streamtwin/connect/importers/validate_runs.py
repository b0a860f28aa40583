"""Imported real runs, simulated: predicted against measured rates, operator by operator.

The relative error of a quantity is |predicted - measured| / measured. It is taken of what is predicted: the input
rate of every operator but the sources, and the output rate of every filter, join and aggregate. What is given (the
sources' output) and what was not measured (zero rates, the added sink) is left out.

Sources, selectivities and amplifications are given with a run, so most of its rates follow by conservation of flow; a
simulator that does no better than that has shown nothing. What is really predicted is what windows make of their input.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from streamtwin.connect.importers.run_graph import ImportedRun, MeasuredOperator, read_run_graph
from twin.deployment import Deployment
from twin.errors import BadInput
from twin.flow import nominal_rates
from twin.kinds.flow import MIXED
from twin.kinds.registry import SOURCES
from twin.query import Windowed
from twin.run import Run
from twin.scenario import RunSettings, Scenario

CYCLES = 12.0
"""A run is simulated for this many cycles of its slowest window, the first third of it unmeasured. A cycle is the
time in which every replica sees one window's content."""


Rates = Mapping[str, tuple[float, float]]
"""Tuples/s in and out, by operator."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """One operator of one run, tuples/s. Errors are None where nothing is predicted or nothing was measured."""

    run: str
    family: str
    operator: str
    kind: str
    measured_in_per_s: float | None
    predicted_in_per_s: float | None
    measured_out_per_s: float
    predicted_out_per_s: float
    relative_error_in: float | None
    relative_error_out: float | None

    @property
    def errors(self) -> tuple[float, ...]:
        """The one or two relative errors that there are."""
        return tuple(each for each in (self.relative_error_in, self.relative_error_out) if each is not None)


@dataclass(frozen=True, slots=True)
class Summary:
    """Relative errors of one group: how many quantities, their median and 90th percentile, the share within 5 %."""

    quantities: int
    median: float
    p90: float
    within_5_percent: float


@dataclass(frozen=True, slots=True)
class ValidationTable:
    """One row an operator of every run that imported; `failed` holds the reason by file for those that did not.

    conserved: the same rows by conservation of flow alone. windows: relative errors of what the law of an aggregate's
    window makes of its own measured input, with the window's policy.
    """

    rows: tuple[Comparison, ...]
    failed: Mapping[str, str]
    notes: Mapping[str, tuple[str, ...]]
    conserved: tuple[Comparison, ...] = ()
    windows: tuple[tuple[str, float], ...] = ()

    @property
    def median_relative_error(self) -> float:
        """Over all errors of all rows. Raises BadInput if there is none."""
        errors = [error for row in self.rows for error in row.errors]
        if not errors:
            raise BadInput(f"nothing to compare: {len(self.failed)} files failed, none left an operator with rates")
        return statistics.median(errors)

    def by_quantity(self) -> dict[str, Summary]:
        """Summaries by kind and side, such as `filter in`."""
        sides = [(f"{row.kind} in", row.relative_error_in) for row in self.rows]
        sides += [(f"{row.kind} out", row.relative_error_out) for row in self.rows]
        return _summaries((group, error) for group, error in sides if error is not None)

    def by_family(self) -> dict[str, Summary]:
        """Summaries by query family: the folder that a run's file is in."""
        return _summaries((row.family, error) for row in self.rows for error in row.errors)

    def beside(self) -> dict[str, Summary]:
        """The simulator, conservation of flow alone, and the law of windows alone by their policy."""
        labelled = [("simulated", error) for row in self.rows for error in row.errors]
        labelled += [("by conservation alone", error) for row in self.conserved for error in row.errors]
        labelled += [(f"{policy} windows, from their own input", error) for policy, error in self.windows]
        return _summaries(labelled)

    def to_dict(self) -> dict[str, Any]:
        """For JSON: the median, summaries, one entry an operator, and what did not import or was mended."""
        return {
            "median_relative_error": self.median_relative_error,
            "beside": {name: asdict(summary) for name, summary in self.beside().items()},
            "runs": len({row.run for row in self.rows}),
            "by_quantity": {name: asdict(summary) for name, summary in self.by_quantity().items()},
            "by_family": {name: asdict(summary) for name, summary in self.by_family().items()},
            "operators": [asdict(row) for row in self.rows],
            "failed": dict(self.failed),
            "notes": {run: list(notes) for run, notes in self.notes.items()},
        }


def validate(directory: str | Path, settings: RunSettings, simulate: Callable[[Scenario], Run]) -> ValidationTable:
    """Imports and simulates every `.graph` file below `directory`, in order of their paths.

    `settings.horizon_s` is the most that is simulated of a run, see `fitted`. A file that does not import, or whose
    scenario cannot be simulated, becomes an entry of `failed`. Raises BadInput if the directory holds no such file.
    """
    folder = Path(directory)
    files = sorted(folder.rglob("*.graph"))
    if not files:
        why = "holds no .graph file" if folder.is_dir() else "is not a folder"
        raise BadInput(f"{folder} {why}; name the folder with the published run graphs")
    rows: list[Comparison] = []
    by_conservation: list[Comparison] = []
    windows: list[tuple[str, float]] = []
    failed: dict[str, str] = {}
    notes: dict[str, tuple[str, ...]] = {}
    for file in files:
        name = file.relative_to(folder).with_suffix("").as_posix()
        family = file.relative_to(folder).parts[0] if file.parent != folder else folder.name
        try:
            run = read_run_graph(file)
            deployment = run.scenario.deployment
            simulated = simulate(Scenario.of(deployment, fitted(deployment, settings))).operators
            rates = {each.operator: (each.rate_in_per_s, each.rate_out_per_s) for each in simulated}
            rows.extend(compare(run, rates, name, family))
        except BadInput as error:
            failed[name] = str(error)
        else:
            by_conservation.extend(compare(run, conserved(run), name, family))
            windows.extend(window_errors(run))
            if run.notes:
                notes[name] = run.notes
    return ValidationTable(tuple(rows), failed, notes, tuple(by_conservation), tuple(windows))


def fitted(deployment: Deployment, settings: RunSettings) -> RunSettings:
    """The settings with a horizon of `CYCLES` cycles of the slowest window, where that is shorter."""
    rates = nominal_rates(deployment.query, deployment.workload.arrivals)
    cycles_s = [0.0]
    for operator in deployment.query.operators:
        if isinstance(operator, Windowed):
            window, in_per_s = operator.window, rates[operator.name].in_per_s
            if window.policy == "count" and in_per_s > 0:
                cycles_s.append(window.size * deployment.plan.replicas(operator.name) / in_per_s)
            elif window.policy == "time":
                cycles_s.append(window.size)
    horizon_s = CYCLES * max(cycles_s)
    if not 0 < horizon_s < settings.horizon_s:
        return settings
    third_s = horizon_s / 3
    return RunSettings(**{**dict(settings), "horizon_s": horizon_s, "warmup_s": third_s, "period_s": third_s})


def conserved(run: ImportedRun) -> Rates:
    """Every source delivers what is given, and what goes in comes out by ratio."""
    rates = nominal_rates(run.scenario.query, run.scenario.workload.arrivals)
    return {name: (each.in_per_s, each.out_per_s) for name, each in rates.items()}


def window_errors(run: ImportedRun) -> list[tuple[str, float]]:
    """Policy and relative error of each aggregate whose input and output were measured."""
    errors: list[tuple[str, float]] = []
    for each in run.measured:
        operator = run.scenario.query.operator(each.operator)
        if isinstance(operator, Windowed) and not operator.joins and each.in_per_s and each.out_per_s:
            flow = operator.through((np.array([each.in_per_s]),), [np.array([np.inf])], MIXED)
            error = abs(float(flow.out_per_s[0]) - each.out_per_s) / each.out_per_s
            errors.append((operator.window.policy, error))
    return errors


def compare(run: ImportedRun, rates: Rates, name: str, family: str) -> list[Comparison]:
    """One row a measured operator."""
    return [_comparison(each, rates[each.operator], name, family) for each in run.measured]


def relative_error(predicted: float, measured: float | None) -> float | None:
    """|predicted - measured| / measured; None where nothing was measured."""
    return abs(predicted - measured) / measured if measured else None


def _comparison(measured: MeasuredOperator, rates: tuple[float, float], name: str, family: str) -> Comparison:
    given = measured.kind in SOURCES
    in_per_s, out_per_s = rates
    return Comparison(
        run=name,
        family=family,
        operator=measured.operator,
        kind=measured.kind,
        measured_in_per_s=measured.in_per_s,
        predicted_in_per_s=None if given else in_per_s,
        measured_out_per_s=measured.out_per_s,
        predicted_out_per_s=out_per_s,
        relative_error_in=None if given else relative_error(in_per_s, measured.in_per_s),
        relative_error_out=None if given else relative_error(out_per_s, measured.out_per_s),
    )


def _summaries(labelled: Iterable[tuple[str, float]]) -> dict[str, Summary]:
    groups: dict[str, list[float]] = {}
    for label, error in labelled:
        groups.setdefault(label, []).append(error)
    return {label: _summary(sorted(groups[label])) for label in sorted(groups)}


def _summary(errors: list[float]) -> Summary:
    return Summary(
        quantities=len(errors),
        median=statistics.median(errors),
        p90=errors[min(len(errors) - 1, int(0.9 * len(errors)))],
        within_5_percent=sum(error <= 0.05 for error in errors) / len(errors),
    )
