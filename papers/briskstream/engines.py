"""BriskStream's applications under other engines: modelled, by engine profiles or by published ratios."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from papers.briskstream.published import EXECUTE_OF_STORM, OTHERS_OF_STORM
from twin.profiles import PROFILES, EngineProfile
from twin.query import AnyOperator, Query
from twin.scenario import RunSettings, Scenario

BRISK = "brisk"
STORM_BY_RATIOS = "storm-by-ratios"
WITHOUT_JUMBO = "brisk-without-jumbo"

OTHERS = 0.1
"""Assumed share of BriskStream's time a tuple that is not function execution but queues, objects, and checks (its Fig.
8 is only drawn). The larger it is, the more jumbo tuples gain."""
STORM_EXECUTES = 1.0 / math.sqrt(math.prod(EXECUTE_OF_STORM))
"""Ratio of Storm's execution time to BriskStream's, for all applications: the middle, on a logarithmic scale, of the
ratios published for word count's operators."""


@dataclass(frozen=True, slots=True)
class Ratios:
    """Ratios to BriskStream's times of a tuple: of execution, and of everything else; each tuple is sent alone."""

    execute: float
    others: float

    @property
    def factor(self) -> float:
        """Factor on BriskStream's time of a tuple."""
        return (1.0 - OTHERS) * self.execute + OTHERS * self.others


RATIOS: Mapping[str, Ratios] = {
    STORM_BY_RATIOS: Ratios(STORM_EXECUTES, 1.0 / OTHERS_OF_STORM),
    WITHOUT_JUMBO: Ratios(1.0, 1.0 / OTHERS_OF_STORM),
}
"""Engines that no profile describes. Without jumbo tuples everything but execution costs as in Storm."""


def under(scenario: Scenario, engine: str) -> Scenario:
    """Scenario of the brisk engine under another engine; under brisk itself unchanged.

    An operator's time of a tuple is the profile's cost of its kind and values on top of the operator's own time, which
    is BriskStream's and contains next to no engine; sizes of tuples stay. Runs take longer in proportion, so that as
    many tuples pass.
    """
    if engine == BRISK:
        return scenario
    if engine in RATIOS:
        return _by_ratio(scenario, RATIOS[engine].factor)
    profile = PROFILES[engine]
    query, before = scenario.query, scenario.engine
    slower = _work_s(query, profile, before) / _work_s(query, None, before)
    operators = tuple(
        each.__class__(
            **{
                **dict(each),
                "service_time_s": _charged_s(query, profile, each.name) + before.service_s(query, each),
                "tuple_bytes": before.output_bytes(query, each.name),
            }
        )
        for each in query.operators
    )
    return _slowed(scenario, operators, profile, slower)


def _by_ratio(scenario: Scenario, factor: float) -> Scenario:
    """Scenario with all times multiplied and every tuple sent alone; the rest of the profile is brisk's."""
    query, before = scenario.query, scenario.engine
    operators = tuple(
        each.__class__(**{**dict(each), "service_time_s": factor * before.service_s(query, each)})
        for each in query.operators
    )
    alone = before.model_copy(update={"batch_tuples": 1, "buffer_bytes": None, "flush_s": None})
    return _slowed(scenario, operators, alone, factor)


def _slowed(scenario: Scenario, operators: tuple[AnyOperator, ...], engine: EngineProfile, slower: float) -> Scenario:
    run = scenario.run
    longer = {name: getattr(run, name) * slower for name in ("horizon_s", "warmup_s", "period_s")}
    return Scenario(
        **{
            **dict(scenario),
            "query": Query(operators=operators, streams=scenario.query.streams),
            "engine": engine,
            "run": RunSettings(**{**dict(run), **longer}),
        }
    )


def _charged_s(query: Query, profile: EngineProfile, name: str) -> float:
    """Time that a profile charges for an operator without a time of its own."""
    bare = query.operator(name)
    return profile.service_s(query, bare.__class__(**{**dict(bare), "service_time_s": None}))


def _work_s(query: Query, profile: EngineProfile | None, before: EngineProfile) -> float:
    """Time of one tuple in all operators, one after the other."""
    own_s = sum(before.service_s(query, each) for each in query.operators)
    return own_s + (0.0 if profile is None else sum(_charged_s(query, profile, each.name) for each in query.operators))
