"""Key groups: the units in which a keyed operator's tuples and state are spread over its replicas, and moved."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from twin.errors import suggest
from twin.flink_keys import default_key_groups
from twin.key_skew import KeySkew

if TYPE_CHECKING:
    from twin.kinds.registry import AnyOperator
    from twin.plan import ExecutionPlan
    from twin.query import Query
    from twin.workload import Workload

DEFAULT_GROUPS = 128
GROUPS_A_REPLICA = 16


def group_count(query: Query, name: str, replicas: int) -> int | None:
    """Key groups of an operator with that many replicas; None if its input is not dealt by key group.

    `key_groups` if given; else, if a two-choice stream leads there, 128, or 16 a replica if that is more.
    """
    given = key_groups_of(query.operator(name))
    if given is not None:
        return given
    if any(query.partitioning(stream).two_choices for stream in query.inputs(name)):
        return max(DEFAULT_GROUPS, GROUPS_A_REPLICA * replicas)
    return None


def key_groups_of(operator: AnyOperator) -> int | None:
    """The operator's own number of key groups, if it has one."""
    return getattr(operator, "key_groups", None)


def contiguous(groups: int, replicas: int) -> tuple[int, ...]:
    """The replica of each key group, in contiguous ranges as Flink assigns them."""
    return tuple(group * replicas // groups for group in range(groups))


def distinct_values(operator: AnyOperator, skew: KeySkew | None, groups: int) -> np.ndarray:
    """How many distinct group-by values fall into each key group: of the keys that are given, or evenly. [groups]"""
    given = None if skew is None else skew.keys_by_group(groups)
    return operator.values_by_key_group(groups) if given is None else given


def touched(tuples: int | np.ndarray, chances: np.ndarray) -> np.ndarray:
    """How likely a key is among so many tuples, each of which is of it by that chance. [G]"""
    return np.asarray(1.0 - np.power(1.0 - chances, tuples))


def check_keys(query: Query, plan: ExecutionPlan, workload: Workload) -> None:
    """Raises ValueError if an assignment of key groups or a skew does not fit the operators that it names."""
    names = [operator.name for operator in query.operators]
    counts = {name: group_count(query, name, plan.replicas(name)) for name in names}
    for where, given in (("plan.key_groups", plan.key_groups), ("workload.keys", workload.keys)):
        for name in given:
            if name not in counts:
                raise ValueError(f"{where} names unknown operator {name!r}; {suggest(name, names)}")
            if counts[name] is None:
                raise ValueError(
                    f"{where} names {name!r}, which has no key groups; give the operator key_groups (Flink's default "
                    f"for its replicas is {default_key_groups(plan.replicas(name))})"
                )
    for name, skew in workload.keys.items():
        _check_skew(query.operator(name), counts[name] or 0, skew)
    for name, groups in counts.items():
        if groups is not None:
            _check_owners(name, groups, plan.replicas(name), plan.key_groups.get(name))


def _check_skew(operator: AnyOperator, groups: int, skew: KeySkew) -> None:
    if skew.keys is not None:
        counted = operator.values(0)  # none where nobody counts them
        if counted not in (0, skew.key_count):
            raise ValueError(
                f"workload.keys.{operator.name} gives {skew.key_count} keys, and the operator has {counted}; "
                "make them as many"
            )
    elif skew.shares:
        _check_shares(operator, groups, skew)


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


def _check_owners(name: str, groups: int, replicas: int, owners: Sequence[int] | None) -> None:
    if owners is None:
        if groups < replicas:
            raise ValueError(
                f"{name!r} has {groups} key groups for {replicas} replicas, so some would be idle; "
                "give it more key_groups or fewer replicas"
            )
        return
    if len(owners) != groups:
        raise ValueError(f"plan.key_groups.{name} has {len(owners)} entries for {groups} key groups; give one each")
    for owner in owners:
        if not 0 <= owner < replicas:
            raise ValueError(
                f"plan.key_groups.{name} names replica {owner}; {name!r} has {replicas} replicas, counted from 0"
            )
