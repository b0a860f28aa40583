"""Relative-location aware scheduling (RLAS; BriskStream, SIGMOD 2019): replication and placement on NUMA sockets."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from operator import attrgetter
from typing import ClassVar

import numpy as np

from optimizers.interface import ENDLESS, Deadline, Problem, Solution, Traits
from optimizers.local_search import changes_of, climb
from optimizers.numa.baselines import fitted
from optimizers.numa.space import (
    MOST,
    PROVED,
    SocketSpace,
    Symmetry,
    as_good,
    best_first,
    calmest,
    crowded,
    different,
    improved,
    load_bound,
    loosened,
    neighbours,
    results_bound,
    roomiest,
    searched,
    solution,
)
from optimizers.numa.tree import (
    HALF,
    Heuristics,
    Order,
    Placed,
    SocketTree,
    in_proportion,
    proportioned,
    scaled,
    search,
)
from optimizers.objectives import at_rate
from optimizers.rules import evened
from optimizers.selection import Candidates, estimate
from optimizers.space import counts_of
from twin.errors import BadInput
from twin.randomness import random_stream
from twin.rates.numa_rates import Fetch, NumaJob, sustained

# the last phase ------------------------------------------------------------------------------------------------------
# RLAS's last phase: subtasks move, come or go one or two at a time under the problem's own cost model.
#
# Tree and local search weigh placements by the load that all sources sustain. That is quick, but it knows nothing of
# one source slowed and another not, of memory, or of waits. The problem's cost model does, and it judges the plan. A
# subtask that is idle for most of its time may well share a core. So there are at most as many subtasks as cores and
# operators that need little of one together, unless a start has more.


SOON_S = 0.01
LITTLE = 0.5
"""Share of a core below which an operator needs little."""
LOST = 0.1
"""Relative error: sockets full of more subtasks than cores bear up to so much less than predicted."""
BATCH = 100
"""Number of plans that are estimated at once."""
KICK = 3
"""Number of subtasks that a kick moves elsewhere."""
EXCHANGED = 0.3
"""Share of the kicks that exchange two sockets as a whole instead; they differ where directions do."""
IN_VAIN = 12
"""Number of kicks in a row without a better plan after which the search ends."""


def polished(
    problem: Problem, job: NumaJob, starts: Sequence[np.ndarray], deadline: Deadline, bound: float | None
) -> tuple[list[np.ndarray], int]:
    """Best plans [o, l] reached from the best of the starts and the given plan, and the number of plans estimated: at
    most the problem's budget less what the answer needs. The starts themselves if there is no time or budget. bound: of
    the objective, to be reported."""
    kept = 1 + min(problem.alternatives, problem.budget // 2)
    if problem.budget <= kept + len(starts) or deadline.left_s < SOON_S:
        return list(starts[:kept]), 0
    left_s = None if deadline.left_s == math.inf else deadline.left_s
    known = Candidates(replace(problem, budget=problem.budget - kept, seconds=left_s))
    known.bound = bound
    given_ol = counts_of(problem.deployment, problem.deployment.plan)
    first = [*(each.astype(np.int64) for each in starts), given_ol]
    known.look_at(first)
    if not len(known):
        return list(starts[:kept]), 0
    _Polish(problem, job, known).run([row for row in map(known.row, first) if row is not None])
    rows = known.ranking.tolist()
    best = known.candidate(rows[0])
    tied = [row for row in rows if as_good(known.candidate(row), best)]
    tied = [tied[index] for index in roomiest(job, [known[row] for row in tied])]
    if problem.objective == "throughput_per_s":
        every = range(len(known))
        looked_at = [known[row] for row in every]
        tied.insert(0, calmest(job, looked_at, [known.candidate(row) for row in every], tied[0]))
    first_rows = list(dict.fromkeys([*tied, *rows]))[:kept]
    return [known[row].astype(float) for row in first_rows], known.evaluations


def crowded_more(
    problem: Problem,
    job: NumaJob,
    candidates: Sequence[np.ndarray],
    shared: Sequence[np.ndarray],
    deadline: Deadline,
    bound: float | None,
) -> tuple[list[np.ndarray], int]:
    """Plans polished from `shared`, which have more subtasks than cores, if the best of them keeps up where the best
    candidate does not, or lets LOST more through; else the candidates. And the number of plans estimated."""
    best, asked = polished(problem, job, shared, deadline, bound)
    pair_ol = [each[0].astype(np.int64) for each in (candidates, best)]
    plans = [job.plan_of(problem.space.deployable(problem.deployment, counts_ol)) for counts_ol in pair_ol]
    found = estimate(problem, plans)
    (here, there), (before, after) = found.feasible, found.objective
    more = problem.sign < 0.0 and after > (1.0 + LOST) * before
    return list(best if there > here or (there == here and more) else candidates), asked + len(plans)


def _of_little_work(job: NumaJob) -> int:
    """Number of operators that need less than LITTLE at the load that all cores together bear."""
    need_o = job.in_o * job.time_o / job.speed_l.max() * min(1.0, load_bound(job))
    return int(np.count_nonzero(need_o < LITTLE))


class _Polish:
    """Climbs from the best start, from the other starts, then from the best plan with some subtasks elsewhere."""

    def __init__(self, problem: Problem, job: NumaJob, known: Candidates) -> None:
        self._problem, self._job, self._known = problem, job, known
        self._rng = random_stream(problem.seed, "rlas-polish")
        self._space = problem.space
        self._changes = changes_of(problem)
        self._scale = bool(problem.space.free_subtasks)
        self._movable_o = np.flatnonzero(~problem.space.pinned_o(problem.deployment))
        starts = (int(known[row].sum()) for row in range(len(known)))
        self._most = max(int(job.cores_l.sum()) + _of_little_work(job), *starts)

    def run(self, starts: list[int]) -> None:
        """Climbs until the budget is spent, everything is let through, or several kicks in a row were in vain."""
        known = self._known
        self._climb(known[row] for row in sorted(set(starts), key=known.ranking.tolist().index))
        in_vain = 0
        while in_vain < IN_VAIN and not self._done() and len(self._movable_o):
            best = known.best
            self._climb([self._kicked(known[best])])
            in_vain = 0 if known.best != best else in_vain + 1

    def _climb(self, starts: Iterable[np.ndarray]) -> None:
        climb(self._known, self._near, starts, batch=BATCH, enough=self._done)

    def _near(self, here_ol: np.ndarray) -> Sequence[np.ndarray]:
        """All changes of a plan: of one or two subtasks in random order, those that put no more subtasks beyond cores
        first, then of whole operators."""
        near = neighbours(here_ol, self._most, self._scale)
        order = self._rng.permutation(len(near))
        if len(near):
            more_n = crowded(self._job, near[order]) > crowded(self._job, here_ol[None])
            order = order[np.argsort(more_n, kind="stable")]
        return [*near[order], *self._changes(here_ol)]

    def _kicked(self, counts_ol: np.ndarray) -> np.ndarray:
        """Plan some way from another one; it may not be in the space."""
        several = counts_ol.shape[1] > 1 and self._rng.random() < EXCHANGED
        return self._exchanged(counts_ol) if several else self._thrown(counts_ol)

    def _exchanged(self, counts_ol: np.ndarray) -> np.ndarray:
        """Plan with two sockets exchanged as a whole."""
        sockets = np.arange(counts_ol.shape[1])
        one, other = self._rng.choice(sockets, 2, replace=False)
        sockets[[one, other]] = other, one
        return counts_ol[:, sockets]

    def _thrown(self, counts_ol: np.ndarray) -> np.ndarray:
        """Plan with some subtasks elsewhere or, where numbers are free, replaced by ones of other operators."""
        found_ol = counts_ol.copy()
        for _ in range(KICK):
            o = p = int(self._rng.choice(self._movable_o))
            if self._scale and found_ol[o].sum() > 1:
                p = int(self._rng.choice(self._movable_o))
            start, end = self._rng.choice(np.flatnonzero(found_ol[o])), int(self._rng.integers(found_ol.shape[1]))
            found_ol[o, start] -= 1
            found_ol[p, end] += 1
        return found_ol

    def _done(self) -> bool:
        """Whether no more plans may be looked at, or the best plan lets everything through already."""
        if self._known.left <= 0:
            return True
        best, throughput = self._known.candidate(self._known.best), self._problem.objective == "throughput_per_s"
        return throughput and best.feasible and best.objective >= self._job.results_per_s * (1.0 - PROVED)


# the optimizer -------------------------------------------------------------------------------------------------------
# Operators get subtasks by BriskStream's iterative scaling; each time they are placed by branch and bound over a tree
# (`optimizers.numa.tree`), under the model of `twin.rates.numa_rates`. A local search (`optimizers.numa.space`), which
# the paper does not have, begins at the best placements on the way; the phase above comes last, under the problem's
# own cost model. There may be any number of hosts, with any number of sockets each.


RATIO = 5
"""Number of subtasks of an operator that are placed together (the paper's choice, Section 4)."""
FEW = 24
"""Number of subtasks in all up to which each is placed by itself."""
IMPROVED = 4
"""Number of the best placements that are improved; the search goes on from the best of them."""
LOOKS = 40_000
"""Number of nodes looked at for each placement, times sockets, times depth of the tree: small trees are searched whole,
and large ones hardly beyond the first dives, since each of their nodes takes longer."""
WEIGHED = 2_000_000
"""Number of placements weighed after which the local search begins nothing new."""
SCALING, IMPROVING = 0.4, 0.7
"""Shares of a limited time for trying numbers of subtasks and, of the rest, for improving placements."""
SPARE = 2
"""Multiple of the last phase's estimates that the budget must have for another one with more subtasks."""
CLOSE = 1e-9
LOAD = attrgetter("load")


@dataclass(frozen=True, slots=True)
class Rlas:
    """Planner for NUMA sockets. fetch: the planner's assumption on distances; "always" and "never" are RLAS_fix(L) and
    RLAS_fix(U). heuristics: of the tree; None: all, with the paper's compression ratio once there are many subtasks.
    nodes: of the tree that are looked at for each placement; None: by its size, see LOOKS. order: of the search.
    most_subtasks: of all operators together; None: one a core. scale: whether replication is chosen; else it is that of
    the deployment's plan. improve, refine: whether the local search runs, and as in `scaled`. sharing: whether
    there may be more than `most_subtasks`, which the paper does not allow, where operators need so little that they
    share cores."""

    traits: ClassVar = Traits(objective="throughput_per_s")
    name: str = "rlas"
    fetch: Fetch = "relative"
    heuristics: Heuristics | None = None
    nodes: int | None = None
    order: Order = "depth"
    most_subtasks: int | None = None
    scale: bool = True
    improve: bool = True
    refine: bool = True
    sharing: bool = False

    def solve(self, problem: Problem) -> Solution:
        """Best plan found. Streams that are not dealt evenly count as even, until the problem's cost model judges.

        Raises BadInput for an operator that costs nothing or is too coarse, and, from RLAS_fix, which has no such last
        phase, for a stream that is not dealt evenly."""
        started_s = time.perf_counter()
        if problem.space.free_subtasks and not self.scale:
            raise BadInput(f"{self.name} keeps the numbers of subtasks; use rlas, or --parallelism fixed")
        problem = problem.settled(free_subtasks=self.scale)
        planned = at_rate(problem.deployment, problem.requirements.factor)
        judges = self.improve and self.fetch == "relative"
        job, space = NumaJob(planned, self.fetch, as_if_even=judges), SocketSpace.of(problem, self.name)
        deadline = problem.deadline()
        truth = NumaJob(problem.deployment, as_if_even=judges)
        known = results_bound(problem, truth, 0.0, math.inf)
        told = _Told(problem, truth.results_per_s, problem.requirements.factor, known)
        found = _RlasSearch(self, job, space, deadline, told)
        candidates, bound = found.run(problem)
        if self.fetch != "relative":  # the best by its own assumption, whatever the problem's cost model says
            candidates = candidates[:1]
        bound *= problem.requirements.factor
        asked = 0
        if judges:
            candidates, asked = polished(problem, truth, candidates, deadline, known)
            left = not deadline.over and 0 < SPARE * asked < problem.budget
            if self.sharing and problem.space.free_subtasks and left:
                found.deadline = deadline
                rest = replace(problem, budget=problem.budget - asked)
                candidates, more = crowded_more(rest, truth, candidates, found.shared(problem), deadline, known)
                asked += more
        answer = solution(problem, truth, candidates, started_s=started_s, weighed=found.weighed, most=bound)
        return replace(answer, evaluations=answer.evaluations + asked)

    def placed(self, job: NumaJob, subtasks_o: np.ndarray) -> np.ndarray:
        """Placement [o, l] of so many subtasks that the tree search finds, before any local search."""
        space = SocketSpace.everything(len(job.operators), len(job.locations))
        return _RlasSearch(self, job, space, ENDLESS).place(subtasks_o).counts_ol


@dataclass(slots=True)
class _Told:
    """Reports progress, with loads as results a second: `results_per_s` times `factor` times the load."""

    problem: Problem
    results_per_s: float
    factor: float
    bound: float | None
    best: float = 0.0

    def __call__(self, what: str, done: int, total: int, load: float) -> None:
        self.best = max(self.best, self.results_per_s * min(1.0, self.factor * load))
        value = self.best if self.problem.objective == "throughput_per_s" else None
        self.problem.tell(what, done, total, best=value, bound=self.bound)


Tell = Callable[[str, int, int, float], None]
"""Reports progress: a phase, steps done, steps in all, and a load that is borne."""


class _RlasSearch:
    """One run of RLAS."""

    def __init__(
        self, options: Rlas, job: NumaJob, space: SocketSpace, deadline: Deadline, told: Tell = lambda *_: None
    ) -> None:
        self.options, self.job, self.space, self.deadline = options, job, space, deadline
        self.weighed, self._told = 0, told
        self._symmetry = Symmetry(job, space.allowed_ol)

    def run(self, problem: Problem) -> tuple[list[np.ndarray], float]:
        """Placements, the best by the model first, and the load that none of the space exceeds, inf if not known."""
        options, job = self.options, self.job
        scale = not self.space.kept_o.all()
        most = int(job.cores_l.sum()) if options.most_subtasks is None else options.most_subtasks
        if not scale:
            subtasks_o = self.space.home_ol.sum(axis=1)
            ways = [[self.place(subtasks_o)]]
            most = int(subtasks_o.sum())
        else:
            ways = self._scaled(most)
        bound = math.inf if scale else ways[0][0].bound
        placements = sorted(chain(*ways), key=LOAD, reverse=True)  # stable: of equal ones, that with fewer subtasks
        kept = [placed.counts_ol for placed in placements[: 1 + problem.alternatives]]
        roomy = float(placements[0].load) >= 1.0 and not crowded(job, kept[0][None])[0]
        if not options.improve or roomy:
            return kept, bound
        self.deadline = self.deadline.part(IMPROVING)
        heads = [max(way, key=LOAD).counts_ol for way in ways]
        first = different([*heads, *kept])[:IMPROVED]
        starts = [self._improved(counts_ol, most, scale) for counts_ol in first if self.weighed < WEIGHED]
        found = best_first(job, [*starts, *kept])
        rng = random_stream(problem.seed, "rlas")
        best, weighed = searched(job, found[0], most, rng, self._spent, self.space, scale=scale)
        self.weighed += weighed
        ranked = best_first(job, [best, *found])[: 1 + problem.alternatives]
        return ranked + self._loosened(ranked, most, scale), bound

    def shared(self, problem: Problem) -> list[np.ndarray]:
        """Placements of as many subtasks as the load that cores bear needs, however many these are; in slots, also with
        equally many on each host."""
        needed_o = in_proportion(self.job, MOST, self.space, min(1.0, load_bound(self.job)))
        counts_ol = self.place(needed_o).counts_ol
        even = problem.space.has_slots(problem.deployment)
        return [counts_ol, *([evened(counts_ol, ~self.space.kept_o)] if even else [])]

    def _loosened(self, placements: list[np.ndarray], most: int, scale: bool) -> list[np.ndarray]:
        """Placements in which some operators got more subtasks where they are pressed, which no bottleneck asks for."""
        found = [loosened(self.job, each, most, self.space) for each in placements] if scale else []
        return [new for new, old in zip(found, placements, strict=False) if (new != old).any()]

    def _scaled(self, most: int) -> list[list[Placed]]:
        """Placements of a subtask for each core at once, of the numbers on Algorithm 1's way, and of the given numbers;
        in SCALING of the time, where that is limited."""
        job, deadline = self.job, self.deadline.part(SCALING)
        ways: list[Iterable[Placed]] = [
            proportioned(job, self.place, most, self.space),
            scaled(
                job,
                self.place,
                most,
                self.space,
                refine=self.options.refine,
                first_o=in_proportion(job, most, self.space, HALF),
            ),
        ]
        found: list[list[Placed]] = []
        for way in ways:
            found.append([])
            for placed in way:
                found[-1].append(placed)
                parallelism = int(placed.counts_ol.sum())
                self._told("subtasks placed", parallelism, max(most, parallelism), placed.load)
                if deadline.over:
                    return [*found, *self._fitted(in_proportion(job, most, self.space))]
        found[-1].append(self.place(self.space.home_ol.sum(axis=1)))
        return found

    def _fitted(self, subtasks_o: np.ndarray) -> list[list[Placed]]:
        """First-fit placement where it takes next to no time: often better than one dive into a tree."""
        if subtasks_o.sum() > FEW:
            return []
        counts_ol = fitted(self.job, subtasks_o, turn=False)
        load = float(sustained(self.job, counts_ol[None]).load_n[0])
        return [[Placed(counts_ol, load)]] if self.space.holds(counts_ol[None])[0] else []

    def place(self, subtasks_o: np.ndarray) -> Placed:
        """Best placement of so many subtasks that the tree search finds.

        If the tree that the heuristics leave is soon searched, the whole tree is, while nodes are left.
        """
        heuristics = self.options.heuristics or self._usual(int(subtasks_o.sum()))
        tree = SocketTree(self.job, subtasks_o, heuristics, self._symmetry, self.space)
        nodes = self.options.nodes or LOOKS // (tree.depth * len(self.job.locations) + 1)
        nodes = max(nodes, tree.depth + 1)  # a dive to the first leaf at least
        found = search(tree.root, tree.branch, order=self.options.order, most=nodes, deadline=self.deadline)
        self.weighed += tree.weighed
        if found.best is None:  # out of time: a dive to the first leaf of a tree where nothing was seen yet
            tree = SocketTree(self.job, subtasks_o, heuristics, self._symmetry, self.space)
            found = search(tree.root, tree.branch, most=nodes)
            self.weighed += tree.weighed
        assert found.best is not None
        whole = heuristics.loses_nothing
        short = found.best.bound < tree.root.bound * (1.0 - CLOSE)
        if short and found.nodes < nodes:
            wide = SocketTree(self.job, subtasks_o, heuristics.widened, self._symmetry, self.space)
            most, order = nodes - found.nodes, self.options.order
            found = search(wide.root, wide.branch, order=order, most=most, deadline=self.deadline, known=found.best)
            self.weighed += wide.weighed
            whole = heuristics.widened.loses_nothing
        assert found.best is not None
        bound = found.bound if whole else tree.root.bound
        return Placed(found.best.counts_ol, found.best.bound, bound)

    def _usual(self, parallelism: int) -> Heuristics:
        """Heuristics by default: all, but few subtasks are not compressed, as there is time for each."""
        return Heuristics(ratio=1 if parallelism <= FEW else min(RATIO, int(self.job.cores_l.max())))

    def _spent(self, weighed: int) -> bool:
        self._told("placements weighed", self.weighed + weighed, WEIGHED, 0.0)
        return self.deadline.over or self.weighed + weighed > WEIGHED

    def _improved(self, counts_ol: np.ndarray, most: int, scale: bool) -> np.ndarray:
        if self.deadline.over:
            return counts_ol
        found, weighed = improved(self.job, counts_ol, most, self.space, scale=scale, spent=self._spent)
        self.weighed += weighed
        return found
