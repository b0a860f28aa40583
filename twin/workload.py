"""What comes to a job: the arrival law of each source, the skew of keys, and which subtask gets which partitions and
key groups."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, NamedTuple

import numpy as np
from pydantic import Field

from twin.arrivals.laws import ArrivalLaw, BurstState, Bursty, Constant, Diurnal, Poisson, Spikes, Step, Steps
from twin.arrivals.replay import Replay
from twin.errors import BadInput, suggest
from twin.key_skew import Alignment, KeySkew, default_key_groups
from twin.spec import Spec

if TYPE_CHECKING:
    from twin.plan import ExecutionPlan
    from twin.query import AnyOperator, Query, Stream


__all__ = [
    "ArrivalLaw",
    "Arrivals",
    "BurstState",
    "Bursty",
    "Constant",
    "Diurnal",
    "Poisson",
    "Replay",
    "Spikes",
    "Step",
    "Steps",
    "Workload",
]

# workloads -----------------------------------------------------------------------------------------------------------


Arrivals = Annotated[
    Constant | Poisson | Bursty | Diurnal | Steps | Spikes | Replay,
    Field(discriminator="law"),
]


class Workload(Spec):
    """Workload of a job: the arrival law of each source, and the spread of keyed operators' input over key groups."""

    arrivals: dict[str, Arrivals]
    keys: dict[str, KeySkew] = Field(default_factory=dict, description="by operator; absent: all key groups alike")


# partitions of a topic -----------------------------------------------------------------------------------------------
# Partitions of a topic: each is read by one subtask, so what a subtask gets comes in whole partitions.
#
# Subtasks are dealt partitions in turn, from the topic's first reader on: number `first + p` modulo R reads partition
# p.


ROUNDING = 1e-9
"""Part of the largest share by which shares may differ through rounding."""


class Reader(NamedTuple):
    """Subtask that reads something. subtask: its number. share: of the source's records; None: as all others."""

    subtask: int
    share: float | None


def read_by(source: AnyOperator, parallelism: int, partitions: int) -> list[range]:
    """Numbers of the partitions that each subtask reads, of so many."""
    first = source.first_reader(parallelism)
    return [range((k - first) % parallelism, partitions, parallelism) for k in range(parallelism)]


def read_shares(source: AnyOperator, parallelism: int) -> np.ndarray:
    """Share of the records that each subtask reads; 0 without a partition, or with silent ones alone. [parallelism]"""
    if source.parts is None:
        return np.full(parallelism, 1.0 / parallelism)
    dealt, shares = read_by(source, parallelism, source.parts), source.part_shares
    if shares is None:
        return np.array([len(own) for own in dealt]) / source.parts
    return np.array([shares[own.start : own.stop : own.step].sum() for own in dealt])


def even(source: AnyOperator, parallelism: int) -> bool:
    """Whether all subtasks read equal shares."""
    shares = read_shares(source, parallelism)
    return float(np.ptp(shares)) <= ROUNDING * float(shares.max())


def readers(source: AnyOperator, parallelism: int, law: ArrivalLaw) -> list[Reader]:
    """Subtasks that read something, in order.

    Raises BadInput for single recorded records, which are dealt in turn, if shares are uneven.
    """
    shares = read_shares(source, parallelism)
    reading = np.flatnonzero(shares)
    if np.ptp(shares[reading]) <= ROUNDING * shares.max():
        return [Reader(k, None) for k in reading.tolist()]
    if isinstance(law, Replay) and law.recording.rates_per_s is None:
        raise BadInput(
            f"source {source.name!r}: single recorded records are dealt to subtasks in turn, which {source.parts} "
            f"partitions on {parallelism} subtasks do not allow; {_remedy(source)}"
        )
    return [Reader(k, float(shares[k])) for k in reading.tolist()]


def _remedy(source: AnyOperator) -> str:
    if source.part_shares is not None:
        return "give a recording of rates, or leave partition_shares out"
    return f"use a number of subtasks that divides {source.parts}"


# key groups ----------------------------------------------------------------------------------------------------------
# Key groups: the units in which a keyed operator's records and state are spread over its subtasks, and moved.


DEFAULT_GROUPS = 128
GROUPS_A_SUBTASK = 16
"""Key groups behind a two-choice stream whose number is not given: the least, and the least for each subtask."""


def group_count(query: Query, name: str, parallelism: int) -> int | None:
    """Number of key groups of an operator with that many subtasks; None if its input is not dealt by key group.

    `key_groups` if given; else, if a two-choice stream leads there, 128, or 16 a subtask if that is more; over event
    time, and where rows are kept by key, Flink's default, or 1 if all records have one key.
    """
    operator = query.operator(name)
    given = key_groups_of(operator)
    if given is not None:
        return given
    if operator.needs_event_time or operator.keeps_rows:
        return 1 if operator.counted == 1 else default_key_groups(parallelism)
    if any(query.partitioning(stream).two_choices for stream in query.inputs(name)):
        return max(DEFAULT_GROUPS, GROUPS_A_SUBTASK * parallelism)
    return None


def key_groups_of(operator: AnyOperator) -> int | None:
    """Number of key groups that the operator itself gives; None if it gives none."""
    return getattr(operator, "key_groups", None)


def contiguous(groups: int, parallelism: int) -> tuple[int, ...]:
    """Subtask of each key group, in contiguous ranges as Flink assigns them."""
    return tuple(group * parallelism // groups for group in range(groups))


def distinct_values(operator: AnyOperator, skew: KeySkew | None, groups: int) -> np.ndarray:
    """Number of distinct group-by values in each key group: of the keys that are given, or evenly. [groups]"""
    given = None if skew is None else skew.keys_by_group(groups)
    return operator.values_by_key_group(groups) if given is None else given


def touched(records: int | np.ndarray, chances: np.ndarray) -> np.ndarray:
    """Probability that a key is among that many records, each of which has it with probability `chances`. [G]"""
    return np.asarray(1.0 - np.power(1.0 - chances, records))


def check_keys(query: Query, plan: ExecutionPlan, workload: Workload) -> None:
    """Raises ValueError if an assignment of key groups or a skew does not fit the operators that it names."""
    names = [operator.name for operator in query.operators]
    counts = {name: group_count(query, name, plan.parallelism(name)) for name in names}
    for where, given in (("plan.key_groups", plan.key_groups), ("workload.keys", workload.keys)):
        for name in given:
            if name not in counts:
                raise ValueError(f"{where} names unknown operator {name!r}; {suggest(name, names)}")
            if counts[name] is None:
                raise ValueError(
                    f"{where} names {name!r}, which has no key groups; give the operator key_groups (Flink's default "
                    f"for its subtasks is {default_key_groups(plan.parallelism(name))})"
                )
    for name, skew in workload.keys.items():
        _check_skew(query.operator(name), counts[name] or 0, skew)
    for stream in query.streams:
        if query.operator(stream.consumer).merges:
            _check_merged(stream, workload)
    for name, groups in counts.items():
        if groups is not None:
            _check_owners(name, groups, plan.parallelism(name), plan.key_groups.get(name))


def _check_skew(operator: AnyOperator, groups: int, skew: KeySkew) -> None:
    if skew.keys is not None:
        counted = operator.values(0)  # 0 if their number is not given
        if counted not in (0, skew.key_count):
            raise ValueError(
                f"workload.keys.{operator.name} gives {skew.key_count} keys, and the operator has {counted}; "
                "make them as many"
            )
    elif skew.shares:
        _check_shares(operator, groups, skew)


def _check_merged(stream: Stream, workload: Workload) -> None:
    """Raises ValueError if keys are given at one end of a stream of partial results only, so that a key would be in
    other key groups there."""
    ends = stream.producer, stream.consumer
    sent, merged = (workload.keys.get(name, KeySkew()) for name in ends)
    if (sent.keys, sent.long_keys) != (merged.keys, merged.long_keys):
        given, other = ends if sent.keys is not None else reversed(ends)
        raise ValueError(
            f"workload.keys.{given} gives keys, and {other!r} has the same ones, as {stream.consumer!r} merges what "
            f"{stream.producer!r} sends; give workload.keys.{other} these keys, too"
        )


def _check_shares(operator: AnyOperator, groups: int, skew: KeySkew) -> None:
    if len(skew.shares) != groups:
        raise ValueError(
            f"workload.keys.{operator.name} has {len(skew.shares)} shares for {groups} key groups; give one each"
        )
    empty = np.flatnonzero((operator.values_by_key_group(groups) == 0) & (skew.by_group(groups) > 0))
    if len(empty):
        raise ValueError(
            f"workload.keys.{operator.name} gives key group {empty[0]} a share, and none of the operator's groups is "
            "in it; give it 0, or the operator more groups"
        )


def _check_owners(name: str, groups: int, parallelism: int, owners: Sequence[int] | None) -> None:
    if owners is None:
        if groups < parallelism:
            raise ValueError(
                f"{name!r} has {groups} key groups for {parallelism} subtasks, so some would be idle; "
                "give it more key_groups or fewer subtasks"
            )
        return
    if len(owners) != groups:
        raise ValueError(f"plan.key_groups.{name} has {len(owners)} entries for {groups} key groups; give one each")
    for owner in owners:
        if not 0 <= owner < parallelism:
            raise ValueError(
                f"plan.key_groups.{name} names subtask {owner}; {name!r} has {parallelism} subtasks, counted from 0"
            )


def check_alignments(query: Query, workload: Workload) -> None:
    """Raises ValueError if an alignment does not fit the operators that it joins, or their keys."""
    for stream in query.streams:
        if stream.alignment is not None:
            _check_alignment(query, stream, stream.alignment)
            if stream.alignment.share == 1.0 and stream.consumer in workload.keys:
                raise ValueError(
                    f"workload.keys.{stream.consumer}: its keys are those of {stream.producer!r}, by the alignment of "
                    "the stream between them; say there how frequent they are, or give the alignment a share below 1"
                )
            _check_filled(query, stream, workload)


def _check_filled(query: Query, stream: Stream, workload: Workload) -> None:
    for name in (stream.producer, stream.consumer):
        skew, groups = workload.keys.get(name), key_groups_of(query.operator(name)) or 0
        if skew is not None and not distinct_values(query.operator(name), skew, groups).all():
            raise ValueError(
                f"workload.keys.{name}: an aligned stream is between key groups that have keys, and not all have with "
                "these; give it fewer key_groups, or more keys"
            )


def _check_alignment(query: Query, stream: Stream, alignment: Alignment) -> None:
    where = f"the alignment of stream {stream.producer!r} -> {stream.consumer!r}"
    producer, consumer = query.operator(stream.producer), query.operator(stream.consumer)
    ends = {each.name: key_groups_of(each) for each in (producer, consumer)}
    for name, count in ends.items():
        if count is None:
            raise ValueError(f"{where} is between key groups, and {name!r} has none; give it key_groups")
        if not query.operator(name).values_by_key_group(count).all():
            raise ValueError(f"{where}: {name!r} has key groups without keys; give it at most as many as groups")
    sends, hears = ends[producer.name] or 0, ends[consumer.name] or 0
    if not query.partitioning(stream).keeps_keys:
        raise ValueError(f"{where} needs hash partitioning, not {query.partitioning(stream)}")
    if producer.joins:
        raise ValueError(
            f"{where}: the keys of a join's results are not known; align what follows from other operators"
        )
    if alignment.pattern == "one-to-one" and sends != hears:
        raise ValueError(f"{where} is one-to-one between {sends} and {hears} key groups; give both as many")
    if alignment.pattern == "partial-merge" and hears > sends:
        raise ValueError(f"{where} merges {sends} key groups into {hears}; give {consumer.name!r} no more than {sends}")
    if (alignment.degree or 1) > hears:
        raise ValueError(f"{where} has a degree of {alignment.degree}, but {consumer.name!r} has {hears} key groups")
