"""Kin: records that come from one record by several ways, and so have the same key wherever the ways meet.

A record is made by a source, a flat map, a window, a join or a session. What passes records on one by one, or drops
some (filters, maps, calls, routers, tables, keyed state), leaves them what they are, with all of their attributes. So
at an operator that is keyed by one of these, all copies of a record have the same key; another operator may be keyed by
another attribute, which says nothing of this one.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from twin.plan import ExecutionPlan
    from twin.query import AnyOperator, Query


class Kin(NamedTuple):
    """meet: operators at which copies of a record meet. makers: those whose records have copies that meet."""

    meet: frozenset[str]
    makers: frozenset[str]


class _Leaving(NamedTuple):
    """Records that leave an operator. makers: who made them; twice: those of whose records two copies may leave.

    sent_to: by operator that sends a record on several streams, that of them by which all that leave here have come
    (its consumer, and the input there if it has a name), unless copies have met.
    """

    makers: set[str]
    twice: set[str]
    sent_to: dict[str, tuple[str, ...]]


def passes(operator: AnyOperator) -> bool:
    """Whether what leaves an operator are the records that came, one for each at most."""
    return not operator.is_source and operator.hands_over == "records" and operator.gain <= 1.0


def kin(query: Query, plan: ExecutionPlan) -> Kin:
    """Where copies of a record meet at operators with keys, one subtask a key, and who makes these records. So do
    partial results of a key with those of other subtasks.

    Two copies of a record come to an operator if a stream into it copies records, if they were sent to different
    consumers before, or if they have met already. An exclusive operator sends no copies.
    """
    leaving: dict[str, _Leaving] = {}
    meet, makers = set[str](), set[str]()
    for operator in query.topological:
        name = operator.name
        came, twice = set[str](), set[str]()
        sent_to: defaultdict[str, set[tuple[str, ...]]] = defaultdict(set)
        for stream in query.inputs(name):
            producer, sent = stream.producer, leaving[stream.producer]
            came |= sent.makers
            twice |= sent.makers if query.partitioning(stream).copies and plan.parallelism(name) > 1 else sent.twice
            for fork, consumer in sent.sent_to.items():
                sent_to[fork].add(consumer)
            if len(query.outputs(producer)) > 1 and not query.operator(producer).exclusive:
                sent_to[producer].add(stream.key[1:])
        for fork, consumers in sent_to.items():
            if len(consumers) > 1:
                twice |= leaving[fork].makers
        together = plan.parallelism(name) == 1 or all(
            query.partitioning(each).keeps_keys for each in query.inputs(name)
        )
        if operator.keyed and together and twice:
            meet.add(name)
            makers |= twice
        if any(query.operator(stream.producer).sends_keys for stream in query.inputs(name)):
            meet.add(name)  # results have lots, by which they come to the key that they are of
        one_way = {fork: min(consumers) for fork, consumers in sent_to.items() if len(consumers) == 1}
        leaving[name] = _Leaving(came, twice, one_way) if passes(operator) else _Leaving({name}, set(), {})
    return Kin(frozenset(meet), frozenset(makers))
