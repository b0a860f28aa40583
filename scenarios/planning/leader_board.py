"""Standings of optimizers and cost models over many scenarios: one line each, the best first.

A plan that is backpressured or fails where another plan does not has no finite regret: it counts as spoilt. Means are
over the others. A line is better if fewer scenarios are spoilt, refused or failed, then by its mean regret.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from optimizers.loads import LOADS, rates_at
from scenarios.files.documents import CLOSED, Number
from scenarios.planning.outcomes import half_width95
from scenarios.planning.validation import FAILED, REFUSED, ValidationRow

FAR = 10.0
"""Largest ratio of a cost to the best known that is drawn; larger ones are drawn as this."""
RATES, *LOADED = (rates_at(load).name for load in LOADS)
"""Names of the rate model for the mean load, and for the others."""
LABEL = "{optimizer} by {cost_model}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """Standing of an optimizer with a cost model. scenarios: number that it was given; refused, failed: of these,
    without a plan; spoilt: with a plan of a worse kind than the best known. mean +- ci95, median, p90: regret over the
    others. plan_s, evaluations: medians."""

    optimizer: str
    cost_model: str
    scenarios: int
    refused: int
    failed: int
    spoilt: int
    mean: Number
    ci95: Number
    median: Number
    p90: Number
    plan_s: Number
    evaluations: Number


@CLOSED
@dataclass(frozen=True, slots=True, kw_only=True)
class PlansJudged:
    """The answer of `twin validate`. blind_to: features of a scenario that a cost model ignores, by both names."""

    objective: str
    rows: tuple[ValidationRow, ...]
    standings: tuple[Standing, ...]
    blind_to: Mapping[str, Mapping[str, tuple[str, ...]]]


def standings(rows: Iterable[ValidationRow]) -> tuple[Standing, ...]:
    """Standings of all optimizers and cost models in these rows, the best first. Where all loads are the mean, the plan
    by rates stands for each load."""
    groups: dict[tuple[str, str], list[ValidationRow]] = {}
    for row in rows:
        groups.setdefault((row.optimizer, row.cost_model), []).append(row)
    for (optimizer, model), group in groups.items():
        if model in LOADED:
            known = {row.scenario for row in group}
            group += [row for row in groups.get((optimizer, RATES), []) if row.scenario not in known]
    lines = [_standing(optimizer, model, group) for (optimizer, model), group in groups.items()]
    return tuple(sorted(lines, key=_place))


def _place(line: Standing) -> tuple[int, float]:
    return line.refused + line.failed + line.spoilt, math.inf if line.mean is None else line.mean


def _standing(optimizer: str, model: str, rows: Sequence[ValidationRow]) -> Standing:
    planned = [row for row in rows if row.regret is not None]
    regrets = np.array([row.regret for row in planned if row.regret is not None and math.isfinite(row.regret)])
    median, p90 = np.quantile(regrets, (0.5, 0.9)).tolist() if len(regrets) else (None, None)
    return Standing(
        optimizer=optimizer,
        cost_model=model,
        scenarios=len(rows),
        refused=sum(row.status == REFUSED for row in rows),
        failed=sum(row.status == FAILED for row in rows),
        spoilt=len(planned) - len(regrets),
        mean=float(regrets.mean()) if len(regrets) else None,
        ci95=half_width95(regrets),
        median=median,
        p90=p90,
        plan_s=float(np.median([row.plan_s or 0.0 for row in planned])) if planned else None,
        evaluations=float(np.median([row.evaluations or 0 for row in planned])) if planned else None,
    )


def samples(rows: Iterable[ValidationRow]) -> Mapping[str, Sequence[float]]:
    """Ratio of the cost to the best known in each scenario, at most FAR, by optimizer and cost model, for a figure."""
    found: dict[str, list[float]] = {}
    for row in rows:
        cost = FAR if row.regret is None else min(1.0 + row.regret, FAR)
        found.setdefault(LABEL.format(optimizer=row.optimizer, cost_model=row.cost_model), []).append(cost)
    return found


def csv_rows(rows: Iterable[ValidationRow]) -> list[dict[str, Any]]:
    """Rows as a table of plain values, without plans and what follows from others."""
    return [{name: value for name, value in asdict(row).items() if name not in ("plan", "beside")} for row in rows]
