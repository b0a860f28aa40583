"""Key groups: the units in which a keyed operator's tuples and state are spread over its replicas, and moved."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Self

import numpy as np
from pydantic import Field, model_validator

from twin.errors import suggest
from twin.spec import Spec

if TYPE_CHECKING:
    from twin.kinds.registry import AnyOperator
    from twin.plan import ExecutionPlan
    from twin.query import Query
    from twin.workload import Workload

DEFAULT_GROUPS = 128
GROUPS_A_REPLICA = 16


class KeySkew(Spec):
    """How unevenly the tuples into an operator are spread over its key groups, and how that drifts.

    The k-th most frequent key group gets a share in proportion to k^-zipf; which one it is, the seed decides. Every
    `drift_every_s` seconds a random `drift_share` of the key groups exchange their ranks. Or each key group has the
    share that was measured.
    """

    zipf: Annotated[float, Field(ge=0, le=10, description="exponent; 0: all key groups alike")] = 0.0
    drift_every_s: Annotated[float | None, Field(ge=1e-6, description="absent: no drift")] = None
    drift_share: Annotated[float, Field(gt=0, le=1, description="share of the key groups that exchange ranks")] = 0.1
    shares: Annotated[
        tuple[Annotated[float, Field(ge=0)], ...],
        Field(
            exclude_if=lambda shares: not shares,
            description="instead: by key group, in any unit, such as tuples counted",
        ),
    ] = ()

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.shares and (self.zipf or self.drift_every_s is not None):
            raise ValueError("shares of key groups are measured; leave out zipf and drift_every_s")
        if self.shares and not sum(self.shares) > 0:
            raise ValueError("shares of key groups must not all be 0")
        return self

    def measured(self) -> np.ndarray:
        """By key group, of all; they sum to 1. Empty if there are none. [groups]"""
        return np.asarray(self.shares) / (sum(self.shares) or 1.0)


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


def groups_of(groups: int, replica: int, replicas: int) -> int:
    """How many of an operator's distinct group-by values live on one replica, dealt round robin."""
    return groups // replicas + (1 if replica < groups % replicas else 0)


def zipf_shares(groups: int, exponent: float) -> np.ndarray:
    """Shares by rank, the largest first; they sum to 1. [groups]"""
    weights = np.arange(1, groups + 1, dtype=float) ** -exponent
    return np.asarray(weights / weights.sum())


def check_keys(query: Query, plan: ExecutionPlan, workload: Workload) -> None:
    """Raises ValueError if an assignment of key groups or a skew does not fit the operators that it names."""
    names = [operator.name for operator in query.operators]
    counts = {name: group_count(query, name, plan.replicas(name)) for name in names}
    for where, given in (("plan.key_groups", plan.key_groups), ("workload.keys", workload.keys)):
        for name in given:
            if name not in counts:
                raise ValueError(f"{where} names unknown operator {name!r}; {suggest(name, names)}")
            if counts[name] is None:
                raise ValueError(f"{where} names {name!r}, which has no key groups; give the operator key_groups")
    for name, skew in workload.keys.items():
        if skew.shares:
            _check_shares(query.operator(name), counts[name] or 0, skew)
    for name, groups in counts.items():
        if groups is not None:
            _check_owners(name, groups, plan.replicas(name), plan.key_groups.get(name))


def _check_shares(operator: AnyOperator, groups: int, skew: KeySkew) -> None:
    if len(skew.shares) != groups:
        raise ValueError(
            f"workload.keys.{operator.name} has {len(skew.shares)} shares for {groups} key groups; give one each"
        )
    empty = np.flatnonzero((operator.values_by_key_group(groups) == 0) & (skew.measured() > 0))
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
