"""Plans a job on the fewest or cheapest hosts that bear it at its rate, with head room.

A plan bears it if the cost model calls it free of backpressure at (1 + head room) times the offered rates, for good:
the rate model predicts a day, in which deep channels fill. A program with linear loads proposes hosts. Costs that it
leaves out (fetching between sockets, streams of spread operators) come from the rate model's answer on the proposed
plan, as a higher demand of the operators, and the program is solved again. Where the numbers of replicas are free they
begin at the fewest that will do, and are raised by steps while that might save a host. No plan is cheaper than the
fluid bound, where work can be divided at will and nothing is lost on the way.

Where latencies are limited too, sets of hosts are tried from the cheapest up. On each, small changes of places and of
numbers of replicas are tried until a plan fulfils the limits; else the program proposes hosts beyond the set.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from optimizers.candidates import Candidates
from optimizers.climbing import changes_of, climb, climb_on, resized_of
from optimizers.counted import as_plans
from optimizers.interface import Problem
from optimizers.milp.ages import TOLERATED
from optimizers.milp.placing import USED, Placing, fluid_bound
from optimizers.program import ProgramOutcome
from optimizers.requirements import NOTHING_MORE, at_rate, prices_h
from optimizers.selection import RISK_STEP, Estimated, estimate, lasting
from optimizers.slots import evened
from optimizers.space import Space, counts_of, host_of_sockets
from twin.rates.coefficients import PlacementCoefficients
from twin.rates.model import RateModel
from twin.rates.placements import CountedPlans


class FeasibleAtRate:
    """Numbers that rank plans by whether they bear a higher rate, then by price. ahead: the problem at that rate.
    prices_h: of hosts; zeros if the hosts do not matter."""

    def __init__(self, ahead: Problem, prices_h: np.ndarray) -> None:
        self._ahead, self._prices_h = ahead, prices_h
        self._host_l = host_of_sockets(ahead.deployment)

    def __call__(self, counts_nol: np.ndarray, known: Estimated) -> np.ndarray:
        """[3, N]: probability that a plan fails to bear the rate, in steps, 0 if it bears it; amount by which it misses
        the requirements; price. known: estimates at the offered rates."""
        found = estimate(self._ahead, as_plans(self._ahead.deployment, counts_nol))
        sane = (found.backpressured < 0.5) & (found.success >= 0.5)
        risk = np.ceil((1.0 - (1.0 - found.backpressured) * found.success) / RISK_STEP)
        used_nh = counts_nol.any(axis=1) @ (self._host_l[:, None] == np.arange(len(self._prices_h)))
        missed = np.zeros(len(sane)) if known.missed is None else known.missed
        return np.stack([np.where(sane, 0.0, risk), missed, used_nh @ self._prices_h])


ROUNDS = 6
"""Most programs solved for one choice of replicas."""
MORE = (1.0, 1.05, 1.1, 1.2, 1.4, 2.0)
"""Factors on the fewest replicas that will do, tried in turn."""
SHARE, BATCH = 0.25, 16
"""Share of the estimates left that one set of hosts gets where latencies are limited; number of changes of a plan that
are estimated together, of which the first batch with a better one decides."""
CLOSE = 1e-6


@dataclass(frozen=True, slots=True)
class Fewest:
    """Answer of `fewest_hosts`. price: of the best plan's hosts, inf if no plan bears the job within the limits; bound:
    no plan's hosts cost less, inf if no hosts are enough. It is a bound under the rate model alone."""

    candidates: Candidates
    price: float
    bound: float


def fewest_hosts(problem: Problem, head_room: float, prices: Mapping[str, float]) -> Fewest:
    """Plans on the fewest or cheapest hosts with this head room. prices: by host, instead of those of the deployment.
    Raises BadInput for an unknown host."""
    price_h = prices_h(problem.deployment, prices)
    scenario = at_rate(problem.scenario, 1.0 + head_room)
    ahead = lasting(replace(problem, scenario=scenario, requirements=NOTHING_MORE))
    space, candidates = problem.space, Candidates(problem, prefers=FeasibleAtRate(ahead, price_h), extra=1)
    job = PlacementCoefficients.of(ahead.deployment)
    bound = fluid_bound(job, space, price_h, TOLERATED)
    for more in MORE if space.free_replicas else (1.0,):
        if math.isinf(bound):
            break
        if more > 1.0 and (_price(candidates, limited=False) <= bound * (1.0 + CLOSE) or candidates.left <= 0):
            break
        _propose(ahead, job, candidates, price_h, more)
    given = counts_of(problem.deployment, problem.deployment.plan)
    balanced = [] if math.isfinite(_price(candidates, limited=False)) else _balanced(job, candidates)
    candidates.look_at([*balanced, given])
    if _price(candidates) > _price(candidates, limited=False):
        _limited(job, candidates, price_h)
    climb_on(candidates)
    return Fewest(candidates, _price(candidates), bound)


def _price(candidates: Candidates, *, limited: bool = True) -> float:
    """Price of the cheapest plan that bears the job and, if `limited`, fulfils all requirements; inf without one."""
    found = candidates.preferred(slice(None)) if len(candidates) else None
    if found is None:
        return math.inf
    risk, missed, price = found
    return float(price[(risk <= 0.0) & ((missed <= 0.0) | (not limited))].min(initial=math.inf))


def _limited(job: PlacementCoefficients, candidates: Candidates, price_h: np.ndarray) -> None:
    """Looks at plans on one set of hosts after the other, from the cheapest up, until one bears the job and fulfils the
    limits, or the next set costs as much as a known plan that does."""
    problem, tried, host_l = candidates.problem, list[np.ndarray](), job.places.host_l
    moved, resized = changes_of(problem), resized_of(problem)
    if problem.space.free_replicas:
        job = replicated(job, problem.space, USED, 1.0)
    while candidates.left > 0:
        found = Placing(job, problem.space, "hosts", prices_h=price_h, beyond=tried).solve(candidates.limits)
        if found.counts_ol is None:
            return
        used_h = np.bincount(host_l, found.counts_ol.any(axis=0), len(price_h)) > 0
        price, least = float(price_h[used_h].sum()), int((1.0 - SHARE) * candidates.left)
        if price >= _price(candidates) * (1.0 - CLOSE):
            return

        def near(counts_ol: np.ndarray, here_l: np.ndarray = used_h[host_l]) -> list[np.ndarray]:
            return [each for each in resized(counts_ol) + moved(counts_ol) if not each[:, ~here_l].any()]

        def enough(price: float = price, least: int = least) -> bool:
            return _price(candidates) <= price * (1.0 + CLOSE) or candidates.left <= least

        climb(candidates, near, [found.counts_ol], batch=BATCH, enough=enough)
        tried.append(used_h)


def _propose(
    ahead: Problem,
    job: PlacementCoefficients,
    candidates: Candidates,
    price_h: np.ndarray,
    more: float,
) -> None:
    """Looks at plans on the cheapest hosts until one bears the job."""
    most, space = USED, ahead.space
    if space.free_replicas:
        job = replicated(job, space, most, more)
    for _ in range(ROUNDS):
        found = Placing(job, space, "hosts", most=most, prices_h=price_h).solve(candidates.limits)
        if found.counts_ol is None or candidates.left <= 0:
            return
        before = _price(candidates, limited=False)
        more_even = evened(found.counts_ol, space.free_o(job.deployment))
        candidates.look_at([found.counts_ol, *([more_even] if space.free_replicas else [])])
        if _price(candidates, limited=False) < before or found.outcome is ProgramOutcome.STOPPED:
            return
        job, most = _learned(ahead, job, found.counts_ol, most)


def _balanced(job: PlacementCoefficients, candidates: Candidates) -> list[np.ndarray]:
    """The plan on any hosts with the lowest peak utilisation, if there is one."""
    space = candidates.problem.space
    if space.free_replicas:
        job = replicated(job, space, USED, 1.0)
    found = Placing(job, space, "balanced").solve(candidates.limits)
    return [] if found.counts_ol is None else [found.counts_ol]


def _learned(
    ahead: Problem, job: PlacementCoefficients, counts_ol: np.ndarray, most: float
) -> tuple[PlacementCoefficients, float]:
    """Job with the demands that the rate model finds under a plan, and a lower utilisation limit if demands are not the
    cause."""
    answer = RateModel().answer_counts(ahead.deployment, counts_ol[None])
    works_o = answer.busy_cores[0] * counts_ol.sum(axis=1)
    higher_o = np.maximum(job.operators.work, works_o)
    none_s = np.zeros(len(job.producer_s))
    learned = replace(
        job,
        operators=job.operators._replace(work=higher_o),
        streams=job.streams._replace(send=none_s, receive=none_s),
    )
    pressure = float(answer.offered_pressure.max())
    return learned, most * min(0.99, max(0.5, USED / pressure)) if (
        works_o <= job.operators.work * 1.001
    ).all() else most


def replicated(job: PlacementCoefficients, space: Space, most: float, more: float) -> PlacementCoefficients:
    """Job with `more` times the fewest replicas that use no core, and no place for their calls to outside, beyond
    `most`, where their numbers are free."""
    deployment, work_o = job.deployment, job.operators.work
    free = space.free_o(deployment)
    core_o = np.where(space.allows_ol(deployment), job.places.core_l, 0.0).max(axis=1)
    called_o = [
        rate / each.calls.replica_per_s if each.calls else 0.0
        for rate, each in zip(job.operators.in_per_s, deployment.query.topological, strict=True)
    ]
    used_o = np.maximum(work_o / np.maximum(core_o, 1e-9), called_o)
    wanted_o = np.maximum(np.ceil(used_o / most * more), 1.0)
    useful = space.most_replicas  # a key group is on one replica, so no more replicas than groups have work
    most_o = [min(useful, each.values(useful)) for each in deployment.query.topological]
    replicas_o = np.where(free, np.minimum(wanted_o, most_o), job.operators.replicas).astype(np.int64)
    for group in space.tied(deployment):
        parts = [part for o in group if (part := deployment.query.topological[o].parts)]
        replicas_o[group] = _fewest_alike(parts, int(replicas_o[group].max()))
    return _with_replicas(job, replicas_o)


def _with_replicas(job: PlacementCoefficients, replicas_o: np.ndarray) -> PlacementCoefficients:
    """Job planned with these numbers of replicas; operators that keep their number keep their places."""
    counts_ol = counts_of(job.deployment, job.deployment.plan)
    changed = counts_ol.sum(axis=1) != replicas_o
    counts_ol[changed] = 0
    counts_ol[changed, 0] = replicas_o[changed]
    plan = CountedPlans(job.deployment, counts_ol[None])[0]
    return PlacementCoefficients.of(job.deployment.model_copy(update={"plan": plan}))


def _fewest_alike(parts: Sequence[int], replicas: int) -> int:
    """Fewest replicas with which the busiest reads no more partitions than with `replicas`. parts: partitions by
    topic."""
    return min([-(-count // -(-count // replicas)) for count in parts] or [replicas])
