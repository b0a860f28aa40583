"""What makes a prediction for a scenario doubtful: parts of it that a model does not see, and a limit that is near."""

from __future__ import annotations

from itertools import pairwise

from optimizers.requirements import at_rate
from twin.metrics import CostModel
from twin.rates.model import RateModel
from twin.scenario import Scenario

NUDGE, STEEP = 0.05, 1.2
"""Share by which loads are moved to see whether latencies depend on them, and the factor on latencies from which they
do: of random jobs, a prediction in fourteen is then named, and those that were off by more than 1.3 near a limit."""


def doubts(model: CostModel, scenario: Scenario) -> tuple[str, ...]:
    """What a cost model does not see of a scenario under its own plan, in words: parts that it ignores, and its load
    where latencies are steep."""
    return (*model.blind_to(scenario), *steepness(scenario))


def steepness(scenario: Scenario) -> tuple[str, ...]:
    """Words on latencies that NUDGE more records, or fewer, move by more than STEEP, by the rate model; empty if they
    do not.

    Loads are known to some per cent, so such latencies are known to no better than that, whichever model predicts them.
    """
    loads = [at_rate(scenario, factor) for factor in (1.0 - NUDGE, 1.0, 1.0 + NUDGE)]
    less, now, more = (RateModel().answer(load, [scenario.plan]) for load in loads)
    ages_s = [float(each.costs["processing_latency_s"][0]) for each in (less, now, more)]
    most = max(max(pair) / max(min(pair), 1e-12) for pair in pairwise(ages_s))
    if most <= STEEP:
        return ()
    pressures = dict(zip(now.operators, now.offered_pressure[0], strict=True))
    fullest = max(pressures, key=lambda name: pressures[name])
    moved = f"{NUDGE:.0%} moves latencies by a factor of {most:.2g}"
    return (f"loads to better than {NUDGE:.0%}, and {moved} ({fullest} is fullest, at {pressures[fullest]:.0%})",)
