"""Highest factor on the rates of all sources that some plan of a job bears.

The program that balances finds the least possible peak utilisation at one rate. Loads of joins grow faster than the
rates, so it is solved again at the rate at which its last plan would be full, until plan and rate agree; once one rate
is known to be too low and one too high, at a rate between them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from optimizers.milp.placing import USED, Placing
from optimizers.program import ProgramLimits
from optimizers.requirements import at_rate
from optimizers.space import Space
from twin.deployment import Deployment
from twin.rates.coefficients import PlacementCoefficients

ROUNDS = 20
CLOSE = 1e-3
"""Relative tolerance of the utilisation that is aimed at."""
FULL, LEAST = 4.0, 1e-6
"""Utilisation that counts where no plan fits into memory, and where nothing is used."""
INSIDE = 0.03
"""Share of the way between two rates by which the next one stays away from either."""


@dataclass(frozen=True, slots=True)
class HighestRate:
    """Answer of `highest_rate`. factor: multiple of the offered rates at which the fullest resource is used to 99 %
    under the plan counts_ol [O, L]; 0 and None where no plan fits into memory."""

    factor: float
    counts_ol: np.ndarray | None


def highest_rate(deployment: Deployment, space: Space, limits: ProgramLimits) -> HighestRate:
    """Plan with the highest rate, by the linear loads of the rate model. limits: of each program."""
    factor, best = 1.0, HighestRate(0.0, None)
    below: RatePoint | None = None
    above: RatePoint | None = None
    for _ in range(ROUNDS):
        found = Placing(PlacementCoefficients.of(at_rate(deployment, factor)), space, "balanced").solve(limits)
        used = FULL if found.counts_ol is None else max(found.cost, LEAST)
        if used <= USED * (1.0 + CLOSE):
            below = RatePoint(factor, used)
            best = max(best, HighestRate(factor, found.counts_ol), key=lambda each: each.factor)
        else:
            above = RatePoint(factor, used)
        if abs(used / USED - 1.0) < CLOSE:
            break
        factor = _between(below, above) if below and above else factor * USED / used
    return best


class RatePoint(NamedTuple):
    """Factor on the rates, and utilisation of the fullest resource at it."""

    factor: float
    used: float


def _between(below: RatePoint, above: RatePoint) -> float:
    """Factor between the two points at which the utilisation is as wanted, if it is a power of the rate."""
    along = math.log(USED / below.used) / math.log(above.used / below.used)
    return below.factor * (above.factor / below.factor) ** min(max(along, INSIDE), 1.0 - INSIDE)
