"""Chained operators, which run as one task: fused by a plan, or chained by an engine.

Between fused operators there is no channel, no queue and no serialisation: a tuple goes through all of them at once, on
one thread. Flink calls it chaining and does it for streams that are forwarded within a slot; Enorm fuses operators with
the same partition attributes (Section 4.3): operators that are keyed by the same attribute can be split alike, as long
as those in between leave its values as they are. Fused operators are a path, given as a set of links.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise

from twin.kinds.mechanism import Collecting, Selecting
from twin.kinds.operator import KeyedOperator
from twin.plan import ExecutionPlan
from twin.profiles import EngineProfile
from twin.query import Query, Stream


def attributes_of(query: Query, name: str) -> frozenset[str]:
    """Attributes by which an operator is keyed; empty if they are not given."""
    return frozenset(getattr(query.operator(name), "partition_by", None) or ())


def dealt_by(query: Query, path: Iterable[str]) -> frozenset[str]:
    """Attributes of the results of chained operators, of which each value is with one of their replicas."""
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
    several replicas and no attributes."""
    for operator in query.operators:
        attributes = getattr(operator, "partition_by", None)
        if attributes is None:
            continue
        if not attributes and plan.replicas(operator.name) > 1:
            raise ValueError(
                f"{operator.name!r} has partition_by [], so it cannot be split, and {plan.replicas(operator.name)} "
                "replicas; give it one, or name the attributes that it is keyed by"
            )
        for stream in query.inputs(operator.name):
            how = query.partitioning(stream)
            if attributes and not how.keeps_keys:
                raise ValueError(
                    f"{operator.name!r} has partition_by, but {stream.producer} -> {stream.consumer} is dealt by "
                    f"{how}; use hash, or leave partition_by out"
                )


Fused = tuple[str, ...]
"""Chained operators, in data-flow order; at least two."""


def fused(query: Query, plan: ExecutionPlan, engine: EngineProfile) -> tuple[Fused, ...]:
    """All chains under a plan that has been checked, ordered by the names of their first operators."""
    follower = {producer: consumer for group in plan.fused for producer, consumer in pairwise(group)}
    if engine.chaining:
        follower |= {stream.producer: stream.consumer for stream in query.streams if _chained(query, plan, stream)}
    firsts = sorted(follower.keys() - follower.values())
    return tuple(tuple(_path(follower, first)) for first in firsts)


def one_a_task(readings: Mapping[str, float], chains: Sequence[Fused]) -> dict[str, float]:
    """Readings by operator, one for each task: engines and runs show a task's at each of its operators, of which the
    first that has one stands for it."""
    firsts = {name: next((each for each in chain if each in readings), name) for chain in chains for name in chain}
    return {name: reading for name, reading in readings.items() if firsts.get(name, name) == name}


def _path(follower: dict[str, str], first: str) -> Iterator[str]:
    name: str | None = first
    while name is not None:
        yield name
        name = follower.get(name)


def _chained(query: Query, plan: ExecutionPlan, stream: Stream) -> bool:
    """Whether an engine chains the ends of a stream by itself: tuples go to the same place, or might as well."""
    return query.partitioning(stream).in_turn and not why_apart(query, plan, (stream.producer,), stream.consumer)


def still_fused(query: Query, plan: ExecutionPlan) -> ExecutionPlan:
    """A plan made of another one, without chains that cannot run as one at their new places."""
    if not plan.fused:
        return plan
    kept = [
        group
        for group in plan.fused
        if not any(why_apart(query, plan, group[:number], group[number]) for number in range(1, len(group)))
    ]
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
        for number, name in enumerate(group[1:], 1):
            why = why_apart(query, plan, group[:number], name)
            if why:
                raise ValueError(f"plan.fused.{index}: {why}")


def why_apart(query: Query, plan: ExecutionPlan, path: Sequence[str], consumer: str) -> str:
    """Reason why an operator cannot be chained to those before it, with the remedy; empty if it can."""
    producer = path[-1]
    never = why_never(query, producer, consumer)
    if never:
        return never
    places = plan.locations(producer)
    if places != plan.locations(consumer):
        return f"replicas of {producer!r} and {consumer!r} are not at the same places, in order; place them alike"
    if len(places) > 1 and not goes_straight_on(query, path, consumer):
        how = query.partitioning(query.outputs(producer)[0])
        keyed = ", or name the keys that both have in partition_by" if how.keeps_keys else ""
        return (
            f"{how} deals the tuples of each of the {len(places)} replicas of {producer!r} to all of {consumer!r}; "
            f"use forward, or one replica{keyed}"
        )
    return ""


def goes_straight_on(query: Query, path: Sequence[str], consumer: str) -> bool:
    """Whether tuples may go from each replica straight to the consumer's at the same place: any replica will do, or
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
    if len(outputs) > 1:
        return f"{producer!r} sends to {_names([each.consumer for each in outputs])}; fuse what has one consumer"
    if len(inputs) > 1:
        return f"{consumer!r} takes from {_names([each.producer for each in inputs])}; it can only be the first"
    lonely = next((name for name in (producer, consumer) if query.operator(name).runs_alone), None)
    if lonely is not None:
        return f"{lonely!r} is a task by itself, whatever the plan; fuse others"
    one, other = (query.slot_sharing_groups[name] for name in (producer, consumer))
    if one != other:
        return f"{producer!r} and {consumer!r} are in the slot sharing groups {one!r} and {other!r}; give both the same"
    timed = _in_event_time(query, producer, consumer)
    if timed:
        return timed
    if stream.overflow == "drop":
        return f"stream {producer} -> {consumer} drops what finds no room, and between fused operators is no channel"
    operator = query.operator(consumer)
    if isinstance(operator, KeyedOperator) and operator.key_groups is not None:
        return f"{consumer!r} has key_groups, which are dealt on a stream; it can only be the first"
    return ""


def may_chain(query: Query, stream: Stream) -> bool:
    """Whether an engine that chains operators does so with the ends of a stream wherever they are placed alike."""
    return query.partitioning(stream).in_turn and not why_never(query, stream.producer, stream.consumer)


def _in_event_time(query: Query, producer: str, consumer: str) -> str:
    """Reason why an operator cannot follow another on the way of event times; empty if it can: only sources, filters
    and maps are followed before event time, and only filters, maps and sinks follow after it."""
    timed = [operator.name for operator in query.operators if operator.needs_event_time]
    first, then = query.operator(producer), query.operator(consumer)
    touched = any(
        producer == each or producer in query.ancestors(each) or each in query.ancestors(producer) for each in timed
    )
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
