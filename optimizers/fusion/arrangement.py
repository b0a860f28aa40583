"""Places of operators, which of them run as one task, and all small changes of such an arrangement.

A plan fuses paths (`twin.chaining`): a set of links, each the only stream out of its producer and into its consumer. An
algorithm of fusion makes components of any shape; a plan fuses only the paths in them. Fused operators move, get
replicas and lose them together. A change of links joins two tasks, at the places of either, or parts one.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterator, Sequence
from itertools import chain, combinations, pairwise
from typing import NamedTuple

import numpy as np

from optimizers.candidates import KnownPlans
from optimizers.fusion.components import Fusion
from optimizers.interface import Problem
from optimizers.space import Space, counts_of
from optimizers.space_plans import SpacePlans
from twin.chaining import Fused, why_apart, why_never
from twin.deployment import Deployment
from twin.plan import ExecutionPlan
from twin.query import Query
from twin.rates.placements import CountedPlans

Link = tuple[str, str]
Links = frozenset[Link]


def possible(deployment: Deployment) -> tuple[Link, ...]:
    """Ends of all streams that may lie within a task, wherever operators are placed; none where sockets or context
    switches are limited, under which fused operators are not simulated."""
    if deployment.engine.context_switch or any(host.sockets for host in deployment.cluster.hosts):
        return ()
    query = deployment.query
    ends = [(each.producer, each.consumer) for each in query.streams_by_name]
    return tuple(each for each in ends if not why_never(query, *each))


def within(fusion: Fusion, allowed: Collection[Link]) -> list[Link]:
    """The allowed links within a component, the busiest first."""
    of, busy = fusion.component_of, sorted(fusion.job.transfers, key=lambda each: -each.rate_per_s)
    ends = [(each.producer, each.consumer) for each in busy]
    return [each for each in ends if each in allowed and of[each[0]] == of[each[1]]]


def links_of(plan: ExecutionPlan) -> Links:
    """The links between operators that a plan fuses."""
    return frozenset(ends for group in plan.fused for ends in pairwise(group))


def paths(links: Collection[Link]) -> Iterator[Fused]:
    """Paths of operators that the links join, each in data-flow order, sorted by the names of the first operators."""
    follower = dict(links)
    for first in sorted(follower.keys() - follower.values()):
        path = [first]
        while path[-1] in follower:
            path.append(follower[path[-1]])
        yield tuple(path)


def with_links(query: Query, plan: ExecutionPlan, links: Collection[Link]) -> ExecutionPlan:
    """Plan with these operators fused, as far as they may be: operators that are not placed alike run apart."""
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


class Arrangement(NamedTuple):
    """Places and fusion of a plan. counts_ol: replicas of operators in data-flow order by socket. links: between
    operators that run as one task."""

    counts_ol: np.ndarray
    links: Links

    @property
    def key(self) -> tuple[bytes, Links]:
        """Key of the arrangement: equal for equal ones."""
        return self.counts_ol.tobytes(), self.links

    def plan(self, job: Deployment) -> ExecutionPlan:
        """Execution plan of the job with this arrangement."""
        if (self.counts_ol == counts_of(job, job.plan)).all():  # in the order of its replicas
            return with_links(job.query, job.plan, self.links)
        return with_links(job.query, CountedPlans(job, self.counts_ol[None])[0], self.links)


def arranged(job: Deployment, plan: ExecutionPlan) -> Arrangement:
    """Arrangement of a plan."""
    return Arrangement(counts_of(job, plan), links_of(plan))


def gathered(job: Deployment, here: Arrangement, link: Link) -> Iterator[Arrangement]:
    """Yields the arrangements that fuse both ends of a link: at the places of the producer, and at those of the
    consumer."""
    rows, links = _rows(job), here.links | {link}
    whole = next(path for path in paths(links) if link[0] in path)
    for end in link:
        counts_ol = here.counts_ol.copy()
        counts_ol[[rows[name] for name in whole]] = here.counts_ol[rows[end]]
        yield Arrangement(counts_ol, links)


class Arrangements(KnownPlans[Arrangement]):
    """Known plans in the form of arrangements."""

    def key(self, item: Arrangement) -> Hashable:
        """Key of an arrangement's places and links."""
        return item.key

    def counts_of(self, item: Arrangement) -> np.ndarray:
        """Replicas of an arrangement by operator and socket [O, L], without its links."""
        return item.counts_ol

    def plans(self, items: Sequence[Arrangement]) -> Sequence[ExecutionPlan]:
        """Execution plans of the arrangements."""
        return [each.plan(self.problem.deployment) for each in items]


def changes_of(problem: Problem, free: Sequence[Link]) -> Callable[[Arrangement], Iterator[Arrangement]]:
    """Function that yields all arrangements one change away; some may not be in the space. free: links that may be
    joined and parted."""
    job, scale = problem.deployment, bool(problem.space.free_replicas)
    spread = problem.space.spreads(job)

    def changes(here: Arrangement) -> Iterator[Arrangement]:
        for rows in _components(job, here.links):
            for counts_l in _moved(here.counts_ol[rows[0]], spread=spread, scale=scale):
                counts_ol = here.counts_ol.copy()
                counts_ol[rows] = counts_l
                yield Arrangement(counts_ol, here.links)
        for link in free:
            if link in here.links:
                yield Arrangement(here.counts_ol, here.links - {link})
            else:
                yield from gathered(job, here, link)

    return changes


def everything(job: Deployment, space: Space, free: tuple[Link, ...], most: int) -> list[Arrangement] | None:
    """All arrangements of a space; None if there may be more than `most`."""
    if space.free_replicas or len(free) > most.bit_length():
        return None
    plans = SpacePlans(job, space)
    if not plans.exact or plans.count > most:
        return None
    rows, found = _rows(job), list[Arrangement]()
    for counts_ol in plans.all():
        alike = [link for link in free if (counts_ol[rows[link[0]]] == counts_ol[rows[link[1]]]).all()]
        if len(found) + 2 ** len(alike) > most:
            return None
        subsets = chain.from_iterable(combinations(alike, size) for size in range(len(alike) + 1))
        found += [Arrangement(counts_ol, frozenset(links)) for links in subsets]
    return found


def _rows(job: Deployment) -> dict[str, int]:
    return {operator.name: o for o, operator in enumerate(job.query.topological)}


def _components(job: Deployment, links: Links) -> list[list[int]]:
    """Rows of operators that run as one task, task by task; an operator that is not fused is a task of its own."""
    rows, together = _rows(job), list(paths(links))
    inside = {name for path in together for name in path}
    return [[rows[name] for name in path] for path in together] + [[rows[name]] for name in rows if name not in inside]


def _moved(counts_l: np.ndarray, *, spread: bool, scale: bool) -> Iterator[np.ndarray]:
    total, one = int(counts_l.sum()), np.eye(len(counts_l), dtype=np.int64)
    for socket in range(len(counts_l)):
        yield total * one[socket]
        if scale:
            yield counts_l + one[socket]
    for socket in np.flatnonzero(counts_l).tolist() if total > 1 else []:
        if scale:
            yield counts_l - one[socket]
        if spread:
            yield from (counts_l - one[socket] + one[other] for other in range(len(counts_l)) if other != socket)
