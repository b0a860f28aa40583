"""How finely a run whose fidelity is `auto` follows tuples: one by one where they are few, else in segments.

Segments save nothing where tuples are hardly more than them, dealt to many replicas, and they cost precision.
"""

from __future__ import annotations

from twin.guards.effort import LONG_STEPS, estimate
from twin.job import compile
from twin.scenario import Scenario

WORTH = 3.0
"""So many times the steps of a fast run are spent on an exact one, if it is not long."""


def settled(scenario: Scenario) -> Scenario:
    """The same, with `exact` or `fast` for `auto`. Where segments are asked for, it is fast."""
    if scenario.run.fidelity != "auto":
        return scenario
    fast, exact = (scenario.with_run(fidelity=each) for each in ("fast", "exact"))
    if scenario.run.segments is not None:
        return fast
    job = compile(scenario)
    segments, tuples = (estimate(job, each.run, each.events).steps for each in (fast, exact))
    return exact if tuples <= segments or tuples <= min(WORTH * segments, LONG_STEPS) else fast
