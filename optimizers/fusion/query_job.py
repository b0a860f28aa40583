"""Translation of a query of the twin into a job for fusion, with schemas and partition attributes.

A query knows columns by number and type. So each keyed operator is split by an attribute of its own, `NAME.key`, which
no other operator has, unless its `partition_by` or `keys` names attributes; and a map counts as computing all anew,
unless its `passes` names attributes that it leaves as they are. Where a query leaves something open, operators are not
fused: so fusion never sends the tuples of one key to two places.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any

from optimizers.fusion.components import Splits
from optimizers.fusion.job import FusionJob, Kind
from twin.chaining import attributes_of
from twin.deployment import Deployment
from twin.errors import BadInput, suggest
from twin.flow import nominal_rates
from twin.keys import key_groups_of
from twin.kinds.windowed import Windowed
from twin.query import AnyOperator, Query
from twin.spec import parse

Names = Mapping[str, Collection[str]]


def fusion_job(deployment: Deployment, keys: Names | None = None, passes: Names | None = None) -> FusionJob:
    """Fusion job of a deployment: its query's operators with the plan's replicas, and rates as if nothing were
    saturated.

    keys: by operator whose inputs are all dealt by hash, the attributes that it is keyed by. passes: by map, those of
    these that its output has unchanged. Both add to what the query says. A stateful operator whose input is dealt in
    another way stays alone, with one replica. Windows are left out: the twin's are in processing time. Raises
    BadInput for an unknown operator or attribute, for keys of an operator that has none, or if an operator has replicas
    that it cannot be split into.
    """
    query = deployment.query
    keyed = _keys(query, keys or {})
    passed = _passes(query, passes or {}, {name for each in keyed.values() for name in each})
    needed = _needed(query, keyed, passed)
    operators = [_operator(deployment, each, keyed, passed, needed) for each in query.topological]
    document = {"operators": operators, "transfers": _transfers(deployment), "distinct": _distinct(query, keyed)}
    job = parse(FusionJob, document)
    splits = Splits(job)
    for name in job.by_name:
        splits.check((name,))
    return job


def _keys(query: Query, given: Names) -> dict[str, tuple[str, ...]]:
    """Key attributes of each operator that is split by key."""
    own: dict[str, tuple[str, ...]] = {
        each.name: tuple(sorted(attributes_of(query, each.name))) or (f"{each.name}.key",)
        for each in query.operators
        if _by_key(query, each)
    }
    for name, attributes in given.items():
        if name not in own:
            raise BadInput(f"keys names {name!r}, which is not keyed; {suggest(name, own)}")
        if not attributes or isinstance(attributes, str):
            raise BadInput(f"keys of {name!r} should be a list of attributes, got {attributes!r}")
        own[name] = tuple(attributes)
    return own


def _by_key(query: Query, operator: AnyOperator) -> bool:
    ways = [query.partitioning(stream) for stream in query.inputs(operator.name)]
    whole = _whole(operator) or getattr(operator, "partition_by", None) == ()
    return bool(ways) and all(way.keeps_keys for way in ways) and not whole


def _whole(operator: AnyOperator) -> bool:
    """Whether an operator's windows are over all tuples instead of those of a key."""
    return isinstance(operator, Windowed) and not operator.keyed


def _makes_anew(operator: AnyOperator) -> bool:
    """Whether an operator's results are new tuples, which keep no attribute of its input unless the query says so."""
    ends = operator.is_source or operator.is_sink
    return not (ends or operator.thins or isinstance(operator, Windowed))


def _passes(query: Query, given: Names, known: Iterable[str]) -> dict[str, frozenset[str]]:
    maps = [each.name for each in query.operators if _makes_anew(each)]
    for name, attributes in given.items():
        if name not in maps:
            raise BadInput(f"passes names {name!r}, which is no map; {suggest(name, maps)}")
        for attribute in attributes:
            if attribute not in set(known):
                raise BadInput(
                    f"passes of {name!r} names {attribute!r}, by which nothing is keyed; {suggest(attribute, known)}"
                )
    return {name: frozenset(given.get(name, getattr(query.operator(name), "passes", ()))) for name in maps}


def _needed(
    query: Query, keyed: Mapping[str, tuple[str, ...]], passed: Mapping[str, frozenset[str]]
) -> dict[str, frozenset[str]]:
    """Attributes that each operator's input must have: its own keys, and those that later operators need."""
    needed: dict[str, frozenset[str]] = {}
    for operator in reversed(query.topological):
        later = frozenset[str]().union(*(needed[stream.consumer] for stream in query.outputs(operator.name)))
        own = frozenset(keyed.get(operator.name, ()))
        through = later if operator.thins else passed.get(operator.name, frozenset()) & later
        needed[operator.name] = own | through
    return needed


def _operator(
    deployment: Deployment,
    operator: AnyOperator,
    keyed: Mapping[str, tuple[str, ...]],
    passed: Mapping[str, frozenset[str]],
    needed: Mapping[str, frozenset[str]],
) -> dict[str, Any]:
    query, name = deployment.query, operator.name
    inputs, outputs = query.inputs(name), query.outputs(name)
    later = frozenset[str]().union(*(needed[stream.consumer] for stream in outputs))
    found: dict[str, Any] = {"name": name, "kind": _kind(operator, keyed), "replicas": deployment.plan.replicas(name)}
    if inputs:
        found["schema_in"] = [f"{stream.producer}.tuple" for stream in inputs] + sorted(needed[name])
    if outputs:
        found["schema_out"] = [f"{name}.tuple", *sorted(later)]
    if name in passed:
        found["passes"] = sorted(passed[name] & later & needed[name])
    ways = [query.partitioning(stream) for stream in inputs]
    scattered = any(way.copies or way.two_choices for way in ways)  # tuples of a key go to several replicas
    if name in keyed:
        found["partition_by"] = keyed[name]
    elif any(way.whole and not way.copies for way in ways) or _whole(operator):
        found["partition_by"] = []
    elif found["kind"] == "compute" or scattered:
        found |= {"partition_by": [], "replicas": 1}
    return found


def _kind(operator: AnyOperator, keyed: Collection[str]) -> Kind:
    if operator.is_source:
        return "source"
    if operator.is_sink:
        return "sink"
    stateful = isinstance(operator, Windowed) or key_groups_of(operator) is not None or operator.name in keyed
    return "compute" if stateful else "map"


def _transfers(deployment: Deployment) -> list[dict[str, Any]]:
    """Transfers of a job: every consumer of an operator gets all that it emits; by broadcast, every replica of it."""
    query, rates = deployment.query, nominal_rates(deployment.query, deployment.workload.arrivals)
    return [
        {
            "producer": stream.producer,
            "consumer": stream.consumer,
            "rate_per_s": rates[stream.producer].out_per_s
            * query.operator(stream.producer).share_to(stream.consumer)
            * (deployment.plan.replicas(stream.consumer) if query.partitioning(stream).copies else 1),
        }
        for stream in query.streams_by_name
    ]


def _distinct(query: Query, keyed: Mapping[str, tuple[str, ...]]) -> dict[str, int]:
    """Number of values of each attribute that is an operator's only key: at most its key groups, and its keys if
    known."""
    found: dict[str, int] = {}
    for name, attributes in keyed.items():
        operator = query.operator(name)
        counts = [key_groups_of(operator), operator.values(0) or None]  # nobody counts the values of other keys
        for count in counts:
            if count is not None and len(attributes) == 1:
                found[attributes[0]] = min(count, found.get(attributes[0], count))
    return found
