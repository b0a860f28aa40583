"""Branch and bound over placements: operators get sockets in data-flow order, and a relaxation says what to drop."""

from __future__ import annotations

import heapq
import itertools
import time
from dataclasses import dataclass, replace
from typing import ClassVar, Self

import numpy as np

from optimizers.candidates import Candidates
from optimizers.driving import host_latency_s
from optimizers.interface import Problem, Solution, Status, Traits
from optimizers.local_search import climb_on
from optimizers.milp.ages import TOLERATED, alone_s, card_factor, fixed_s, mean_of_results
from optimizers.milp.placing import CLOSE, admissible, missed
from optimizers.objectives import LATENCIES
from optimizers.selection import Estimated, dealt_anew, estimate, said, sees_beyond_rates
from optimizers.space import Space, as_plans, counts_of
from twin.errors import BadInput
from twin.kinds.ages import oldest_s
from twin.rates.coefficients import PlacementCoefficients
from twin.rates.model import RateModel

# the lower bound -----------------------------------------------------------------------------------------------------
# Lower bound of the age of results once some operators have their sockets: the relaxation that prunes a placement
# tree.
#
# Every operator counts as alone on its socket, and each consumer chooses anew where its producers are, unless they are
# placed: ages are then added up along the streams by dynamic programming, for many partial placements at once. The sum
# is never more than the rate model's estimate of any completion, wherever nothing is throttled. The choices, read
# backwards, complete each partial placement.


HUGE_S = 1e9
"""Age [s] where an operator may not be."""


@dataclass(frozen=True, slots=True)
class Relaxation:
    """Relaxation of one job's placement, in seconds. alone_ol: service and wait, HUGE_S where an operator may not be.
    way_slm: delay of a stream's records from socket to socket by sending and the network; receive_slm: by receiving."""

    job: PlacementCoefficients
    alone_ol: np.ndarray
    way_slm: np.ndarray
    receive_slm: np.ndarray

    @classmethod
    def of(cls, job: PlacementCoefficients, space: Space, *, end_to_end: bool) -> Self:
        """Relaxation of a job within a space. Raises BadInput if the space names what the job does not have."""
        allowed_ol = space.allows_ol(job.deployment)
        alone_ol = alone_s(job, np.zeros(len(job.names)), end_to_end=end_to_end)
        host_l = job.places.host_l
        far_lm = host_l[:, None] != host_l
        latency_lm = host_latency_s(job)[np.ix_(host_l, host_l)]
        way_slm, receive_slm = np.zeros((2, len(job.producer_s), len(host_l), len(host_l)))
        for s, (start, end) in enumerate(zip(job.producer_s, job.consumer_s, strict=True)):
            own_l = job.streams.bytes_per_s[s] / job.places.bandwidth_h[host_l]
            card_l = job.streams.record_bytes[s] / job.places.bandwidth_h[host_l] * card_factor(own_l)
            send_l = _longer(job, alone_ol, start, float(job.streams.send[s]), end_to_end)
            way_slm[s] = latency_lm + far_lm * (send_l + card_l)[:, None]
            receive_slm[s] = far_lm * _longer(job, alone_ol, end, float(job.streams.receive[s]), end_to_end)
        return cls(job, np.where(allowed_ol, alone_ol, HUGE_S), way_slm, receive_slm)

    def solve(self, place_no: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Bounds [N], seconds, and completions [N, O] of partial placements, -1 where an operator has no socket."""
        ages = self._ages(place_no)
        sinks = [o for o in range(len(self.job.names)) if o not in self.job.producer_s]
        bound_n = mean_of_results(self.job, np.stack([ages[o].min(axis=1) for o in sinks], axis=1))
        return bound_n, self._completed(ages)

    def _ages(self, place_no: np.ndarray) -> list[np.ndarray]:
        """[N, L] for each operator: the least age of its results on each socket, seconds."""
        found: list[np.ndarray] = []
        for o, streams in enumerate(self.job.inputs):
            age_nl = np.where(self._elsewhere(place_no[:, o]), HUGE_S, self.alone_ol[o])
            if streams:
                age_nl = age_nl + self._arrived(o, streams, found)
            found.append(np.minimum(age_nl, HUGE_S))
        return found

    def _elsewhere(self, place_n: np.ndarray) -> np.ndarray:
        sockets = np.arange(self.alone_ol.shape[1])
        return np.asarray((place_n[:, None] >= 0) & (place_n[:, None] != sockets))

    def _arrived(self, o: int, streams: list[int], ages: list[np.ndarray]) -> np.ndarray:
        """[N, M] age that an operator's inputs, its window and receiving add up to, by the operator's socket,
        seconds."""
        sides, received = [], 0.0
        for s in streams:
            before_nl = ages[self.job.producer_s[s]]
            sides.append((before_nl[:, :, None] + self.way_slm[s]).min(axis=1))
            open_nl = np.where(before_nl < HUGE_S, 0.0, HUGE_S)
            received = received + (open_nl[:, :, None] + self.receive_slm[s]).min(axis=1)
        window_s = float(self.job.operators.window_s[o])
        if self.job.deployment.query.topological[o].joins:
            flat = [side.ravel() for side in sides]
            return np.asarray(oldest_s(flat, np.full(len(flat[0]), window_s)).reshape(sides[0].shape) + received)
        rates = self.job.streams.rate_per_s[streams]
        share = rates / max(float(rates.sum()), 1e-12)
        return np.asarray(np.tensordot(share, np.stack(sides), axes=1) + window_s + received)

    def _completed(self, ages: list[np.ndarray]) -> np.ndarray:
        """[N, O] best socket of each operator, given those of its consumers, from the sinks up."""
        place_no = np.zeros((len(ages[0]), len(ages)), np.int64)
        for o in reversed(range(len(ages))):
            cost_nl = ages[o].copy()
            for s, (start, end) in enumerate(zip(self.job.producer_s, self.job.consumer_s, strict=True)):
                if start == o:
                    cost_nl += (self.way_slm[s] + self.receive_slm[s])[:, place_no[:, end]].T
            place_no[:, o] = cost_nl.argmin(axis=1)
        return place_no


def _longer(job: PlacementCoefficients, alone_ol: np.ndarray, o: int, more: float, end_to_end: bool) -> np.ndarray:
    """[L] seconds that (de)serialising a stream adds to the service and wait of one of its ends, by socket."""
    more_o = np.where(np.arange(len(job.names)) == o, more, 0.0)
    return np.maximum(alone_s(job, more_o, end_to_end=end_to_end)[o] - alone_ol[o], 0.0)


# the optimizer -------------------------------------------------------------------------------------------------------
# The relaxation (`relaxation`) bounds a partial placement from below and completes it; the problem's cost model
# estimates the completions, many at a time. Under the rate model the tree is searched by bounds, until no open node
# can be better: a proof. Under any other model the analytic bound alone prunes, to a per cent of what placement can
# change, and the model's own estimates say which branch comes next and which leaf is best; nothing is proved then.
# Nothing is pruned for a model that sees what the rate model ignores, nor for an objective that is no latency.


BATCH = 16
"""Number of nodes that are branched at a time."""
SEARCHED = 0.5
"""Share of the budget spent on the tree once its bounds are refuted; small changes of the best get the rest."""
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
        tree = _Tree(problem, PlacementCoefficients.of(job))
        tree.search()
        return tree.solution(started_s)


class _Tree:
    """Search tree: its open nodes and the plans estimated. latency: whether the objective is a latency. by_rates:
    whether bounds are those of the rate model, the problem's cost model. prunes: whether nodes are dropped by bounds:
    of a latency, if the cost model sees no more than rates do."""

    def __init__(self, problem: Problem, job: PlacementCoefficients) -> None:
        self.problem, self.job, self.candidates = problem, job, Candidates(problem)
        end_to_end = problem.objective == "e2e_latency_s"
        self.relaxation = Relaxation.of(job, problem.space, end_to_end=end_to_end)
        self.latency = problem.objective in LATENCIES
        self.by_rates = self.latency and isinstance(problem.cost_model, RateModel)
        self.prunes = self.latency and not sees_beyond_rates(problem)
        self.best_s, self.nodes, self.refuted = np.inf, 0, False
        self.rates_s: list[float] = []
        self._open: list[tuple[tuple[float, ...], int, float, np.ndarray]] = []
        self._count = itertools.count()

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
        given = counts_of(self.problem.deployment, self.problem.deployment.plan)
        self._look_at([given])
        self._add(np.full((1, len(self.job.names)), -1))
        while self._open and self.candidates.left > 0 and self.nodes < NODES:
            taken = [heapq.heappop(self._open) for _ in range(min(BATCH, len(self._open)))]
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
        sockets = np.flatnonzero(self.relaxation.alone_ol[o] < HUGE_S)
        found = np.tile(place_o, (len(sockets), 1))
        found[:, o] = sockets
        return found[self._fits(found)]

    def _fits(self, place_no: np.ndarray) -> np.ndarray:
        """[N] whether the work of the operators placed is at most what their sockets bear."""
        on_nol = place_no[:, :, None] == np.arange(len(self.job.places.host_l))
        load_nl = np.einsum("nol,o->nl", on_nol, self.job.operators.work)
        return np.asarray((load_nl <= TOLERATED * self.job.places.capacity_l).all(axis=1))

    def _add(self, place_no: np.ndarray) -> None:
        """Bounds nodes, estimates their completions, and opens those that may be worth it."""
        bound_n, completed_no = self.relaxation.solve(place_no)
        worth = bound_n < self.worth_s
        counts = [self._counts(each) for each in completed_no[worth]]
        self._look_at(counts)
        for bound_s, place_o, counts_ol in zip(bound_n[worth], place_no[worth], counts, strict=True):
            key = (float(bound_s),) if self.by_rates else (*self._score(counts_ol), float(bound_s))
            heapq.heappush(self._open, (key, next(self._count), float(bound_s), place_o))

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
        plans = as_plans(self.problem.deployment, np.stack(new))
        found = estimate(replace(self.problem, cost_model=RateModel()), plans)
        self.rates_s += np.where(found.feasible, found.objective, np.inf).tolist()
        feasible = [self.candidates.candidate(row).feasible for row in range(before, len(self.candidates))]
        self.best_s = min(self.best_s, float(found.objective[found.feasible & feasible].min(initial=np.inf)))
        self.refuted = self.refuted or (self.latency and self._refutes(np.stack(new), found))

    def _score(self, counts_ol: np.ndarray) -> tuple[float, ...]:
        """Rank of a node by the cost model's estimate of its completion, less is better; last if that is not in the
        space."""
        if (row := self.candidates.row(counts_ol)) is None:
            return np.inf, np.inf
        found = self.candidates.candidate(row)
        return float(not found.feasible), self.problem.sign * found.objective

    def _refutes(self, counts_nol: np.ndarray, found: Estimated) -> bool:
        """Whether the rate model's estimate of one of these plans is below its own bound: bounds prove nothing then."""
        one_n = ((counts_nol > 0).sum(axis=2) == 1).all(axis=1)
        if not one_n.any():
            return False
        bound_n, _ = self.relaxation.solve(counts_nol[one_n].argmax(axis=2))
        return bool((found.feasible[one_n] & (found.objective[one_n] < bound_n * (1.0 - CLOSE))).any())

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
        proves = proves and not self.refuted
        bound = min([found.objective, *(each[2] for each in self._open)]) if proves else None
        closed = bound is not None and bound >= found.objective * (1.0 - CLOSE)
        return replace(
            found,
            status=Status.OPTIMAL if closed else Status.FEASIBLE,
            bound=bound,
            message=said(found.message, dealt_anew(self.problem, found.plan)),
        )
