"""Sources and sinks that a plan takes away from where they are: devices, brokers and rooms do not move with them."""

from __future__ import annotations

from twin.plan import ExecutionPlan
from twin.query import Query


def displaced(query: Query, before: ExecutionPlan, after: ExecutionPlan) -> list[str]:
    """Names of the sources and sinks that would run on other hosts than now."""

    def hosts(plan: ExecutionPlan, name: str) -> set[str]:
        return {location.host for location in plan.locations(name)}

    ends = (each.name for each in (*query.sources, *query.sinks))
    return [name for name in ends if hosts(after, name) != hosts(before, name)]


def in_words(query: Query, before: ExecutionPlan, after: ExecutionPlan) -> str | None:
    """What to say of them; None if they stay."""
    moved = displaced(query, before, after)
    if not moved:
        return None
    names = ",".join(moved)
    return f"{', '.join(moved)} would run elsewhere; if a device or a place binds {_them(moved)}: --pin {names}"


def _them(names: list[str]) -> str:
    return "it" if len(names) == 1 else "them"
