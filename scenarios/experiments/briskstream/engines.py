"""BriskStream's applications as other engines would run them: modelled, by the engine profiles."""

from __future__ import annotations

from twin.profiles import PROFILES, EngineProfile
from twin.query import Query
from twin.scenario import RunSettings, Scenario

BRISK = "brisk"


def under(scenario: Scenario, engine: str) -> Scenario:
    """A scenario of the brisk engine under another one; under brisk itself unchanged.

    A tuple takes an operator what the profile charges for its kind and values on top of the operator's own time, which
    is BriskStream's and contains next to no engine; sizes of tuples stay. Runs take longer in proportion, so that as
    many tuples pass.
    """
    if engine == BRISK:
        return scenario
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
    run = scenario.run
    longer = {name: getattr(run, name) * slower for name in ("horizon_s", "warmup_s", "period_s")}
    return Scenario(
        **{
            **dict(scenario),
            "query": Query(operators=operators, streams=query.streams),
            "engine": profile,
            "run": RunSettings(**{**dict(run), **longer}),
        }
    )


def _charged_s(query: Query, profile: EngineProfile, name: str) -> float:
    """What a profile charges for an operator that has no time of its own."""
    bare = query.operator(name)
    return profile.service_s(query, bare.__class__(**{**dict(bare), "service_time_s": None}))


def _work_s(query: Query, profile: EngineProfile | None, before: EngineProfile) -> float:
    """One tuple's time in all operators, one after the other."""
    own_s = sum(before.service_s(query, each) for each in query.operators)
    return own_s + (0.0 if profile is None else sum(_charged_s(query, profile, each.name) for each in query.operators))
