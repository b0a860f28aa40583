"""What a record costs each operator, from runs of the same query: a power of how many subtasks share a machine.

Costs that were measured on machines with few busy subtasks are too low for full ones. So the log of an operator's cost
is a line in the log of the density (subtasks on a task manager), fitted to all runs given. It is not drawn further than
these runs reach: beyond the densest, the cost is that at the densest.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from benchmarks.real.streambed.queries import QUERIES, SOURCE
from benchmarks.real.streambed.runs import Run
from twin.errors import BadInput
from twin.key_skew import default_key_groups

LEAST_RUNS = 3
"""Runs from which on a line has a spread."""


@dataclass(frozen=True)
class Line:
    """Cost of a record of one operator. log_us: its log in microseconds at the log of the density `at`; power: of the
    density; within: logs of the densities that were seen."""

    log_us: float
    at: float
    power: float
    within: tuple[float, float]

    def cost_us(self, density: float) -> float:
        """Cost of a record at a density, in microseconds."""
        inside = min(max(math.log(density), self.within[0]), self.within[1])
        return math.exp(self.log_us + self.power * (inside - self.at))


@dataclass(frozen=True)
class Calibration:
    """What runs of a query say. lines: cost by operator. off: for each run, by operator, the factor by which its cost
    was above the line. in_share, out_share: records in and out over events of the sources, by operator. source_us: of
    an event, in its source."""

    query: str
    lines: Mapping[str, Line]
    off: tuple[Mapping[str, float], ...]
    in_share: Mapping[str, float]
    out_share: Mapping[str, float]
    source_us: float

    def costs_us(self, density: float) -> dict[str, float]:
        """Cost of a record by operator, in microseconds."""
        return {name: line.cost_us(density) for name, line in self.lines.items()}

    def draws_us(self, density: float) -> list[dict[str, float]]:
        """The same, as off from the line as each run was."""
        costs = self.costs_us(density)
        return [{name: cost * off.get(name, 1.0) for name, cost in costs.items()} for off in self.off]


def least_source_us(runs: Sequence[Run]) -> float:
    """Least busy time of an event in a source, over runs of all queries: sources all do the same, and in most runs they
    are busy with waiting for their limiter of rates. Raises BadInput if no run tells it."""
    told = [run.readings[SOURCE].cost_us for run in runs if SOURCE in run.readings]
    if not told:
        raise BadInput(f"no run tells the cost of {SOURCE}; see operators.csv")
    return min(told)


def calibrated(runs: Sequence[Run], source_us: float, by_density: bool = True) -> Calibration:
    """Costs and shares from runs of one query. by_density: whether costs depend on the density.

    Raises BadInput if there are too few runs, or an operator was not measured in them.
    """
    query = runs[0].query if runs else "?"
    if len(runs) < LEAST_RUNS:
        raise BadInput(f"{query}: {len(runs)} runs tell its costs, and it takes {LEAST_RUNS}; give more small runs")
    lines, in_share, out_share = {}, {}, {}
    off: list[dict[str, float]] = [{} for _ in runs]
    for step in QUERIES[query]:
        told = [(run, run.readings[step.name]) for run in runs if step.name in run.readings]
        if not told:
            raise BadInput(f"{query}: no run tells the cost of {step.name}; see operators.csv")
        logs = np.log([reading.cost_us for _, reading in told])
        line = _line(np.log([run.density for run, _ in told]), logs, by_density)
        lines[step.name] = line
        in_share[step.name] = float(np.median([reading.in_share for _, reading in told]))
        out_share[step.name] = float(np.median([reading.out_share for _, reading in told]))
        by_run = {run.name: log for (run, _), log in zip(told, logs, strict=True)}
        for each, run in zip(off, runs, strict=True):
            if run.name in by_run:
                each[step.name] = math.exp(by_run[run.name]) / line.cost_us(run.density)
    return Calibration(query, lines, tuple(off), in_share, out_share, source_us)


def busiest_share(subtasks: int, keyed: bool, groups: int | None = None) -> float:
    """Share of an operator's records that its busiest subtask gets; keyed: that of whole key groups."""
    if not keyed:
        return 1.0 / subtasks
    groups = groups or default_key_groups(subtasks)
    return math.ceil(groups / subtasks) / groups


def slowest_per_s(
    calibration: Calibration, parallelism: Mapping[str, int], costs_us: Mapping[str, float], groups: int | None = None
) -> float:
    """Events a second at which the first operator has no time left, by arithmetic of means. groups: number of key
    groups; None: keys are spread evenly."""
    rates = [1e6 / calibration.source_us * parallelism[SOURCE]]
    for step in QUERIES[calibration.query]:
        if not calibration.in_share[step.name]:
            continue
        keyed = groups is not None and step.keyed == "by record"
        share = busiest_share(parallelism[step.name], keyed, groups)
        rates.append(1e6 / (costs_us[step.name] * calibration.in_share[step.name] * share))
    return min(rates)


def _line(density_n: np.ndarray, logs_n: np.ndarray, by_density: bool) -> Line:
    """Least squares of logs. [n]"""
    at, within = float(density_n.mean()), (float(density_n.min()), float(density_n.max()))
    apart = density_n - at
    spread = float(apart @ apart)
    power = float(apart @ logs_n) / spread if by_density and spread > 1e-9 else 0.0
    return Line(float(logs_n.mean()), at, power, within)
