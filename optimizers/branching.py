"""Branch and bound over placements: operators get sockets in data-flow order, and a relaxation says what to drop.

Under the rate model it begins with MILP's plan and bound, and has 30 s unless `--time-limit` says otherwise.
"""

from __future__ import annotations

import heapq
import itertools
import time
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from optimizers.interface import LATE, Deadline, Problem, Solution, Status, Traits
from optimizers.local_search import climb_on
from optimizers.milp.ages import TOLERATED, fixed_s
from optimizers.milp.moving import HUGE_S, Relaxation
from optimizers.milp.optimizer import Milp
from optimizers.milp.placing import CLOSE, about, admissible, missed
from optimizers.objectives import MEAN_LATENCIES
from optimizers.rules import exchangeable
from optimizers.selection import Candidates, dealt_anew, estimate, said, sees_beyond_rates
from optimizers.space import as_plans, counts_of
from twin.errors import BadInput
from twin.rates.coefficients import PlacementCoefficients
from twin.rates.model import RateModel

# the optimizer -------------------------------------------------------------------------------------------------------
# The relaxation (`Relaxation`) bounds a partial placement from below and completes it; the problem's cost model
# estimates the completions, many at a time. Under the rate model the tree is searched by bounds, until no open node
# can be better: a proof. Under any other model the analytic bound alone prunes, to a per cent of what placement can
# change, and the model's own estimates say which branch comes next and which leaf is best; nothing is proved then.
# Nothing is pruned for a model that sees what the rate model ignores, nor for an objective that is no latency.
#
# Under the rate model the plan of `milp` is the first best, so that the answer is never worse, and more nodes are
# dropped; the higher of both bounds holds. Hosts that are equal in everything but their names are exchangeable: of
# those that are empty, only the first is tried. Of the completions of a batch only the most promising are estimated,
# and all that are whole placements.


BATCH = 16
"""Number of nodes that are branched at a time."""
SEARCHED = 0.5
"""Share of the budget spent on the tree once its bounds are refuted; small changes of the best get the rest."""
EACH = 4
"""Number of completions of a batch that the rate model estimates; a node's bound needs none."""
ENTRIES = 16_000_000
"""Most nodes of a batch, times operators and sockets: these are in memory together."""
LEAST_S = 1e-3
"""Least time of MILP."""
NODES = 20_000
"""Number of nodes after which the search stops, whatever the budget."""
SHARE = 0.01
"""Share of what placement can change: a branch further than that from the best by the physics is dropped, whatever a
learned model says of it, unless that sees what the physics ignores."""


@dataclass(frozen=True, slots=True)
class BranchAndBound:
    """Branch-and-bound planner (an `interface.Optimizer`)."""

    traits: ClassVar = Traits(drivable=True)
    name: str = "branch-and-bound"

    def solve(self, problem: Problem) -> Solution:
        """Best plan found. Raises BadInput if the space, or the pinned plan, parts the subtasks of an operator."""
        started_s = time.perf_counter()
        problem = problem.settled(free_subtasks=False)
        if problem.space.spread is None:
            problem = replace(problem, space=replace(problem.space, spread=False))
        job = problem.deployment
        home_ol = counts_of(job, job.plan) > 0
        parted = problem.space.pinned_o(job) & (home_ol.sum(axis=1) > 1)
        if problem.space.spreads(job) or parted.any():
            raise BadInput(f"{self.name} puts all subtasks of an operator on one socket; use milp or local-search")
        usual = problem.within_usual()
        deadline = usual.deadline()
        first = self._first(usual, deadline) if isinstance(problem.cost_model, RateModel) else None
        if first is not None and (first.status is Status.OPTIMAL or first.evaluations >= problem.budget):
            return replace(first, seconds=time.perf_counter() - started_s)
        tree = _Tree(problem, PlacementCoefficients.of(job), deadline, first)
        tree.search()
        late = problem.seconds is None and deadline.over and not deadline.stopped()
        found = tree.solution(started_s)
        return replace(found, message=said(LATE if late and found.status is Status.FEASIBLE else "", found.message))

    def _first(self, problem: Problem, deadline: Deadline) -> Solution:
        """MILP's answer, in the time and within the budget of the problem."""
        seconds = None if problem.seconds is None else max(deadline.left_s, LEAST_S)
        return Milp().solve(replace(problem, seconds=seconds))


class _Tree:
    """Search tree: its open nodes and the plans estimated. latency: whether the objective is a latency. by_rates:
    whether bounds are those of the rate model, the problem's cost model. prunes: whether nodes are dropped by bounds:
    of a latency, if the cost model sees no more than rates do. first: MILP's answer, whose estimates are part of the
    budget, and whose best plans are looked at first."""

    def __init__(
        self, problem: Problem, job: PlacementCoefficients, deadline: Deadline, first: Solution | None = None
    ) -> None:
        spent = 0 if first is None else first.evaluations
        within = replace(problem, budget=problem.budget - spent)
        self.problem, self.job, self.candidates = within, job, Candidates(within, deadline=deadline)
        self.first, self._spent = first, spent
        end_to_end = problem.objective.startswith("e2e_latency_s")
        self.relaxation = Relaxation.of(job, problem.space, end_to_end=end_to_end)
        self.latency = problem.objective in MEAN_LATENCIES
        self.by_rates = self.latency and isinstance(problem.cost_model, RateModel)
        self.prunes = self.latency and not sees_beyond_rates(problem)
        self.best_s, self.nodes, self.refuted = np.inf, 0, False
        self.rates_s: list[float] = []
        self._open: list[tuple[tuple[float, ...], int, float, np.ndarray]] = []
        self._count = itertools.count()
        self._kind_l = _exchangeable(problem, job) if self.by_rates else np.arange(len(job.places.host_l))
        self._batch = max(1, min(BATCH, ENTRIES // (len(job.names) * len(job.places.host_l) ** 2)))

    @property
    def worth_s(self) -> float:
        """Bound in seconds from which a node is dropped; infinite where nothing is pruned, or a bound was refuted."""
        if not self.prunes or self.refuted:
            return np.inf
        if self.by_rates:
            return self.best_s * (1.0 - CLOSE)
        return self.best_s + SHARE * max(0.0, self.best_s - fixed_s(self.job))

    def search(self) -> None:
        """Searches until no node is open, or the budget, the time or the nodes are spent."""
        plans = [] if self.first is None else [self.first.plan, *(each.plan for each in self.first.alternatives)]
        job = self.problem.deployment
        self._look_at([counts_of(job, plan) for plan in (*plans[:1], job.plan, *plans[1:])])
        self._add(np.full((1, len(self.job.names)), -1))
        while self._open and self.candidates.left > 0 and self.nodes < NODES:
            taken = [heapq.heappop(self._open) for _ in range(min(self._batch, len(self._open)))]
            taken = [each for each in taken if each[2] < self.worth_s]
            self.nodes += len(taken)
            children = [self._children(place_o) for _, _, _, place_o in taken if (place_o < 0).any()]
            if children:
                self._add(np.concatenate(children))
            if self.refuted and self.candidates.left < self.problem.budget * (1.0 - SEARCHED):
                break
        self.refuted = self.refuted or (self.by_rates and missed(self.job, self.candidates))
        if self.by_rates and (self.refuted or self._open):
            climb_on(self.candidates)

    def _children(self, place_o: np.ndarray) -> np.ndarray:
        """Children of a node [N, O]: the next operator in data-flow order on each socket that it fits on."""
        o = int(np.flatnonzero(place_o < 0)[0])
        empty_l = ~np.isin(np.arange(len(self._kind_l)), place_o)
        sockets = np.flatnonzero((self.relaxation.alone_ol[o] < HUGE_S) & ~(empty_l & self._later(empty_l)))
        found = np.tile(place_o, (len(sockets), 1))
        found[:, o] = sockets
        return found[self._fits(found)]

    def _later(self, empty_l: np.ndarray) -> np.ndarray:
        """[L] whether an empty socket of the same kind comes before."""
        empty = np.flatnonzero(empty_l)
        firsts = np.unique(self._kind_l[empty], return_index=True)[1]
        return np.asarray(~np.isin(np.arange(len(empty_l)), empty[firsts]))

    def _fits(self, place_no: np.ndarray) -> np.ndarray:
        """[N] whether the work of the operators placed is at most what their sockets bear."""
        on_nol = place_no[:, :, None] == np.arange(len(self.job.places.host_l))
        load_nl = np.einsum("nol,o->nl", on_nol, self.job.operators.work)
        return np.asarray((load_nl <= TOLERATED * self.job.places.capacity_l).all(axis=1))

    def _add(self, place_no: np.ndarray) -> None:
        """Bounds nodes, estimates their completions, and opens those that may be worth it."""
        if not len(place_no):
            return
        bound_n, completed_no = self.relaxation.solve(place_no)
        worth = np.flatnonzero(bound_n < self.worth_s)
        judged = worth
        if self.by_rates:  # whole placements, and the completions of the lowest bounds
            whole = np.asarray((place_no[worth] >= 0).all(axis=1))
            promising = np.argsort(np.where(whole, -np.inf, bound_n[worth]), kind="stable")
            bears = np.flatnonzero(np.logical_or(whole[promising], self._fits(completed_no[worth[promising]])))
            judged = worth[promising[bears[: max(EACH, int(whole.sum()))]]]
        counts = {n: self._counts(completed_no[n]) for n in judged.tolist()}
        self._look_at(list(counts.values()))
        for n in worth.tolist():
            key = (float(bound_n[n]),) if self.by_rates else (*self._score(counts[n]), float(bound_n[n]))
            heapq.heappush(self._open, (key, next(self._count), float(bound_n[n]), place_no[n]))

    def _counts(self, place_o: np.ndarray) -> np.ndarray:
        counts_ol = np.zeros((len(place_o), len(self.job.places.host_l)), np.int64)
        counts_ol[np.arange(len(place_o)), place_o] = self.job.operators.parallelism
        return counts_ol

    def _look_at(self, counts: list[np.ndarray]) -> None:
        """Estimates plans by the cost model, and by rates for the pruning."""
        before = len(self.candidates)
        self.candidates.look_at(counts)
        new = [self.candidates[row] for row in range(before, len(self.candidates))]
        if not new:
            return
        feasible = np.array([self.candidates.candidate(row).feasible for row in range(before, len(self.candidates))])
        if isinstance(self.problem.cost_model, RateModel):
            rates_s = np.array(
                [self.candidates.candidate(row).objective for row in range(before, len(self.candidates))]
            )
            by_rates = feasible
        else:
            plans = as_plans(self.problem.deployment, np.stack(new))
            found = estimate(self.problem.judged_by(RateModel()), plans)
            rates_s, by_rates = found.objective, found.feasible
        self.rates_s += np.where(by_rates, rates_s, np.inf).tolist()
        self.best_s = min(self.best_s, float(rates_s[by_rates & feasible].min(initial=np.inf)))
        self.refuted = self.refuted or (self.latency and self._refutes(np.stack(new), rates_s, by_rates))

    def _score(self, counts_ol: np.ndarray) -> tuple[float, ...]:
        """Rank of a node by the cost model's estimate of its completion, less is better; last if that is not in the
        space."""
        if (row := self.candidates.row(counts_ol)) is None:
            return np.inf, np.inf
        found = self.candidates.candidate(row)
        return float(not found.feasible), self.problem.sign * found.objective

    def _refutes(self, counts_nol: np.ndarray, rates_s: np.ndarray, feasible: np.ndarray) -> bool:
        """Whether the rate model's estimate of one of these plans is below its own bound: bounds prove nothing then."""
        one_n = ((counts_nol > 0).sum(axis=2) == 1).all(axis=1)
        if not one_n.any():
            return False
        bound_n, _ = self.relaxation.solve(counts_nol[one_n].argmax(axis=2))
        return bool((feasible[one_n] & (rates_s[one_n] < bound_n * (1.0 - CLOSE))).any())

    def _near(self) -> set[int] | None:
        """Rows of plans that are near the best by rates and feasible by the cost model; None (all rows) if there are
        none, under the rate model itself, and where nothing is pruned."""
        if self.by_rates or not self.prunes:
            return None
        most = self.best_s + SHARE * max(0.0, self.best_s - fixed_s(self.job))
        near = {row for row, cost in enumerate(self.rates_s) if cost <= most}
        return {row for row in near if self.candidates.candidate(row).feasible} or None

    def solution(self, started_s: float) -> Solution:
        """The best plan looked at; under the rate model, with the bound that is proved."""
        found = self.candidates.solution(started_s, weighed=self.nodes, rows=self._near())
        proves = self.by_rates and found.feasible and admissible(self.problem, self.job)
        bounds = [min([found.objective, *(each[2] for each in self._open)])] if proves and not self.refuted else []
        bounds += [] if self.first is None or self.first.bound is None else [min(self.first.bound, found.objective)]
        bound = max(bounds, default=None) if found.feasible else None
        closed = bound is not None and bound >= found.objective * (1.0 - CLOSE)
        among = found.among if bound is None else about(self.job, self.candidates, found.among)
        found = replace(found, bound=bound, among=among, evaluations=found.evaluations + self._spent)
        if self.first is not None and self.first.status is Status.INFEASIBLE and not found.feasible:
            return replace(found, status=Status.INFEASIBLE, message=self.first.message)
        return replace(
            found,
            status=Status.OPTIMAL if closed else Status.FEASIBLE,
            message=said(found.message, dealt_anew(self.problem, found.plan)),
        )


def _exchangeable(problem: Problem, job: PlacementCoefficients) -> np.ndarray:
    """[L] number of each socket's kind: equal where hosts of one socket may be exchanged in any plan of the space."""
    names, allowed_ol = [host.name for host in job.deployment.cluster.hosts], problem.space.allows_ol(job.deployment)
    if len(names) < allowed_ol.shape[1] or problem.space.most_moves is not None:
        return np.arange(allowed_ol.shape[1])
    kind, number = exchangeable(problem.scenario), dict[tuple[str, bytes], int]()
    keys = [(kind[name], allowed_ol[:, h].tobytes()) for h, name in enumerate(names)]
    return np.array([number.setdefault(key, len(number)) for key in keys])
