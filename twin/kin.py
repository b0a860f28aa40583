"""Kin: records that come from one record by several ways, and so have the same key wherever the ways meet.

A record is made by a source, a flat map, a window, a join or a session. What passes records on one by one, or drops
some (filters, maps, calls, routers, tables, keyed state), leaves them what they are, with all of their attributes. So
at an operator that is keyed by one of these, all copies of a record have the same key; another operator may be keyed by
another attribute, which says nothing of this one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import combinations
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from twin.plan import ExecutionPlan
    from twin.query import AnyOperator, Query

Choices = frozenset[tuple[str, str]]
"""Consumers to which exclusive operators on a way send a record, and to no other."""
Ways = Mapping[str, tuple[Choices, ...]]
"""Ways of a record from the operator that makes it; by this operator. Of ways with the same choices, two at most."""


class Kin(NamedTuple):
    """meet: operators at which copies of a record meet. makers: those whose records have copies that meet."""

    meet: frozenset[str]
    makers: frozenset[str]


def passes(operator: AnyOperator) -> bool:
    """Whether what leaves an operator are the records that came, one for each at most."""
    return not operator.is_source and operator.hands_over == "tuples" and operator.gain <= 1.0


def kin(query: Query, plan: ExecutionPlan) -> Kin:
    """Where copies of a record meet at operators with keys, one subtask a key, and who makes these records."""
    leaving: dict[str, Ways] = {}
    meet, makers = set[str](), set[str]()
    for operator in query.topological:
        name = operator.name
        came: dict[str, list[Choices]] = {}
        ways_in = [query.partitioning(stream) for stream in query.inputs(name)]
        for stream in query.inputs(name):
            producer = query.operator(stream.producer)
            choice = frozenset([(producer.name, name)] if producer.exclusive else [])
            copied = query.partitioning(stream).copies and plan.replicas(name) > 1
            for maker, ways in leaving[producer.name].items():
                came.setdefault(maker, []).extend([each | choice for each in ways] * (2 if copied else 1))
        twice = {maker for maker, ways in came.items() if any(map(_both, combinations(ways, 2)))}
        together = plan.replicas(name) == 1 or all(how.keeps_keys for how in ways_in)
        if operator.keyed and together and twice:
            meet.add(name)
            makers |= twice
        passed = {each: _few(ways) for each, ways in came.items()}
        leaving[name] = passed if passes(operator) else {name: (frozenset(),)}
    return Kin(frozenset(meet), frozenset(makers))


def _both(ways: tuple[Choices, Choices]) -> bool:
    """Whether one record can go both ways."""
    chosen = dict(ways[0])
    return all(chosen.get(operator, consumer) == consumer for operator, consumer in ways[1])


def _few(ways: Iterable[Choices]) -> tuple[Choices, ...]:
    """Ways without a third one of the same choices, which would tell nothing more."""
    listed = list(ways)
    return tuple(each for number, each in enumerate(listed) if listed[:number].count(each) < 2)
