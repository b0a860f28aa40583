"""How long calls to systems outside take: constants of single operators, which CPU time does not show.

Latencies of results hold them, and what is delivered where the calls of all replicas together are too few: the capacity
of a replica over the time of a call. Capacities are settings of the job, and known.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from scenarios.calibration.point import Point
from scenarios.calibration.unit_costs import UnitCost
from twin.kinds.async_io import Calling
from twin.query import AnyOperator, Query
from twin.scenario import Scenario

CALL = "call_s."


def of_calls(points: Sequence[Point]) -> list[UnitCost]:
    """One for each operator whose calls take time, by its name; a priori as the first job that has it says."""
    found: dict[str, float] = {}
    for point in points:
        for operator in point.scenario.query.operators:
            if isinstance(operator, Calling) and operator.calls.latency_s > 0.0:
                found.setdefault(operator.name, operator.calls.latency_s)
    return [UnitCost(f"{CALL}{name}", "s", prior_s) for name, prior_s in found.items()]


def with_calls(scenario: Scenario, hidden: Mapping[str, float]) -> Scenario:
    """The scenario with calls that take so long; unchanged where nothing is said of any."""
    named = {name.removeprefix(CALL): value for name, value in hidden.items() if name.startswith(CALL)}
    if not named:
        return scenario
    operators = tuple(_with(each, named.get(each.name)) for each in scenario.query.operators)
    return scenario.model_copy(update={"query": Query(operators=operators, streams=scenario.query.streams)})


def _with(operator: AnyOperator, latency_s: float | None) -> AnyOperator:
    return operator if latency_s is None else operator.model_copy(update={"latency_s": latency_s})
