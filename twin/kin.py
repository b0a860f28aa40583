"""Kin: records that come from one record by several ways, and so have the same key wherever the ways meet.

A record is made by a source, a flat map, a window, a join or a session. What passes records on one by one, or drops
some (filters, maps, calls, routers, tables, keyed state), leaves them what they are, with all of their attributes. So
at an operator that is keyed by one of these, all copies of a record have the same key; another operator may be keyed
by another attribute, which says nothing of this one.
"""

from __future__ import annotations

from collections import defaultdict
from typing import NamedTuple

import numpy as np

from twin.kinds.flow import Flow
from twin.plan import ExecutionPlan
from twin.query import AnyOperator, Query, Stream

# where copies meet ---------------------------------------------------------------------------------------------------


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


# how many meet -------------------------------------------------------------------------------------------------------


Output = tuple[str, ...]
"""Where copies leave: an operator; or, where consumers get shares of what it sends, the operator and the consumer."""


class CopiesMet:
    """Rates at which two copies of one record come to a join by its two inputs, so that they have the same key.

    A record that goes several ways has a copy on each; a router sends it one way alone, or to each consumer by itself.
    What passes records on lets some share of them through, each copy by itself; what makes records anew (`passes`) ends
    a copy's way. pairs: copies a second, by two outputs. [N]
    """

    def __init__(self, query: Query) -> None:
        self.query = query
        self.pairs: dict[Output, dict[Output, np.ndarray]] = {}

    def at(self, operator: AnyOperator) -> np.ndarray | float:
        """Pairs of copies a second that come to an operator by its two inputs; 0 if it is no join of two. [N]"""
        streams = self.query.inputs(operator.name)
        if not operator.joins or len(streams) != 2:
            return 0.0
        one, other = (self._output(stream) for stream in streams)
        return self.pairs.get(one, {}).get(other, 0.0)

    def leave(self, operator: AnyOperator, flow: Flow) -> None:
        """Notes the flow through an operator, after all before it."""
        name = operator.name
        if name not in self.query.before_joins_of_copies:
            return
        with_others, with_itself = self._passed(operator, flow)
        parts = {stream.consumer: operator.share_to(stream.consumer) for stream in self.query.outputs(name)}
        whole = all(part == 1.0 for part in parts.values()) and not operator.exclusive
        outputs = {(name,): 1.0} if whole else {(name, consumer): part for consumer, part in parts.items()}
        made: dict[Output, dict[Output, np.ndarray]] = {}
        for output, part in outputs.items():
            made[output] = {other: pairs * part for other, pairs in with_others.items()}
            for other, pairs in made[output].items():
                self.pairs[other][output] = pairs
            for sibling, share in outputs.items():
                if sibling == output:
                    made[output][output] = flow.out_per_s * part + with_itself * part**2
                elif not operator.exclusive:
                    made[output][sibling] = (flow.out_per_s + with_itself) * part * share
        self.pairs |= made

    def _passed(self, operator: AnyOperator, flow: Flow) -> tuple[dict[Output, np.ndarray], np.ndarray | float]:
        """Pairs a second of what leaves an operator that passes records on: with what left others before it, and of two
        copies that have come by different inputs. [N]"""
        met, twice = dict[Output, np.ndarray](), 0.0
        if not passes(operator):
            return met, twice
        streams = self.query.inputs(operator.name)
        leaves = [operator.passed_from(stream.side) for stream in streams]
        came = np.sum([rate * part for rate, part in zip(flow.inputs_per_s, leaves, strict=True)], axis=0)
        share = np.divide(flow.out_per_s, came, out=np.zeros_like(flow.out_per_s), where=came > 0.0)
        for number, (stream, part) in enumerate(zip(streams, leaves, strict=True)):
            known = self.pairs[self._output(stream)]
            for other, pairs in known.items():
                met[other] = met.get(other, 0.0) + share * part * pairs
            for second, more in zip(streams[:number], leaves, strict=False):
                twice = twice + 2.0 * share**2 * part * more * known.get(self._output(second), 0.0)
        return met, twice

    def _output(self, stream: Stream) -> Output:
        several = (stream.producer, stream.consumer)
        return several if several in self.pairs else (stream.producer,)
