"""What values cost the source that makes them, of what they cost whoever handles them further on.

A profile charges a tuple's values alike everywhere. Behind a source they are read, hashed and copied; a source may only
put them together. Where no CPU time was measured, sources that keep up at high rates tell.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from scenarios.calibration.point import Point
from scenarios.calibration.unit_costs import US, UnitCost
from twin.profiles import EngineProfile
from twin.query import AnyOperator, Query
from twin.scenario import Scenario

MADE = "values_made"


def of_sources(points: Sequence[Point]) -> list[UnitCost]:
    """The one constant; none where no source's cost has to do with values."""
    charged = any(_charged(each.scenario.engine, each.scenario.query, op) for each in points for op in _sources(each))
    return [UnitCost(MADE, "", 1.0)] if charged else []


def with_made(scenario: Scenario, hidden: Mapping[str, float]) -> Scenario:
    """The scenario with sources whose values cost that share; unchanged where nothing is said of it."""
    if MADE not in hidden:
        return scenario
    engine, query = scenario.engine, scenario.query
    operators = tuple(
        _with(engine, query, each, hidden[MADE]) if _charged(engine, query, each) else each for each in query.operators
    )
    return scenario.model_copy(update={"query": Query(operators=operators, streams=query.streams)})


def _sources(point: Point) -> Sequence[AnyOperator]:
    return point.scenario.query.sources


def _charged(engine: EngineProfile, query: Query, operator: AnyOperator) -> bool:
    return operator.is_source and operator.service_time_s is None and _values_us(engine, query, operator) > 0.0


def _with(engine: EngineProfile, query: Query, source: AnyOperator, share: float) -> AnyOperator:
    micros = engine.tuple_us.of(source) + share * _values_us(engine, query, source)
    return source.model_copy(update={"service_time_s": micros * US})


def _values_us(engine: EngineProfile, query: Query, source: AnyOperator) -> float:
    return engine.value_us.total(query.columns_out[source.name])
