"""Deployments, which are what can be simulated: a query on a cluster under a plan, fed by a workload, run by an engine.

Also here is what follows of one without a simulation: the rates of its operators where nothing is saturated, and how
frequent their keys are.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, NamedTuple, Self

import numpy as np
from pydantic import BeforeValidator, Field, PlainSerializer, model_validator

from twin.chaining import check_fused, check_partition_attributes
from twin.cluster import Cluster, cluster_by_name
from twin.errors import suggest
from twin.key_skew import KeySkew, zipf_shares
from twin.kin import CopiesMet
from twin.kinds.flow import Flow, KeySpread, Mixing, OperatorRates
from twin.kinds.windowed import Windowed
from twin.plan import ExecutionPlan
from twin.profiles import PROFILES, STORM, EngineProfile, profile_by_name
from twin.query import Query, check_together
from twin.spec import Spec, parse
from twin.workload import ArrivalLaw, Workload, check_alignments, check_keys, distinct_values, group_count

# deployments ---------------------------------------------------------------------------------------------------------


def _by_name(profile: EngineProfile) -> Any:
    return profile.name if PROFILES.get(profile.name) == profile else profile.model_dump(mode="json")


Engine = Annotated[
    EngineProfile,
    BeforeValidator(profile_by_name, json_schema_input_type=str | EngineProfile),
    PlainSerializer(_by_name),
    Field(description="a profile's name; or profile, a name, and what differs from it; or all of its numbers"),
]


NamedCluster = Annotated[
    Cluster,
    BeforeValidator(cluster_by_name, json_schema_input_type=str | Cluster),
    Field(description="a cluster's name, or all of its hosts"),
]
"""Cluster that is written with all of its hosts, so that readers of a trace need no names; scenario files write the
name."""


class Deployment(Spec):
    """Deployment of a job, checked across its parts: operators are placed on hosts and sockets that exist, sources are
    fed."""

    query: Query
    cluster: NamedCluster
    plan: ExecutionPlan
    workload: Workload
    engine: Engine = STORM

    @model_validator(mode="after")
    def _check(self) -> Self:
        operators = [operator.name for operator in self.query.operators]
        hosts = {host.name: host for host in self.cluster.hosts}
        for name in self.plan.placement:
            if name not in operators:
                raise ValueError(f"plan.placement names unknown operator {name!r}; {suggest(name, operators)}")
        for name in operators:
            if name not in self.plan.placement:
                raise ValueError(
                    f"plan.placement places nothing for operator {name!r}; add '{name}: HOST', or give "
                    f"it a parallelism in query.operators of a file"
                )
            for location in self.plan.locations(name):
                if location.host not in hosts:
                    raise ValueError(
                        f"plan.placement.{name}: unknown host {location.host!r}; {suggest(location.host, hosts)}"
                    )
                if location.socket >= hosts[location.host].socket_count:
                    raise ValueError(
                        f"plan.placement.{name}: host {location.host!r} has no socket {location.socket}; "
                        f"it has {hosts[location.host].socket_count}, counted from 0"
                    )
        self._check_routes()
        check_partition_attributes(self.query, self.plan)
        check_fused(self.query, self.plan)
        sources = [source.name for source in self.query.sources]
        for name in self.workload.arrivals:
            if name not in sources:
                raise ValueError(f"workload.arrivals names {name!r}, which is no source; {suggest(name, sources)}")
        for name in sources:
            if name not in self.workload.arrivals:
                raise ValueError(f"workload.arrivals gives no rate for source {name!r}; add one")
        check_keys(self.query, self.plan, self.workload)
        check_alignments(self.query, self.workload)
        self._check_shared()
        check_together(self.query, self.plan)
        return self

    def _check_shared(self) -> None:
        for stream in self.query.streams:
            hosts = self.plan.hosts(stream.consumer)
            if self.query.partitioning(stream).one_queue and len(hosts) > 1:
                raise ValueError(
                    f"plan.placement.{stream.consumer}: subtasks that take from a shared queue must be on one host, "
                    f"got {', '.join(sorted(hosts))}; use rebalance between hosts"
                )
            limited = any(host.numa is not None and host.numa.bandwidth_gbps is not None for host in self.cluster.hosts)
            if self.query.partitioning(stream).one_queue and limited:
                raise ValueError(
                    f"stream {stream.producer} -> {stream.consumer}: shared queues cannot be used where "
                    "numa.bandwidth_gbps limits what sockets fetch; use rebalance"
                )

    def _check_routes(self) -> None:
        if not self.cluster.links:
            return
        for stream in self.query.streams:
            starts, ends = (
                [place.host for place in self.plan.locations(end)] for end in (stream.producer, stream.consumer)
            )
            how = self.query.partitioning(stream)
            wired = how.pairs(len(starts), len(ends)) if how.pointwise else ()
            pairs = {(starts[p], ends[c]) for p, c, _ in wired} or {*itertools.product(starts, ends)}
            self.cluster.require_routes(sorted(pairs), f"stream {stream.producer} -> {stream.consumer}")

    def with_plan(self, plan: ExecutionPlan) -> Self:
        """Deployment of the same job under another plan, checked again. Raises BadInput if the plan does not fit."""
        return parse(type(self), {**dict(self), "plan": plan})


# flow through operators ----------------------------------------------------------------------------------------------
# These are steady-state rates. The flow through an operator is computed by its kind (`twin.kinds`). Everything is
# elementwise, so one call can follow a single set of source rates or thousands of them (one a plan).


def nominal_rates(query: Query, arrivals: Mapping[str, ArrivalLaw]) -> dict[str, OperatorRates]:
    """Rates of every operator if all sources keep up with their arrivals (`workload.arrivals`).

    Raises KeyError if a source has no arrival law.
    """
    return steady_rates(query, {source.name: arrivals[source.name].mean_rate_per_s for source in query.sources})


def steady_rates(query: Query, source_rate_per_s: Mapping[str, float]) -> dict[str, OperatorRates]:
    """Rates of every operator for given ingestion rates of the sources. Raises KeyError if one is missing."""
    arrays = {name: np.array([float(rate)]) for name, rate in source_rate_per_s.items()}
    return {
        name: OperatorRates(
            in_per_s=float(flow.in_per_s[0]),
            out_per_s=float(flow.out_per_s[0]),
            window_records=float(flow.window_records[0]),
            fires_per_s=float(flow.fires_per_s[0]),
            groups_per_fire=float(flow.groups_per_fire[0]),
            state_records=float(flow.window_records[0]),
        )
        for name, flow in flows(query, arrays).items()
    }


class Channels(NamedTuple):
    """Channels of few credits, and what else of a plan changes flows: the part of a burst above the credits leaves at
    the pace of the consumer.

    services_s: CPU seconds a record of each input, by operator. stalls_s: service time of an input record, by join
    whose own bursts keep it blocked for longer than the time between evaluations; 0 under plans that do not block it
    [N].
    horizon_s: length of the run. parallelism: by operator whose subtasks each have a count window of their own, or all
    of a stream, or results of the same keys; absent: 1 [N]. spreads: frequencies of keys that are not equally frequent,
    by operator.
    """

    credits: float
    services_s: Mapping[str, tuple[float, ...]]
    stalls_s: Mapping[str, np.ndarray] = {}
    horizon_s: float = np.inf
    parallelism: Mapping[str, np.ndarray] = {}
    spreads: Mapping[str, KeySpread] = {}


def flows(
    query: Query, source_rate_per_s: Mapping[str, np.ndarray], bursts: bool = False, channels: Channels | None = None
) -> dict[str, Flow]:
    """Flow through every operator, in data-flow order. Raises KeyError if a source's rates are missing.

    bursts: whether windows emit their results all at once: a short time window after another window is then often
    empty, and a short count window of a join sees one side only, but for the mixing by `channels`; and the sides of a
    count window are random. Else all streams count as well mixed, and a count window of a join holds its mean of either
    side (Costream, Definition 8).
    """
    found: dict[str, Flow] = {}
    copies_met = CopiesMet(query)
    for operator in query.topological:
        producers = [stream.producer for stream in query.inputs(operator.name)]
        sides = [stream.side for stream in query.inputs(operator.name)]
        inputs = tuple(_sent(query, found, name, operator.name) for name in producers)
        inputs = inputs or (source_rate_per_s[operator.name],)
        whole = tuple(query.partitioning(stream).copies for stream in query.inputs(operator.name))
        copies = 1.0 if channels is None or not any(whole) else channels.parallelism.get(operator.name, 1.0)
        if not isinstance(operator, Windowed):
            inputs = _copied(inputs, whole, copies)
        coming = [found[name].bursts_per_s for name in producers] if bursts else []
        never = [np.full_like(inputs[0], np.inf)] * len(inputs)
        mixing = Mixing(
            by_chance=bursts,
            passed=tuple(operator.passed_from(side) for side in sides),
            pieces_s=tuple(query.operator(name).piece_s for name in producers),
            copies_per_s=copies_met.at(operator),
        )
        if bursts and producers:
            mixing = mixing._replace(burst_s=np.max([found[name].burst_s for name in producers], axis=0))
        if channels is not None:
            mixing = mixing._replace(
                credits=channels.credits,
                services_s=channels.services_s[operator.name],
                stalls_s=channels.stalls_s.get(operator.name),
                horizon_s=channels.horizon_s,
                parallelism=channels.parallelism.get(operator.name, 1.0),
                spread=channels.spreads.get(operator.name),
                whole=whole,
                sets_per_s=tuple(found[name].fires_per_s * channels.parallelism.get(name, 1.0) for name in producers),
            )
        if isinstance(operator, Windowed) and whole and all(whole):
            mixing = mixing._replace(parallelism=1.0)
        flow = operator.through(inputs, coming or never, mixing)
        if isinstance(operator, Windowed) and any(whole):
            flow = _in_copies(operator, flow, whole, copies)
        found[operator.name] = flow
        copies_met.leave(operator, flow)
    return found


def _copied(
    inputs: tuple[np.ndarray, ...], whole: Sequence[bool], copies: np.ndarray | float
) -> tuple[np.ndarray, ...]:
    """Input rates of all subtasks together, where some streams bring every record to each subtask."""
    return tuple(rate * copies if all_ else rate for rate, all_ in zip(inputs, whole, strict=False)) or inputs


def _in_copies(operator: Windowed, flow: Flow, whole: Sequence[bool], copies: np.ndarray | float) -> Flow:
    """Flow through the windows of all subtasks together, where some streams bring every record to each subtask.
    Subtasks that get nothing else all emit the same results; else each match is found by one subtask."""
    inputs = _copied(flow.inputs_per_s, whole, copies)
    taken = np.asarray(np.sum(inputs, axis=0))
    more = np.divide(taken, flow.in_per_s, out=np.ones_like(taken), where=flow.in_per_s > 0)
    flow = flow._replace(inputs_per_s=inputs, in_per_s=taken)
    by_time = operator.window.policy == "time"
    if by_time:
        flow = flow._replace(window_records=flow.window_records * more)
    if not all(whole):
        return flow
    out = np.asarray(flow.out_per_s * copies)
    if by_time:
        return flow._replace(out_per_s=out, groups_per_fire=flow.groups_per_fire * copies)
    return flow._replace(out_per_s=out, fires_per_s=flow.fires_per_s * copies, bursts_per_s=flow.bursts_per_s * copies)


def _sent(query: Query, found: Mapping[str, Flow], producer: str, consumer: str) -> np.ndarray:
    """Records a second on a stream. [N]"""
    share = query.operator(producer).share_to(consumer)
    return found[producer].out_per_s if share == 1.0 else share * found[producer].out_per_s


# frequencies of keys -------------------------------------------------------------------------------------------------
# Laws count distinct keys by strata of about equally frequent ones, as there may be millions of keys.


STRATA = 4
"""Number of strata in which the k-th to the 2 k-th frequent groups are put together, as if these were equally frequent.
With 1 of them, a Zipf law of 16 groups gives 1 % more distinct keys than there are; with 4, less than 0.1 %; one of
exponent 2, 0.2 %."""


def spreads(deployment: Deployment, names: Sequence[str]) -> dict[str, KeySpread]:
    """Spread of operators' records over their keys, by name, where it matters: keys are skewed, or come to several
    subtasks of a windowed aggregate. Key groups, or keys that are given, are put together in strata. Both phases of an
    aggregate have the keys of the one at which they are drawn."""
    found, query = {}, deployment.query
    for name in names:
        operator = query.operator(name)
        if not operator.spreads:
            continue
        by = query.outputs(name)[0].consumer if operator.sends_keys else name
        by = query.inputs(name)[0].producer if operator.merges else by
        skew, places = deployment.workload.keys.get(by, KeySkew()), _places(deployment, name)
        groups = group_count(query, by, deployment.plan.parallelism(by))
        several = places > 1.0 and isinstance(operator, Windowed)
        if groups is not None and (several or skew.uneven):
            found[name] = _spread(distinct_values(query.operator(by), skew, groups), skew, places)
        elif several:
            found[name] = KeySpread(
                np.ones(1), np.array([float(operator.values(deployment.plan.parallelism(name)))]), places
            )
    return found


def _places(deployment: Deployment, name: str) -> float:
    """Most subtasks to which the records of one group come."""
    ways = [deployment.query.partitioning(each) for each in deployment.query.inputs(name)]
    return max(1.0 if way.whole or way.keeps_keys else 2.0 if way.two_choices else np.inf for way in ways)


def key_shares(values: np.ndarray, skew: KeySkew) -> tuple[np.ndarray, np.ndarray]:
    """Shares of the input and distinct values of key groups that have any values, the most frequent first. [G] each"""
    if skew.placed:
        shares = skew.by_group(len(values))
        order = np.argsort(-shares, kind="stable")[: np.count_nonzero(shares)]
        return shares[order], values[order]
    populated = values[values > 0]
    return zipf_shares(len(populated), skew.zipf), np.full(len(populated), populated.mean())


def _spread(values: np.ndarray, skew: KeySkew, places: float) -> KeySpread:
    weights = skew.key_weights(len(values))
    if weights is None:
        shares, values = key_shares(values, skew)
    else:
        shares = np.sort(weights[weights > 0.0])[::-1] / weights.sum()
        values = np.ones_like(shares)
    edges = _edges(len(shares))
    return KeySpread(np.add.reduceat(shares, edges), np.add.reduceat(values, edges), places)


def _edges(groups: int) -> np.ndarray:
    """Numbers of the groups with which strata begin, the most frequent first."""
    steps = np.arange(math.ceil(STRATA * math.log2(groups)) + 1) if groups > 1 else np.zeros(1)
    edges = np.unique(np.floor(2.0 ** (steps / STRATA)).astype(int)) - 1
    return edges[edges < groups]
