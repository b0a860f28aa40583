"""How much more could a job take? The highest factor on the rates of all sources that a plan bears.

The program that balances gives the least of the highest utilisations at one rate. Loads of joins grow faster than the
rates, so it is asked again at the rate at which its last plan would be full, until plan and rate agree.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from optimizers.milp.placing import USED, Placing
from optimizers.milp.program import Limits
from optimizers.milp.rated import at_rate
from optimizers.milp.space import Space
from twin.deployment import Deployment
from twin.rates.coefficients import PlacementCoefficients

ROUNDS = 12
CLOSE = 1e-3
"""Relative, of the utilisation that is aimed at."""


@dataclass(frozen=True, slots=True)
class HighestRate:
    """factor: on the offered rates, at which the fullest resource is used to 99 % under the plan counts_ol; 0, None
    where no plan fits into memory."""

    factor: float
    counts_ol: np.ndarray | None


def highest_rate(deployment: Deployment, space: Space, limits: Limits) -> HighestRate:
    """By the linear loads of the rate model. limits: of each program."""
    factor, best = 1.0, HighestRate(0.0, None)
    for _ in range(ROUNDS):
        found = Placing(PlacementCoefficients.of(at_rate(deployment, factor)), space, "balanced").solve(limits)
        if found.counts_ol is None:
            factor /= 2.0
            continue
        if found.cost <= USED * (1.0 + CLOSE) and factor > best.factor:
            best = HighestRate(factor, found.counts_ol)
        if abs(found.cost / USED - 1.0) < CLOSE:
            break
        factor *= USED / max(found.cost, 1e-9)
    return best
