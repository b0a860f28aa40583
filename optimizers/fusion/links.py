"""Which operators of a job a plan may let run as one, and the plan that does so.

A plan fuses paths (`twin.chaining`): a set of links, each the only stream out of its producer and into its consumer. An
algorithm of fusion makes components of any shape; of these a plan has the paths.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from itertools import pairwise

from optimizers.fusion.components import Fusion
from twin.chaining import Fused, why_apart, why_never
from twin.deployment import Deployment
from twin.plan import ExecutionPlan
from twin.query import Query

Link = tuple[str, str]
Links = frozenset[Link]


def possible(deployment: Deployment) -> tuple[Link, ...]:
    """Ends of all streams that may lie within a task, wherever they are placed; none where sockets or context switches
    are limited, under which fused operators are not simulated."""
    if deployment.engine.context_switch or any(host.sockets for host in deployment.cluster.hosts):
        return ()
    query = deployment.query
    ends = [(each.producer, each.consumer) for each in query.streams_by_name]
    return tuple(each for each in ends if not why_never(query, *each))


def within(fusion: Fusion, allowed: Collection[Link]) -> list[Link]:
    """Of the allowed links, those within a component; the busiest first."""
    of, busy = fusion.component_of, sorted(fusion.job.transfers, key=lambda each: -each.rate_per_s)
    ends = [(each.producer, each.consumer) for each in busy]
    return [each for each in ends if each in allowed and of[each[0]] == of[each[1]]]


def links_of(plan: ExecutionPlan) -> Links:
    """Of the operators that a plan fuses."""
    return frozenset(ends for group in plan.fused for ends in pairwise(group))


def paths(links: Collection[Link]) -> Iterator[Fused]:
    """What the links join, in data-flow order, by the names of the first operators."""
    follower = dict(links)
    for first in sorted(follower.keys() - follower.values()):
        path = [first]
        while path[-1] in follower:
            path.append(follower[path[-1]])
        yield tuple(path)


def with_links(query: Query, plan: ExecutionPlan, links: Collection[Link]) -> ExecutionPlan:
    """The plan with these operators fused, as far as it may be: what is not placed alike runs apart."""
    groups = [group for path in paths(links) for group in _runs(query, plan, path)]
    return plan.model_copy(update={"fused": tuple(group for group in groups if len(group) > 1)})


def _runs(query: Query, plan: ExecutionPlan, path: Fused) -> Iterator[Fused]:
    run: Fused = path[:1]
    for name in path[1:]:
        if why_apart(query, plan, run, name):
            yield run
            run = ()
        run = (*run, name)
    yield run
