"""Optimizers that need no mixed-integer program: hill climbing, which is the usual one; Governor's placement, from
which it climbs, too; and samples of the space.

Other files climb by `climb` and `changes_of`, too.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import ClassVar

import numpy as np

from optimizers.interface import Problem, Solution, Traits, never, plan_on
from optimizers.rules import MAX_LISTED, bin_range, capability
from optimizers.selection import Candidates, KnownPlans, P, by_risk, choose, estimate
from optimizers.space import SpacePlans, counts_of
from twin.cluster import Host
from twin.deployment import Deployment, nominal_rates
from twin.errors import BadInput
from twin.kinds.flow import OperatorRates
from twin.plan import ExecutionPlan
from twin.randomness import random_stream

# hill climbing -------------------------------------------------------------------------------------------------------
# A first part of the budget goes into the given plan, the heuristic placement and a sample of the space; climbs begin
# at the best of these, then at draws. As many climbs go on side by side as the budget seems to allow.


MAX_STARTS = 1000
"""Most starts of a search."""
SAMPLED = 0.2
"""Share of the budget spent on the sample."""
STEPS = 6
"""Guess of the moves of a climb, which gives the number of climbs that the budget allows."""
EMPTY_DRAWS = 20
"""Number of batches of draws without a plan of the space after which there are no more starts."""


@dataclass(frozen=True, slots=True)
class LocalSearch:
    """Planner by hill climbing. Stops when the budget or the time is spent, when all plans are known, or after `starts`
    starts."""

    traits: ClassVar = Traits(drivable=True)
    starts: int = MAX_STARTS
    name: str = "local-search"

    def solve(self, problem: Problem) -> Solution:
        """Best plan found. Raises BadInput if no plan of the space is found, or its numbers of subtasks are free."""
        started_s = time.perf_counter()
        problem = problem.settled(free_subtasks=False)
        job = problem.deployment
        space, rng = SpacePlans(job, problem.space), random_stream(problem.seed, "local-search")
        known = Candidates(problem, by_risk, total=space.count if space.exact else None)
        known.look_at(counts_of(job, plan) for plan in (job.plan, governor_plan(problem)))
        known.look_at(space.sample(rng, max(1, int(SAMPLED * problem.budget))))
        starts = islice(_starts([known[row] for row in known.ranking], space, rng), self.starts)
        width = max(1, problem.budget // (STEPS * known[0].size))
        climb(known, changes_of(problem, pairs=False), starts, width=width)
        return choose(problem, known.found(), evaluations=len(known), started_s=started_s, complete=known.complete)


def _starts(first: list[np.ndarray], space: SpacePlans, rng: np.random.Generator) -> Iterator[np.ndarray]:
    yield from first
    empty = 0
    while empty < EMPTY_DRAWS:
        drawn = space.draws(rng, 64)
        empty = 0 if len(drawn) else empty + 1
        yield from drawn


# climbs, and small changes of plans ----------------------------------------------------------------------------------
# A plan gives way to the best of all its small changes, again and again, from several starts.
#
# Several climbs may go on side by side, whose changes are estimated in one batch: a cost model takes little longer for
# thousands of plans than for one. No plan is estimated twice, and no two climbs take the same way.


def climb(
    known: KnownPlans[P],
    near: Callable[[P], Iterable[P]],
    starts: Iterable[P],
    *,
    width: int = 1,
    batch: int | None = None,
    enough: Callable[[], bool] = never,
) -> None:
    """Climbs from each start until no change is better, from `width` starts at a time, while plans may be looked at.

    near: small changes of a plan. batch: number of changes estimated together; the first batch with a better plan
    decides; None: all changes. enough: whether to stop.
    """
    coming, here, left = iter(starts), list[P](), set[int]()
    while known.left > 0 and not enough():
        here += islice(coming, width - len(here))
        if not here:
            return
        known.look_at(here)
        rows = [row for row in map(known.row, here) if row is not None and row not in left]
        left.update(rows)
        changed = {row: list(near(known[row])) for row in rows}
        here = [known[row] for row in _better(known, changed, batch, enough)]


def _better(
    known: KnownPlans[P], changed: dict[int, list[P]], batch: int | None, enough: Callable[[], bool]
) -> list[int]:
    """Rows of the best change of each plan, for the plans that have a better one."""
    found: dict[int, int] = {}
    most = max(map(len, changed.values()), default=0)
    for first in range(0, most, batch or most or 1):
        some = {row: each[first : first + (batch or most)] for row, each in changed.items() if row not in found}
        known.look_at([change for each in some.values() for change in each])
        best = {row: known.best_of([row, *_rows(known, each)]) for row, each in some.items()}
        found |= {row: after for row, after in best.items() if after != row}
        if len(found) == len(changed) or enough():
            break
    return [found[row] for row in changed if row in found]


def climb_on(candidates: Candidates, starts: Sequence[np.ndarray] = ()) -> None:
    """Climbs from the best known plan, then from the starts. Does nothing without a known plan."""
    if len(candidates):
        climb(candidates, changes_of(candidates.problem), [candidates[candidates.best], *starts])


def _rows(known: KnownPlans[P], items: Iterable[P]) -> list[int]:
    return [row for row in map(known.row, items) if row is not None]


def changes_of(problem: Problem, *, pairs: bool = True) -> Callable[[np.ndarray], list[np.ndarray]]:
    """Function that returns all plans one change away: an operator goes elsewhere, or one of its subtasks where they
    may part, or (pairs) both ends of a stream, or all that may be on some socket. Some may not be in the space."""
    job = problem.deployment
    spread = problem.space.spreads(job)
    free_ol = problem.space.allows_ol(job) & ~problem.space.pinned_o(job)[:, None]
    together = [(tuple(np.flatnonzero(free_o).tolist()), socket) for socket, free_o in enumerate(free_ol.T)]
    row = {operator.name: o for o, operator in enumerate(job.query.topological)}
    ends = [(row[each.producer], row[each.consumer]) for each in job.query.streams_by_name] if pairs else []

    def changes(counts_ol: np.ndarray) -> list[np.ndarray]:
        operators, sockets = range(len(counts_ol)), range(counts_ol.shape[1])
        found = [_moved(counts_ol, (o,), socket) for o in operators for socket in sockets]
        if spread:
            parted = [(o, start) for o, start in np.argwhere(counts_ol > 0).tolist() if counts_ol[o].sum() > 1]
            found += [_part(counts_ol, o, start, end) for o, start in parted for end in sockets if end != start]
        found += [_moved(counts_ol, pair, socket) for pair in ends for socket in sockets]
        return found + [_moved(counts_ol, all_free, socket) for all_free, socket in together]

    return changes


def resized_of(problem: Problem) -> Callable[[np.ndarray], list[np.ndarray]]:
    """Function that returns all plans with one subtask more or less of an operator, or of all that must have equally
    many, where numbers are free. Some may not be in the space."""
    job, space = problem.deployment, problem.space
    groups = [group for group in space.tied(job) if space.free_subtasks and space.free_o(job)[group].all()]

    def changes(counts_ol: np.ndarray) -> list[np.ndarray]:
        found = []
        for group in groups:
            for socket in range(counts_ol.shape[1]):
                for by in (1, -1):
                    changed = counts_ol.copy()
                    changed[group, socket] += by
                    found.append(changed)
        return [each for each in found if (each >= 0).all() and each.any(axis=1).all()]

    return changes


def _moved(counts_ol: np.ndarray, operators: tuple[int, ...], socket: int) -> np.ndarray:
    found = counts_ol.copy()
    for o in operators:
        found[o] = 0
        found[o, socket] = counts_ol[o].sum()
    return found


def _part(counts_ol: np.ndarray, o: int, start: int, end: int) -> np.ndarray:
    found = counts_ol.copy()
    found[o, start] -= 1
    found[o, end] += 1
    return found


# Governor ------------------------------------------------------------------------------------------------------------
# A placement by fixed policies and no cost model, in the style of Governor (Chaudhary, Zeuch, Markl, EDBT 2020). It is
# Costream's baseline and the start of its Exp 2. Governor places by policies that an administrator states; Costream
# does not say which it used, so these are ours: sources sit at the edge, one a host from the weakest up; the sink sits
# on the strongest host; operators that reduce their stream stay with their producer, or move one host up when it is
# full; all others (joins, and whatever emits as much as it takes) go to the strongest host. A host has one slot a whole
# reference core, at least one; the strongest takes everything. The result obeys Costream's three rules on any DAG.


@dataclass(frozen=True, slots=True)
class Governor:
    """Planner that places by Governor's policies. It asks the cost model for one estimate, to report it; the plan does
    not depend on it."""

    traits: ClassVar = Traits(baseline=True)
    name: str = "governor"

    def solve(self, problem: Problem) -> Solution:
        """Governor's plan; never raises. Operators that are pinned stay."""
        started_s = time.perf_counter()
        plan = governor_plan(problem)
        return choose(problem, estimate(problem, [plan]), evaluations=1, started_s=started_s, complete=False)


def governor_plan(problem: Problem) -> ExecutionPlan:
    """Plan with Governor's placement, but for operators that are pinned."""
    job = problem.deployment
    plan = plan_on(job, governor_placement(job))
    stays_o = problem.space.pinned_o(job)
    stay = [each.name for each, stays in zip(job.query.topological, stays_o, strict=True) if stays]
    return plan.with_placement({**plan.placement, **{name: job.plan.placement[name] for name in stay}})


def governor_placement(deployment: Deployment) -> dict[str, str]:
    """Governor's placement: host of each operator."""
    query = deployment.query
    rates = nominal_rates(query, deployment.workload.arrivals)
    hosts = sorted(deployment.cluster.hosts, key=_strength)
    strongest = hosts[-1]
    used: Counter[str] = Counter()
    placement: dict[str, Host] = {}
    for operator in query.topological:
        above = {placement[name].name for name in query.ancestors(operator.name)}
        producers = [placement[stream.producer] for stream in query.inputs(operator.name)]
        if operator.is_source:
            host = min(hosts[:-1], key=lambda each: (used[each.name], _strength(each)), default=strongest)
        elif operator.is_sink or len(producers) > 1 or not _reduces(rates[operator.name]):
            host = strongest
        else:
            host = _stay_or_climb(hosts, producers[0], above, used)
        placement[operator.name] = host
        used[host.name] += 1
    return {operator.name: placement[operator.name].name for operator in query.operators}


def _strength(host: Host) -> tuple[int, int, float, str]:
    bins = bin_range(host)
    return bins.highest, bins.lowest, capability(host), host.name


def _reduces(rates: OperatorRates) -> bool:
    return rates.out_per_s < rates.in_per_s


def _stay_or_climb(hosts: list[Host], producer: Host, above: set[str], used: Counter[str]) -> Host:
    """Host with a free slot: the producer's, or the weakest one that the rules allow; else the strongest host."""
    strongest = hosts[-1]
    if producer is strongest or used[producer.name] < _slots(producer):
        return producer
    floor = max(bin_range(host).lowest for host in hosts if host.name in above)
    for host in hosts[hosts.index(producer) + 1 : -1]:
        if host.name not in above and bin_range(host).highest >= floor and used[host.name] < _slots(host):
            return host
    return strongest


def _slots(host: Host) -> int:
    return max(1, int(host.left_percent // 100))


# samples of the space ------------------------------------------------------------------------------------------------
# These optimizers take the best of all plans of the space, one at random, or the best of a sample that keeps Costream's
# rules.
#
# Costream's placement procedure (Section V) takes as many random candidates as the budget allows; if the space has no
# more, its answer is proved. Any optimizer must beat one plan at random. All plans give the optimum under a cost model,
# for small problems.


@dataclass(frozen=True, slots=True)
class Costream:
    """Costream's placement procedure: as many candidates as the budget allows; all valid plans, and so a proof, if
    there are no more than that."""

    traits: ClassVar = Traits(costream_rules=True, drivable=True)
    name: str = "costream"

    def solve(self, problem: Problem) -> Solution:
        """Best candidate. Raises BadInput if the space has no plan that obeys the rules, or says that subtasks part."""
        problem = problem.settled(free_subtasks=False, costream_rules=True)
        plans = SpacePlans(problem.deployment, problem.space)
        return _best(problem, plans, plans.sample(random_stream(problem.seed, "candidates"), problem.budget))


@dataclass(frozen=True, slots=True)
class RandomPlan:
    """Planner that draws one plan. The cost model makes one estimate, to report; the draw does not depend on it."""

    traits: ClassVar = Traits(baseline=True)
    name: str = "random"

    def solve(self, problem: Problem) -> Solution:
        """One random plan. Raises BadInput if no plan of the space is found, or its numbers of subtasks are free."""
        problem = problem.settled(free_subtasks=False)
        plans = SpacePlans(problem.deployment, problem.space)
        return _best(problem, plans, plans.sample(random_stream(problem.seed, "random-plan"), 1))


@dataclass(frozen=True, slots=True)
class Exhaustive:
    """Planner that estimates all plans of the space, whatever the budget; if stopped, nothing is proved. max_plans:
    most plans of a problem that it takes (at most MAX_LISTED)."""

    traits: ClassVar = Traits(drivable=True, every_plan=True)
    max_plans: int = MAX_LISTED
    name: str = "exhaustive"

    def solve(self, problem: Problem) -> Solution:
        """Best plan of the space. Raises BadInput above `max_plans` plans, for no plan, or for free subtask counts."""
        problem = problem.settled(free_subtasks=False)
        plans = SpacePlans(problem.deployment, problem.space)
        if plans.count > self.max_plans or not plans.exact:
            raise BadInput(
                f"exhaustive: {plans.count} plans, at most {self.max_plans} are tried; "
                "pin operators, allow fewer hosts, or use local-search or milp"
            )
        return _best(problem, plans, plans.all())


def _best(problem: Problem, plans: SpacePlans, counts_nol: np.ndarray) -> Solution:
    """Best of these plans, as far as the time goes; proved, where these are all plans of the space."""
    started_s, total = time.perf_counter(), plans.count if plans.exact else None
    known = Candidates(replace(problem, budget=max(1, len(counts_nol))), by_risk, total=total)
    known.look_at(counts_nol)
    return choose(problem, known.found(), evaluations=len(known), started_s=started_s, complete=known.complete)
