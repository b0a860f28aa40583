"""Checks of queries with windows over event time: how their operators must fit together (Enorm, Sections 4.2, 4.3).

Enorm's Fig. 5 has four configurations: partial results into consolidates (5.1), complete windows into anything (5.2),
complete windows into consolidates of longer ones (5.3), and records at once (5.4). Everything else is refused here.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from twin.errors import BadInput
from twin.kinds.mechanism import Reading
from twin.windows import EventWindow, Panes, completed, form, instance, panes_of

if TYPE_CHECKING:
    from twin.kinds.registry import AnyOperator
    from twin.plan import ExecutionPlan
    from twin.query import Query

PHASES = 1000
"""Most instances of a window that are checked to be tiled by shorter ones."""


def check_event_time(query: Query) -> None:
    """Raises ValueError, with the remedy, if an operator over event time does not fit its neighbours."""
    if not any(operator.needs_event_time for operator in query.operators):
        return
    for stream in query.streams:
        if query.partitioning(stream).one_queue:
            raise ValueError(
                f"stream {stream.producer} -> {stream.consumer}: where windows are over event time, subtasks cannot "
                "share a queue, in which punctuations would be overtaken; use rebalance"
            )
    for operator in query.operators:
        if operator.needs_event_time:
            _check_way(query, operator)
        consumers = [query.operator(stream.consumer) for stream in query.outputs(operator.name)]
        for consumer in consumers:
            if operator.hands_over == "partials" and not consumer.merges:
                raise ValueError(
                    f"{operator.name!r} hands partial results to {consumer.name!r}, which does not merge them; give it "
                    "windows instead of partial_s, or a consolidate behind it"
                )
        if operator.merges:
            _check_merging(query, operator)
        late_to = getattr(operator, "late_to", None)
        for other in query.operators if late_to is not None else ():
            if other.needs_event_time and late_to in (other.name, *query.ancestors(other.name)):
                raise ValueError(
                    f"{operator.name!r} sends late records to {late_to!r}, and they are late for {other.name!r} as "
                    "well; send them to operators that do not use event time"
                )


def check_together(query: Query, plan: ExecutionPlan) -> None:
    """Raises ValueError unless a consolidate that is combined with its compute has its key groups where that has
    them."""
    for operator in query.operators:
        if not getattr(operator, "combined", False):
            continue
        name = operator.name
        producers = [query.operator(stream.producer) for stream in query.inputs(name)]
        if len(producers) != 1 or producers[0].hands_over != "partials" or len(query.outputs(producers[0].name)) != 1:
            raise ValueError(
                f"{name!r} is combined, which takes one compute that nobody else reads; leave combined out"
            )
        compute = producers[0].name
        if plan.locations(name) != plan.locations(compute):
            raise ValueError(f"plan.placement.{name}: it is combined with {compute!r}; give both the same subtasks")
        if plan.key_groups.get(name) != plan.key_groups.get(compute):
            raise ValueError(f"plan.key_groups.{name}: it is combined with {compute!r}; give both the same owners")


def partial_panes(query: Query, name: str) -> Panes:
    """Panes of an operator that hands over partial results: those of all windows that are made of them."""
    return panes_of(merged_windows(query, name), getattr(query.operator(name), "partial_s", None))


def merged_windows(query: Query, name: str) -> tuple[EventWindow, ...]:
    """All windows that are made of an operator's results; for one that emits windows, its own."""
    operator = query.operator(name)
    if operator.hands_over != "partials":
        return operator.event_windows
    behind = [query.operator(stream.consumer) for stream in query.outputs(name)]
    return tuple(dict.fromkeys(window for each in behind for window in each.event_windows))


def in_time(query: Query, name: str) -> bool:
    """Whether the slack of all sources covers the disorder of their records, and none is left behind as idle."""
    reads = [each for other in query.ancestors(name) if isinstance(each := query.operator(other).mechanism, Reading)]
    return all(each.slack_s >= each.disorder_s and each.idle_s is None for each in reads)


def _check_way(query: Query, operator: AnyOperator) -> None:
    """Raises ValueError unless event times reach the operator, and all records of a key reach one subtask."""
    for stream in query.inputs(operator.name):
        how = query.partitioning(stream)
        if not how.keeps_keys:
            raise ValueError(f"{how} into {operator.name!r} sends records of one key to different subtasks; use hash")
        if stream.overflow == "drop" and operator.merges:
            raise ValueError(f"stream {stream.producer} -> {stream.consumer}: partial results cannot be dropped; block")


def _check_merging(query: Query, operator: AnyOperator) -> None:
    mine: tuple[EventWindow, ...] = operator.event_windows
    for stream in query.inputs(operator.name):
        producer = query.operator(stream.producer)
        if producer.hands_over != "partials" and not producer.merges:
            raise ValueError(
                f"{operator.name!r} merges partial results, and {producer.name!r} sends none; put a compute with "
                "partial_s before it"
            )
        for field in ("keys", "key_groups"):
            if getattr(producer, field) != getattr(operator, field):
                raise ValueError(
                    f"{operator.name!r} has {getattr(operator, field)} {field} and {producer.name!r}, whose results it "
                    f"merges, has {getattr(producer, field)}; give both the same"
                )
        try:
            if producer.merges:
                _check_tiled(mine, producer.event_windows, producer.name)
            else:
                partial_panes(query, producer.name)
        except BadInput as error:
            raise ValueError(f"{operator.name!r} after {producer.name!r}: {error}") from None


def _check_tiled(longer: tuple[EventWindow, ...], shorter: tuple[EventWindow, ...], name: str) -> None:
    """Raises BadInput unless every instance of the longer windows is made of whole instances of the shorter ones."""
    panes = panes_of([*longer, *shorter])
    again_us = math.lcm(*(window.every_us for window in (*longer, *shorter)))
    for window in longer:
        for number in range(min(PHASES, again_us // window.every_us)):
            due = instance(window, number)
            ends: dict[int, list[int]] = {}
            for other in shorter:
                for piece in map(panes.of, completed(other, due.start, due.end)):
                    ends.setdefault(piece.start, []).append(piece.end)
            try:
                form([panes.of(due)], ends)
            except BadInput:
                raise BadInput(
                    f"a window of {window.length_s:g} s is not made of whole windows of {name!r}; give {name!r} "
                    "windows that tile it"
                ) from None
