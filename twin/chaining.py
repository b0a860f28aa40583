"""Chained operators, which run as one task: fused by a plan, or chained by an engine.

Between fused operators there is no channel, no queue and no serialisation: a record goes through all of them at once,
on one thread. Flink calls it chaining and does it for streams that are forwarded within a slot; Enorm fuses operators
with the same partition attributes (Section 4.3): operators that are keyed by the same attribute can be split alike, as
long as those in between leave its values as they are. Fused operators are a tree: each but the first has one input,
from another one of them; each may have several consumers, within the tree and outside.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from twin.kinds.mechanism import Collecting, Selecting
from twin.kinds.operator import KeyedOperator
from twin.plan import ExecutionPlan
from twin.profiles import EngineProfile
from twin.query import Query, Stream


def attributes_of(query: Query, name: str) -> frozenset[str]:
    """Attributes by which an operator is keyed; empty if they are not given."""
    return frozenset(getattr(query.operator(name), "partition_by", None) or ())


def dealt_by(query: Query, path: Iterable[str]) -> frozenset[str]:
    """Attributes of the results of chained operators, of which each value is with one of their subtasks."""
    held: frozenset[str] | None = None
    for name in path:
        own = attributes_of(query, name)
        if held is None:
            held = own
        elif any(query.partitioning(stream).keeps_keys for stream in query.inputs(name)):
            held &= own
        held = query.operator(name).kept(held)
    return held or frozenset()


def check_partition_attributes(query: Query, plan: ExecutionPlan) -> None:
    """Raises ValueError, with the remedy, if a stream does not keep an operator's attributes together, or it has
    several subtasks and no attributes."""
    for operator in query.operators:
        attributes = getattr(operator, "partition_by", None)
        if attributes is None:
            continue
        if not attributes and plan.parallelism(operator.name) > 1:
            raise ValueError(
                f"{operator.name!r} has partition_by [], so it cannot be split, and {plan.parallelism(operator.name)} "
                "subtasks; give it one, or name the attributes that it is keyed by"
            )
        for stream in query.inputs(operator.name):
            how = query.partitioning(stream)
            if attributes and not how.keeps_keys:
                raise ValueError(
                    f"{operator.name!r} has partition_by, but {stream.producer} -> {stream.consumer} is dealt by "
                    f"{how}; use hash, or leave partition_by out"
                )


Fused = tuple[str, ...]
"""Chained operators, in data-flow order; at least two. The first one takes what comes to the task."""
Link = tuple[str, str]
"""Names of producer and consumer of a stream within a task."""


def fused(query: Query, plan: ExecutionPlan, engine: EngineProfile) -> tuple[Fused, ...]:
    """All chains under a plan that has been checked, ordered by the names of their first operators."""
    before = {consumer: producer for group in plan.fused for producer, consumer in links(query, group)}
    if engine.chaining:
        for operator in query.topological:
            for stream in query.inputs(operator.name):
                if operator.name not in before and _chained(query, plan, before, stream):
                    before[operator.name] = stream.producer
    return trees(query, before)


def trees(query: Query, before: Mapping[str, str]) -> tuple[Fused, ...]:
    """Groups of operators that follow each other, ordered by the names of the first ones, each in data-flow order.
    before: the operator that each follows, by name."""
    found = dict[str, list[str]]()
    home = dict[str, list[str]]()
    for operator in query.topological if before else ():
        name = operator.name
        home[name] = home[before[name]] if name in before else found.setdefault(name, [])
        home[name].append(name)
    return tuple(tuple(found[first]) for first in sorted(found) if len(found[first]) > 1)


def links(query: Query, group: Fused) -> list[Link]:
    """Streams within chained operators: the one input of each but the first."""
    return [(stream.producer, name) for name in group[1:] for stream in query.inputs(name)]


def links_of(query: Query, groups: Iterable[Fused]) -> frozenset[Link]:
    """All streams within tasks."""
    return frozenset(link for group in groups for link in links(query, group))


def path_to(query: Query, group: Fused, name: str) -> Fused:
    """Operators of a group from its first one to one of them, itself included."""
    path = [name]
    while path[0] != group[0]:
        path.insert(0, query.inputs(path[0])[0].producer)
    return tuple(path)


def written(query: Query, group: Fused, arrow: str = " -> ") -> str:
    """Chained operators in words, as Flink writes them: `source -> (filter -> map, sink)`."""
    behind = dict[str, list[str]]()
    for producer, consumer in links(query, group):
        behind.setdefault(producer, []).append(consumer)

    def told(name: str) -> str:
        branches = [told(each) for each in behind.get(name, ())]
        rest = ", ".join(branches)
        return arrow.join([name, f"({rest})" if len(branches) > 1 else rest] if branches else [name])

    return told(group[0])


def one_a_task(readings: Mapping[str, float], chains: Sequence[Fused]) -> dict[str, float]:
    """Readings by operator, one for each task: engines and runs show a task's at each of its operators, of which the
    first that has one stands for it."""
    firsts = {name: next((each for each in chain if each in readings), name) for chain in chains for name in chain}
    return {name: reading for name, reading in readings.items() if firsts.get(name, name) == name}


def _chained(query: Query, plan: ExecutionPlan, before: Mapping[str, str], stream: Stream) -> bool:
    """Whether an engine chains the ends of a stream by itself. before: the operators that others follow so far."""
    path = [stream.producer]
    while path[0] in before:
        path.insert(0, before[path[0]])
    return (
        is_forwarded(query, stream)
        and not why_apart(query, plan, path, stream.consumer)
        and not differs_behind(query, plan, path[0], stream)
    )


def still_fused(query: Query, plan: ExecutionPlan) -> ExecutionPlan:
    """A plan made of another one, without chains that cannot run as one at their new places."""
    if not plan.fused:
        return plan
    kept = [group for group in plan.fused if not any(_whys_apart(query, plan, group))]
    return plan.model_copy(update={"fused": tuple(kept)})


def check_fused(query: Query, plan: ExecutionPlan) -> None:
    """Raises ValueError, with the remedy, for operators of `plan.fused` that cannot run as one."""
    where = dict[str, int]()
    known = [operator.name for operator in query.operators]
    for index, group in enumerate(plan.fused):
        for name in group:
            if name not in known:
                raise ValueError(f"plan.fused.{index} names unknown operator {name!r}; one of {', '.join(known)}")
            if name in where:
                raise ValueError(f"plan.fused.{index}: {name!r} is in plan.fused.{where[name]} already; name it once")
            where[name] = index
        for why in filter(None, _whys_apart(query, plan, group)):
            raise ValueError(f"plan.fused.{index}: {why}")


def _whys_apart(query: Query, plan: ExecutionPlan, group: Fused) -> Iterator[str]:
    """For each operator of a group but the first, the reason why it cannot be in it; empty if it can."""
    for number, name in enumerate(group[1:], 1):
        before = next((each.producer for each in query.inputs(name) if each.producer in group[:number]), None)
        path = group[:number] if before is None else path_to(query, group, before)
        yield why_apart(query, plan, path, name)


def why_apart(query: Query, plan: ExecutionPlan, path: Sequence[str], consumer: str) -> str:
    """Reason why an operator cannot be chained to those before it, with the remedy; empty if it can. path: from the
    first operator of the task to the consumer's producer."""
    producer = path[-1]
    never = why_never(query, producer, consumer) or _in_event_time(query, path[0], producer, consumer)
    if never:
        return never
    places = plan.locations(producer)
    if places != plan.locations(consumer):
        return f"subtasks of {producer!r} and {consumer!r} are not at the same places, in order; place them alike"
    if len(places) > 1 and not goes_straight_on(query, path, consumer):
        how = query.partitioning(next(each for each in query.outputs(producer) if each.consumer == consumer))
        keyed = ", or name the keys that both have in partition_by" if how.keeps_keys else ""
        return (
            f"{how} deals the records of each of the {len(places)} subtasks of {producer!r} to all of {consumer!r}; "
            f"use forward, or one subtask{keyed}"
        )
    return ""


def goes_straight_on(query: Query, path: Sequence[str], consumer: str) -> bool:
    """Whether records may go from each subtask straight to the consumer's at the same place: any subtask will do, or
    their key has brought them there."""
    how = query.partitioning(next(stream for stream in query.outputs(path[-1]) if stream.consumer == consumer))
    same_keys = how.keeps_keys and dealt_by(query, path) & attributes_of(query, consumer)
    return how.in_turn or how.one_queue or bool(same_keys)


def why_never(query: Query, producer: str, consumer: str) -> str:
    """Reason why no placement lets two operators run as one, with the remedy; empty if some may."""
    outputs, inputs = query.outputs(producer), query.inputs(consumer)
    stream = next((each for each in outputs if each.consumer == consumer), None)
    if stream is None:
        return f"there is no stream from {producer!r} to {consumer!r}; fuse operators in data-flow order"
    if (how := query.partitioning(stream)).splits:
        return f"{how} keeps {producer!r} and {consumer!r} apart, as in Flink; use forward"
    unlike = _unlike(query, producer)
    if len(outputs) > 1 and unlike is not None:
        others = _names([each.consumer for each in outputs if each.consumer != unlike])
        return f"{producer!r} sends {unlike!r} other records than {others}; let all of them run apart"
    if len(inputs) > 1:
        return f"{consumer!r} takes from {_names([each.producer for each in inputs])}; it can only be the first"
    lonely = next((name for name in (producer, consumer) if query.operator(name).is_alone), None)
    if lonely is not None:
        return f"{lonely!r} is a task by itself, whatever the plan; fuse others"
    one, other = (query.slot_sharing_groups[name] for name in (producer, consumer))
    if one != other:
        return f"{producer!r} and {consumer!r} are in the slot sharing groups {one!r} and {other!r}; give both the same"
    timed = _in_event_time(query, producer, producer, consumer)
    if timed:
        return timed
    if stream.overflow == "drop":
        return f"stream {producer} -> {consumer} drops what finds no room, and between fused operators is no channel"
    operator = query.operator(consumer)
    if isinstance(operator, KeyedOperator) and (operator.key_groups is not None or operator.keeps_rows):
        return f"{consumer!r} takes its records by key, which are dealt on a stream; it can only be the first"
    return ""


def may_chain(query: Query, stream: Stream) -> bool:
    """Whether an engine that chains operators does so with the ends of a stream wherever they are placed alike."""
    return is_forwarded(query, stream) and not why_never(query, stream.producer, stream.consumer)


def is_forwarded(query: Query, stream: Stream) -> bool:
    """Whether an engine forwards a stream's records where its ends are placed alike, as Flink does: because it says so,
    or says nothing and any subtask will do. `rebalance`, if it is said, is meant."""
    how = query.partitioning(stream)
    return how.paired or (stream.partitioning is None and how.in_turn)


def differs_behind(query: Query, plan: ExecutionPlan, head: str, stream: Stream) -> bool:
    """Whether the consumer of a stream, or what a plan fuses behind it, cannot be in one task with `head`, because
    of event times."""
    behind = [link for group in plan.fused for link in links(query, group) if group[0] == stream.consumer]
    return any(_in_event_time(query, head, *link) for link in ((stream.producer, stream.consumer), *behind))


def _unlike(query: Query, producer: str) -> str | None:
    """Consumer that gets other records of an operator than the others: late ones, or windows to merge; None if none
    does."""
    operator, consumers = query.operator(producer), [each.consumer for each in query.outputs(producer)]
    uneven = (each for each in consumers if operator.share_to(each) != 1.0 or query.operator(each).merges)
    return next(uneven, None)


def _in_event_time(query: Query, head: str, producer: str, consumer: str) -> str:
    """Reason why an operator cannot follow another in the task of `head` on the way of event times; empty if it can:
    only sources, filters and maps are followed before event time, and only filters, maps and sinks follow after it."""
    timed = [operator.name for operator in query.operators if operator.needs_event_time]
    first, then = query.operator(producer), query.operator(consumer)
    touched = any(head == each or head in query.ancestors(each) or each in query.ancestors(head) for each in timed)
    if not touched:
        return ""
    if then.needs_event_time:
        why = f"{consumer!r} works in event time, and its keys are dealt on a stream; it can only be the first"
        return f"{why}, or one component with its compute by combined: true" if then.merges else why
    if not isinstance(then.mechanism, Selecting | Collecting):
        return f"{consumer!r} is behind event time, where only filters, maps and sinks follow others; let it run apart"
    if not (first.is_source or first.needs_event_time or isinstance(first.mechanism, Selecting)):
        return f"{producer!r} leads to event time, where only sources, filters and maps are followed; let it run apart"
    return ""


def _names(names: Sequence[str]) -> str:
    return " and ".join(map(repr, names))
