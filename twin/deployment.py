"""Deployments, which are what can be simulated: a query on a cluster under a plan, fed by a workload, run by an
engine."""

from __future__ import annotations

import itertools
from typing import Annotated, Any, Self

from pydantic import BeforeValidator, Field, PlainSerializer, model_validator

from twin.chaining import check_fused, check_partition_attributes
from twin.cluster import Cluster, cluster_by_name
from twin.errors import suggest
from twin.event_time import check_together
from twin.keys import check_alignments, check_keys
from twin.plan import ExecutionPlan
from twin.profiles import PROFILES, STORM, EngineProfile, profile_by_name
from twin.query import Query
from twin.spec import Spec, parse
from twin.workload import Workload


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
