"""Engines that nobody told, simulated.

Engine A: all unit costs of `storm` times 0.3 to 3, services of squared coefficient of variation 1. Engine B: that, and
filters cost by function up to 2.5 times more or less, hosts give the 0.8th power of their cores, tasks that share cores
switch contexts, and hosts pause for garbage.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from scenarios.calibration.structures import with_power
from scenarios.calibration.unit_costs import charged, of_functions, of_kinds
from twin.profiles import STORM, Noise
from twin.scenario import Scenario

FACTORS = (0.3, 3.0)
FUNCTION_FACTOR = 2.5
EXPONENT = 0.8
CONTEXT_SWITCH = 0.02
NOISE = Noise(gc_interval_s=10.0, gc_pause_s=0.05)


def hidden(scenarios: Sequence[Scenario], engine: str, seed: int) -> list[Scenario]:
    """The scenarios as the engine really is."""
    rng = np.random.default_rng(seed)
    queries = [each.query for each in scenarios]
    costs = of_kinds(STORM) if engine == "A" else of_functions(STORM, queries)
    low, high = map(math.log, FACTORS)
    true = {each.name: each.prior * math.exp(rng.uniform(low, high)) for each in of_kinds(STORM)}
    if engine == "B":
        reach = math.log(FUNCTION_FACTOR)
        by_function = (each for each in costs if ":" in each.name)
        true |= {
            each.name: true[each.name.partition(":")[0]] * math.exp(rng.uniform(-reach, reach)) for each in by_function
        }
    return [_as_it_is(each, true, engine) for each in scenarios]


def _as_it_is(scenario: Scenario, true: dict[str, float], engine: str) -> Scenario:
    found = charged(scenario, true)
    changes: dict[str, object] = {"service_scv": 1.0}
    if engine == "B":
        changes |= {"context_switch": CONTEXT_SWITCH, "noise": NOISE}
        found = with_power(found, EXPONENT)
    return found.model_copy(update={"engine": found.engine.model_copy(update=changes)})
