"""How optimizers and cost models did over many scenarios: one line each, the best first.

A plan that is backpressured or fails where another is not has no finite regret: it counts as spoilt, as does an
optimizer that refuses, raises, or gives a plan that does not fit. Means are over the others; a line is better if it
spoils less, then by its mean regret.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from scenarios.planning.outcomes import half_width95
from scenarios.planning.validation import FAILED, REFUSED, ValidationRow

FAR = 10.0
"""Cost over the best known, at which the figure draws all that is further."""
LABEL = "{optimizer} by {cost_model}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """scenarios: that it was asked about; refused, failed: of these, without a plan; spoilt: with one of a worse kind
    than the best known. mean +- ci95, median, p90: regret over the others; NaN without any. plan_s: median."""

    optimizer: str
    cost_model: str
    scenarios: int
    refused: int
    failed: int
    spoilt: int
    mean: float
    ci95: float | None
    median: float
    p90: float
    plan_s: float
    evaluations: float

    @property
    def label(self) -> str:
        """For a figure."""
        return LABEL.format(optimizer=self.optimizer, cost_model=self.cost_model)


def standings(rows: Iterable[ValidationRow]) -> list[Standing]:
    """The best first."""
    groups: dict[tuple[str, str], list[ValidationRow]] = {}
    for row in rows:
        groups.setdefault((row.optimizer, row.cost_model), []).append(row)
    found = [_standing(optimizer, model, group) for (optimizer, model), group in groups.items()]
    return sorted(found, key=lambda each: (each.refused + each.failed + each.spoilt, _last(each.mean)))


def _standing(optimizer: str, model: str, rows: Sequence[ValidationRow]) -> Standing:
    planned = [row for row in rows if row.regret is not None]
    regrets = np.array([row.regret for row in planned if row.regret is not None and math.isfinite(row.regret)])
    mean, median, p90 = (
        (float(regrets.mean()), *(float(each) for each in np.quantile(regrets, (0.5, 0.9))))
        if len(regrets)
        else (math.nan,) * 3
    )
    return Standing(
        optimizer=optimizer,
        cost_model=model,
        scenarios=len(rows),
        refused=sum(row.status == REFUSED for row in rows),
        failed=sum(row.status == FAILED for row in rows),
        spoilt=len(planned) - len(regrets),
        mean=mean,
        ci95=half_width95(regrets),
        median=median,
        p90=p90,
        plan_s=float(np.median([row.plan_s or 0.0 for row in planned])) if planned else math.nan,
        evaluations=float(np.median([row.evaluations or 0 for row in planned])) if planned else math.nan,
    )


def _last(value: float) -> float:
    return math.inf if math.isnan(value) else value


def samples(rows: Iterable[ValidationRow]) -> Mapping[str, Sequence[float]]:
    """By optimizer and cost model, cost over the best known of each scenario, FAR at most; for a figure."""
    found: dict[str, list[float]] = {}
    for row in rows:
        cost = FAR if row.regret is None else min(1.0 + row.regret, FAR)
        found.setdefault(LABEL.format(optimizer=row.optimizer, cost_model=row.cost_model), []).append(cost)
    return found


def csv_rows(rows: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Rows of `ValidationRow` as a table of plain values."""
    return [{name: value for name, value in row.items() if name != "plan"} for row in rows]
