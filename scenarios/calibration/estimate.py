"""Estimates of calibrated constants: value, confidence interval, and the error at half and twice the value."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import numpy as np
from pydantic import Field

from scenarios.calibration.host_cpu import Base
from scenarios.calibration.newton import NewtonFit
from scenarios.calibration.structures import Explained
from scenarios.calibration.unit_costs import UnitCost
from twin.spec import Spec

KNOWN = 0.5
"""Share of a constant's value that its standard error must stay below for the constant to count as known."""
NORMAL_95 = 1.96


class Estimate(Spec):
    """Estimate of one constant. low, high: a 95 % confidence interval. halved, doubled: factor by which the squared
    error of all readings would grow at half and twice the value, all other constants fitted anew; at 1 the points
    cannot tell. known: whether they can."""

    name: str
    unit: str
    prior: Annotated[float, Field(ge=0, description="of the profile that was there before")]
    value: Annotated[float, Field(ge=0)]
    low: Annotated[float, Field(ge=0)]
    high: Annotated[float, Field(ge=0)]
    halved: Annotated[float, Field(ge=1)]
    doubled: Annotated[float, Field(ge=1)]
    known: bool


def from_linear(found: Explained) -> tuple[Estimate, ...]:
    """Estimates of unit costs. Costs that occur in no row are left out."""
    fit, rows = found.fit, found.rows
    shown_k = np.abs(rows.need_rk).max(axis=0, initial=0.0) > 1e-9
    table = zip(found.costs, fit.values_k.tolist(), fit.spread_k.tolist(), fit.intervals_k2().tolist(), strict=True)
    return tuple(
        _around(cost, value, spread, ends, len(rows.cores_r))
        for shown, (cost, value, spread, ends) in zip(shown_k, table, strict=True)
        if shown
    )


def from_logs(found: NewtonFit, costs: Sequence[UnitCost]) -> tuple[Estimate, ...]:
    """Estimates of constants that were fitted as logarithms."""
    spread_k = np.sqrt(np.maximum(np.diag(found.covariance_kk), 0.0))
    rows = max(1, found.readings)
    estimates = []
    for cost, log, spread in zip(costs, found.logs_k.tolist(), spread_k.tolist(), strict=True):
        value = cost.prior * float(np.exp(log))
        reach = float(np.exp(min(NORMAL_95 * spread, 20.0)))
        off = _growth(float(np.log(2.0)), spread, rows)
        estimates.append(_estimate(cost, value, (value / reach, value * reach), (off, off), spread < KNOWN))
    return tuple(estimates)


def from_bases(found: Mapping[str, Base], points: int) -> tuple[Estimate, ...]:
    """Estimates of the CPU that the engine uses without records, by host."""
    estimates = []
    for host, base in found.items():
        value, spread = 100.0 * base.cores, 100.0 * base.spread
        ends = max(0.0, value - NORMAL_95 * spread), value + NORMAL_95 * spread
        estimates.append(_around(UnitCost(f"base {host}", "% of a core", 0.0), value, spread, ends, points))
    return tuple(estimates)


def _around(cost: UnitCost, value: float, spread: float, ends: Sequence[float], rows: int) -> Estimate:
    """Estimate of a constant that was fitted itself, not as its logarithm."""
    grown = [_growth(value * share, spread, rows) for share in (0.5, 1.0)]
    return _estimate(cost, value, ends, grown, spread < KNOWN * value)


def _growth(off: float, spread: float, rows: int) -> float:
    """Factor by which the squared error grows if a constant is moved by `off` and the others are fitted again."""
    return 1.0 + (off / spread) ** 2 / rows if spread > 0 else 1.0


def _estimate(cost: UnitCost, value: float, ends: Sequence[float], grown: Sequence[float], known: bool) -> Estimate:
    (low, high), (halved, doubled) = ends, (min(each, 1e12) for each in grown)
    about: dict[str, Any] = {"name": cost.name, "unit": cost.unit, "prior": cost.prior}
    return Estimate(**about, value=value, low=low, high=high, halved=halved, doubled=doubled, known=known)
