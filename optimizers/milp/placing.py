"""Placement program, which gives operators their sockets for one of four aims, and proofs by it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from optimizers.interface import Problem
from optimizers.milp.ages import TOLERATED, AgeColumns, crowd_cards, crowd_cores, minimise_age
from optimizers.milp.rows import assign, exclude, limit, obey_costream, stay, ways
from optimizers.program import FEW_NODES, NO_LIMITS, Program, ProgramLimits, ProgramOutcome
from optimizers.rules import kinds
from optimizers.selection import Candidates
from optimizers.space import Space
from twin.job import compile
from twin.rates.coefficients import PlacementCoefficients
from twin.rates.model import RateModel

# the program ---------------------------------------------------------------------------------------------------------
# * `bound`: least age of results, every operator as if alone: never above the rate model's estimate.
# * `crowded`: least age of results with waits for neighbours: closest to the rate model's estimate.
# * `balanced`: least peak utilisation, which decides how much a job can take.
# * `hosts`: the fewest or cheapest hosts, and among these the most balanced, roughly.
#
# The first two put each operator on one socket.


def open_hosts(
    program: Program, job: PlacementCoefficients, place: np.ndarray, prices_h: np.ndarray, *, alike: bool
) -> np.ndarray:
    """Adds columns [H], 1 where a host is used, at its price. alike: equal hosts are taken in one order."""
    host_l = job.places.host_l
    used = program.variables((len(prices_h),), upper=1.0, integer=True)
    program.rows((place.reshape(-1, 1), 1.0), (np.tile(used[host_l], len(place))[:, None], -1.0), high=0.0)
    program.costs(used, prices_h)
    if alike:
        for first, second in _twins(job, prices_h):
            program.row((used[[first, second]], np.array([1.0, -1.0])), low=0.0)
    return used


def fluid_bound(job: PlacementCoefficients, space: Space, prices_h: np.ndarray, most: float) -> float:
    """Lower bound of the price of all plans: work flows like water wherever it is allowed, and nothing is lost."""
    program, allowed_ol = Program(), space.allows_ol(job.deployment)
    place = program.variables(allowed_ol.shape, upper=allowed_ol)
    program.rows((place, 1.0), low=1.0, high=1.0)
    program.rows((place.T, job.operators.work[None]), high=most * job.places.capacity_l)
    stay(program, job, place, space)
    open_hosts(program, job, place, prices_h, alike=bool(allowed_ol.all()))
    return program.solve().bound


def _twins(job: PlacementCoefficients, prices_h: np.ndarray) -> list[tuple[int, int]]:
    """Pairs of successive hosts among those that are equal in everything but their names."""
    last: dict[str, int] = {}
    pairs = []
    for h, equal in enumerate(kinds(job.deployment).values()):
        kind = equal + repr(prices_h[h])
        if kind in last:
            pairs.append((last[kind], h))
        last[kind] = h
    return pairs


Aim = Literal["bound", "crowded", "balanced", "hosts"]
USED = 0.99
"""Utilisation that a plan may reach by default."""
ROUGH, FEW = 1e-2, 50
"""Relative gap and number of nodes of programs where subtasks may part."""
BALANCE = 1e-3
"""Cost of full utilisation where hosts are bought, as a share of the price of the cheapest host."""


@dataclass(frozen=True, slots=True)
class ProgramPlan:
    """Answer of a placement program. counts_ol [O, L]: subtasks, None if none were found. cost, bound: seconds; of
    `balanced` a utilisation; of `hosts` their price and a little."""

    outcome: ProgramOutcome
    counts_ol: np.ndarray | None
    cost: float
    bound: float


class Placing:
    """Placement program that can be solved again: for the next best plan, or with other limits."""

    def __init__(
        self,
        job: PlacementCoefficients,
        space: Space,
        aim: Aim,
        *,
        end_to_end: bool = False,
        most: float = USED,
        prices_h: np.ndarray | None = None,
        beyond: Sequence[np.ndarray] = (),
    ) -> None:
        """Builds the program. beyond: sets of hosts [H] that must not be enough where hosts are bought."""
        self._job, self._program = job, Program()
        self._ages: AgeColumns | None = None
        most = np.inf if aim == "balanced" else most
        self._spread = space.spreads(job.deployment)
        self._assignment = assign(self._program, job, space, most)
        if space.costream_rules:
            obey_costream(self._program, job, self._assignment)
        streams = ways(self._program, job, self._assignment)
        loads = limit(self._program, job, self._assignment, streams, most)
        if aim == "balanced":
            self._program.costs(loads.used, 1.0)
        elif aim == "hosts":
            prices_h = np.ones(len(job.places.bandwidth_h)) if prices_h is None else prices_h
            alike = not space.allowed and space.most_moves is None and not job.deployment.cluster.links
            open_hosts(self._program, job, self._assignment.place, prices_h, alike=alike)
            for used_h in beyond:
                elsewhere = self._assignment.place[:, ~used_h[job.places.host_l]]
                self._program.row((elsewhere, job.operators.parallelism[:, None]), low=1.0)
            self._program.costs(loads.used, BALANCE * float(prices_h.min()))
        else:
            self._ages = minimise_age(self._program, job, self._assignment, streams, end_to_end=end_to_end)
        if aim == "crowded" and self._ages is not None:
            crowded = self._program, job, self._assignment, loads, self._ages, most
            crowd_cores(*crowded, end_to_end=end_to_end)
            crowd_cards(*crowded)

    def solve(self, limits: ProgramLimits = NO_LIMITS) -> ProgramPlan:
        """Best plan that is not excluded; only roughly the best where subtasks may part, as there are many alike."""
        if self._spread:
            limits = replace(limits, gap=max(limits.gap, ROUGH), nodes=min(limits.nodes or FEW, FEW))
        found = self._program.solve(limits)
        cost, bound = found.cost, found.bound
        if self._ages is not None:
            cost, bound = self._ages.seconds(cost), self._ages.seconds(bound)
        if found.values is None:
            return ProgramPlan(found.outcome, None, cost, bound)
        shares_ol = self._assignment.shares_ol(found.values)
        counts_ol = np.round(shares_ol * self._job.operators.parallelism[:, None]).astype(np.int64)
        return ProgramPlan(found.outcome, counts_ol, cost, bound)

    def exclude(self, counts_ol: np.ndarray) -> None:
        """Excludes a plan, which has each operator on one socket, from further solutions."""
        exclude(self._program, self._assignment, counts_ol)


# proof ---------------------------------------------------------------------------------------------------------------
# Proof that the best plan known is the best there is, by the admissible loop: bound, estimate, exclude, again.
#
# The program with every operator as if alone costs no plan more than the rate model does. So its best plan is
# estimated and excluded, then its next best, until its bound is no better than the best plan known: then no plan is
# better.


ROUNDS = 4
"""Number of programs solved before the loop gives up."""
LARGE, HUGE = 200, 3000
"""Operators times sockets above which a program is solved first without integrality, for a bound; and above which none
is solved with it."""
CLOSE = 1e-5
"""Relative difference below which plans count as equally good."""
FINE = 1e-7
"""Relative gap to which the loop's programs are solved."""
DEEP_CHANNELS = 100
"""Number of credits from which a full channel takes longer than any wait in front of a core that is not full."""


@dataclass(frozen=True, slots=True)
class Proof:
    """Proof about a space. bound: no plan is better, None if not known. closed: whether the best plan is that good."""

    bound: float | None
    closed: bool


def admissible(problem: Problem, job: PlacementCoefficients) -> bool:
    """Whether programs bound the cost model's estimates of all plans of the problem's space."""
    return (
        isinstance(problem.cost_model, RateModel)
        and problem.objective == "processing_latency_s"
        and not problem.space.spreads(problem.deployment)
        and not (problem.deployment.engine.chaining or problem.deployment.plan.fused)  # one line, not several
        and not problem.scenario.plan.key_groups  # programs take contiguous ranges
        and not job.bursty
        and not problem.deployment.query.one_sided  # records that are joined are not all of one age
        and compile(problem.deployment).least_room >= DEEP_CHANNELS * (1.0 + float(job.operators.scv.max()))
    )


def refuted(candidates: Candidates, plans: Sequence[np.ndarray], bound_n: np.ndarray) -> bool:
    """Whether the cost model's estimate of a feasible plan is below its own bound: then bounds prove nothing."""
    rows = [candidates.row(each) for each in plans]
    found = [(candidates.candidate(row), bound) for row, bound in zip(rows, bound_n, strict=True) if row is not None]
    return any(each.feasible and each.objective < bound * (1.0 - CLOSE) for each, bound in found)


DEAR = 2.0
"""Factor on the best latency from which an overload that does not show costs so much that no such plan is the best."""
NOT_OVERLOADED = "nothing overloaded"


def overloaded(job: PlacementCoefficients, candidates: Candidates) -> list[int]:
    """Rows of known feasible plans that programs leave out, as they are overloaded too little to show in a run."""
    rows = [row for row in range(len(candidates)) if candidates.candidate(row).feasible]
    if not rows:
        return []
    shares_nol = np.stack([candidates[row] for row in rows]) / job.operators.parallelism[:, None]
    return [rows[n] for n in np.flatnonzero(job.loads(shares_nol).highest_n > TOLERATED)]


def missed(job: PlacementCoefficients, candidates: Candidates) -> bool:
    """Whether such a plan is known that is not far worse than the best one: then bounds prove nothing. Else they are
    about plans that overload nothing (`about`)."""
    rows = overloaded(job, candidates)
    most = DEAR * candidates.candidate(candidates.best).objective if rows else 0.0
    return any(candidates.candidate(row).objective <= most for row in rows)


def about(job: PlacementCoefficients, candidates: Candidates, words: str) -> str:
    """Words for the plans that a proof is about: those of the space, or of these the ones that overload nothing."""
    return ", ".join(filter(None, [words, NOT_OVERLOADED if overloaded(job, candidates) else ""]))


def prove(job: PlacementCoefficients, candidates: Candidates) -> Proof:
    """Runs the loop and returns its proof; it may find a better plan. The best known plan is to be feasible."""
    if missed(job, candidates):
        return Proof(None, closed=False)
    problem, bound = candidates.problem, -math.inf
    program, model = Placing(job, problem.space, "bound", most=TOLERATED), problem.cost_model
    horizon_s = model.run_s(problem.scenario) if isinstance(model, RateModel) else math.inf
    size = len(job.names) * len(job.places.host_l)
    rounds = [True] * ROUNDS if size <= LARGE else [False, True] if size <= HUGE else [False]
    for whole in rounds:
        nodes = FEW_NODES if size > LARGE else None
        found = program.solve(replace(candidates.limits, gap=FINE, whole=whole, nodes=nodes))
        if found.counts_ol is not None and refuted(candidates, [found.counts_ol], np.array([found.cost])):
            return Proof(None, closed=False)
        best = candidates.candidate(candidates.best)
        bound = max(bound, min(found.bound, horizon_s))
        candidates.bound = bound if math.isfinite(bound) else None
        if found.outcome is ProgramOutcome.INFEASIBLE or bound >= best.objective * (1.0 - CLOSE):
            return Proof(min(bound, best.objective), closed=True)
        if not whole and found.outcome is ProgramOutcome.SOLVED:
            continue
        if found.counts_ol is None or found.outcome is ProgramOutcome.STOPPED or candidates.left <= 0:
            break
        candidates.look_at([found.counts_ol])
        if refuted(candidates, [found.counts_ol], np.array([found.cost])):
            return Proof(None, closed=False)
        program.exclude(found.counts_ol)
    best = candidates.candidate(candidates.best)
    if not math.isfinite(bound):  # a program that was stopped soon has no bound
        return Proof(None, closed=False)
    return Proof(min(bound, best.objective), closed=False)
