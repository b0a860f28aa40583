"""Search with runs in the loop: predictions propose plans and order their changes, and runs have the last word.

A run takes a tenth of a second, so a search can afford some dozens. It begins with what predictions propose: the given
plan, and the best plans by rates for each load, of several optimizers. From the best of these it climbs: small changes
of a plan are simulated in the order of the predictions, the first that is better takes its place, and where nothing
near is better, it goes on from another start (local search: Hoos and Stuetzle, Stochastic Local Search, 2004).

All plans have the same random numbers in runs of the same number, so that differences between plans are less chance
than the plans themselves. Only a plan that leads gets more runs, one for every few challengers; a challenger must beat
the leader in all runs that the leader has, and is dropped after the first with which it does not (Hutter et al.,
Sequential Model-Based Optimization for General Algorithm Configuration, LION 2011, procedure Intensify). A last part of
the budget goes to those that look best, so that luck in few runs does not decide.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import combinations, zip_longest
from typing import Generic, Protocol, TypeVar

import numpy as np

from optimizers.interface import Deadline, Problem
from optimizers.judging import WORTH
from optimizers.local_search import changes_of, resized_of
from optimizers.rules import class_of
from optimizers.selection import by_risk
from optimizers.space import SpacePlans, as_plans, counts_of, nothing_found, uneven
from twin.errors import BadInput
from twin.metrics import CostModel
from twin.plan import ExecutionPlan
from twin.randomness import random_stream

# runs ----------------------------------------------------------------------------------------------------------------
# What a search knows of plans: runs, which tell it an objective, and by how much they miss what is required.


Rank = tuple[bool, float, float, float, float]
"""Rank of a plan, less is better."""


@dataclass(frozen=True, slots=True)
class Judged:
    """What the runs of a plan say together. objective: in its own unit; infinite if the runs do not tell it. missed: 0
    if the job keeps up and fulfils all requirements, else by how much it does not. second: decides between equal
    objectives, less is better. failed: share of the runs that failed, which counts also
    where it is too small to be missed."""

    objective: float
    missed: float = 0.0
    second: float = 0.0
    failed: float = 0.0

    def rank(self, sign: float) -> Rank:
        """Rank, less is better; an objective that is not known is last. sign: 1 if a lower one is better, else -1."""
        objective = sign * self.objective if math.isfinite(self.objective) else math.inf
        return self.missed > 0.0, self.missed, self.failed, objective, self.second


class PlanRun(Protocol):
    """Run of a plan."""

    @property
    def cpu_s(self) -> float:
        """CPU seconds that it took."""


R = TypeVar("R", bound=PlanRun)


class Bench(Protocol[R]):
    """Makes runs. The same plan and number give the same run, and runs of one number have the same random numbers."""

    def __call__(self, wanted: Sequence[tuple[ExecutionPlan, int]], at_once: int) -> Iterator[R]:
        """Runs of plans by number, in order, as they are asked for; up to `at_once` are made side by side."""

    def judged(self, runs: Sequence[R]) -> Judged:
        """What runs of one plan say together. runs: at least one."""


@dataclass(frozen=True, slots=True)
class Budget:
    """What a search may spend: a number of runs, or CPU seconds of planning and runs.

    Runs that were made ahead, side by side, and then were not needed do not count. Raises BadInput unless exactly one
    is given, and it is above 0.
    """

    runs: int | None = None
    cpu_s: float | None = None

    def __post_init__(self) -> None:
        given = [each for each in (self.runs, self.cpu_s) if each is not None]
        if len(given) != 1 or not 0 < given[0] < math.inf:
            raise BadInput("a budget is a number of CPU seconds above 0, such as 20, or of runs, such as 40runs")

    def left(self, kept: int, asked: int, runs: int, cpu_s: float, run_s: float) -> bool:
        """Whether something is left for more runs. kept: runs that are kept for later, at most a share LAST of all.
        asked: runs that are wanted now. runs, cpu_s: spent. run_s: CPU seconds of a run."""
        if self.runs is not None:
            return runs + asked <= self.runs - min(kept, int(LAST * self.runs))
        assert self.cpu_s is not None
        return cpu_s < self.cpu_s - min(kept * run_s, LAST * self.cpu_s)


@dataclass(slots=True)
class Tried(Generic[R]):
    """Plan that was simulated. found_by: what proposed it. runs: those made so far, by number from 0 on."""

    plan: ExecutionPlan
    found_by: str
    runs: list[R] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Step:
    """Point of the path of a search: after so many runs another plan led, or the same one was judged by more runs.

    best: its objective. feasible: whether it is as required. found_by: what proposed the plan."""

    runs: int
    best: float
    feasible: bool
    found_by: str


@dataclass(frozen=True, slots=True)
class Searched(Generic[R]):
    """Answer of a search. tried: all plans that were simulated, the best first, the others by their first runs. path:
    when which plan led. runs, cpu_s: spent on runs. nothing_near: whether all small changes of the best plan were
    simulated, and none is better. whole: whether all plans of the space were simulated; of those that exchanging equal
    hosts turns into each other, one. stayed: whether the given plan is the best because nothing is worth its moves.
    late: whether a limit of time, or who asked for it, has ended the search."""

    tried: Sequence[Tried[R]]
    path: Sequence[Step]
    runs: int
    cpu_s: float
    nothing_near: bool
    whole: bool
    stayed: bool
    late: bool

    @property
    def best(self) -> Tried[R]:
        """The best plan."""
        return self.tried[0]


def interval(bench: Bench[R], runs: Sequence[R]) -> tuple[float, float] | None:
    """About 95 % confidence interval of what runs say of the objective, from what all but one of them say (jackknife:
    Efron and Stein, 1981): of their logarithms where all are above 0, as a latency is; else, of a mean, it is
    Student's. None for one run, or where the objective is infinite."""
    count = len(runs)
    without = [bench.judged([*runs[:k], *runs[k + 1 :]]).objective for k in range(count)] if count > 1 else []
    middle = bench.judged(runs).objective
    if not without or not np.isfinite(without).all():
        return None
    from scipy.special import stdtrit  # here, because most commands need no SciPy

    positive = min(without) > 0.0 < middle
    values = np.log(without) if positive else np.array(without)
    error = math.sqrt((count - 1) / count * float(np.sum((values - np.mean(values)) ** 2)))
    half = float(stdtrit(count - 1, 0.975)) * error
    if positive:
        return middle * math.exp(-half), middle * math.exp(half)
    return middle - half, middle + half


# changes of plans ----------------------------------------------------------------------------------------------------
# Each prediction orders plans, from the best down; several take turns, so that none that is wrong decides alone.


def in_turns(orders: Sequence[Sequence[int]]) -> list[int]:
    """Rows in the order of several rankings that take turns, each once."""
    return list(dict.fromkeys(row for some in zip_longest(*orders) for row in some if row is not None))


def predicted_order(problem: Problem, models: Sequence[CostModel], plans: Sequence[ExecutionPlan]) -> list[int]:
    """Rows of plans in the order in which they are worth a run, by predictions that take turns."""
    rankings = [by_risk(problem.judged_by(each), plans)[1] for each in models]
    return in_turns([np.lexsort(ranks[::-1]).tolist() for ranks in rankings])


Changes = Callable[[np.ndarray], list[np.ndarray]]
"""Function that returns the small changes of a plan, all as subtasks by operator and socket [O, L]."""


def emptied_of(problem: Problem) -> Changes:
    """Function that returns all plans in which what may leave a socket has gone to another used one. A host of one
    socket becomes free by that: a single operator that goes saves nothing."""
    job = problem.deployment
    free_o, allowed_ol = ~problem.space.pinned_o(job), problem.space.allows_ol(job)

    def changes(counts_ol: np.ndarray) -> list[np.ndarray]:
        used, found = np.flatnonzero(counts_ol.any(axis=0)).tolist(), list[np.ndarray]()
        for start, end in ((start, end) for start in used for end in used if start != end):
            go_o = free_o & allowed_ol[:, end] & (counts_ol[:, start] > 0)
            if go_o.any():
                changed = counts_ol.copy()
                changed[go_o, end] += counts_ol[go_o, start]
                changed[go_o, start] = 0
                found.append(changed)
        return found

    return changes


def small_changes(problem: Problem) -> Changes:
    """Function that returns all plans one change away, each once: an operator, a subtask, both ends of a stream or all
    that may be there go to a socket, a socket is emptied, or, where numbers are free, an operator gets one subtask more
    or less."""
    kinds = [changes_of(problem), emptied_of(problem), resized_of(problem)]

    def changes(counts_ol: np.ndarray) -> list[np.ndarray]:
        found = {each.tobytes(): each for of in kinds for each in of(counts_ol)}
        found.pop(counts_ol.tobytes(), None)
        return list(found.values())

    return changes


def exchanged(plan: ExecutionPlan, names: Iterable[str]) -> Iterator[ExecutionPlan]:
    """Plans in which two subtasks of one of these operators have changed places."""
    for name in names:
        places = plan.placement[name]
        for i, j in combinations(range(len(places)), 2):
            if places[i] != places[j]:
                other = list(places)
                other[i], other[j] = places[j], places[i]
                yield plan.with_placement({**plan.placement, name: tuple(other)})


def in_order_of(plan: ExecutionPlan, changed: ExecutionPlan) -> ExecutionPlan:
    """The changed plan, with subtasks where the plan has them of all operators that are on the same places."""
    same = {
        name: places
        for name, places in plan.placement.items()
        if places != changed.placement[name] and sorted(map(str, places)) == sorted(map(str, changed.placement[name]))
    }
    return changed.with_placement({**changed.placement, **same}) if same else changed


# the search ----------------------------------------------------------------------------------------------------------


LAST = 0.2
"""Largest share of the budget that is kept for the last comparison."""
LEADERS_RUNS, EVERY = 5, 6
"""Runs that the best plan gets, and number of challengers for each of which the leader gets one more."""
HARDLY = 0.2
"""Amount missed up to which a plan may be as required, after all: limits by a quarter, in few runs."""
KEPT = 16
"""Number of runs that are kept for the last comparison, if the budget allows."""
DRAWN, EMPTY = 20, 20
"""Plans drawn at random, of which the best by predictions is the next start, when all other starts are used up; and
number of draws without a new plan after which the search ends."""
LISTED = 400
"""Number of plans of a space up to which all are listed instead."""
MOVES = "moves from "


class _SpentError(Exception):
    """The budget, or the time, is spent."""


class Search(Generic[R]):
    """Search for a plan of a problem. models: predictions that order plans, by the problem's objective. sign: 1 if less
    is better of what runs tell, else -1. first: runs that each plan gets before it is judged. at_once: runs that may be
    made side by side; the answer does not depend on it unless CPU seconds or a limit of time end the search. exchange:
    whether plans that exchanging equal hosts turns into each other are the same to who asks. deadline: of the search;
    None: the problem's, from now on. beside_s: CPU seconds spent so far beside the runs."""

    def __init__(
        self,
        problem: Problem,
        models: Sequence[CostModel],
        bench: Bench[R],
        budget: Budget,
        *,
        sign: float,
        first: int = 1,
        at_once: int = 1,
        exchange: bool = True,
        deadline: Deadline | None = None,
        beside_s: Callable[[], float] = lambda: 0.0,
    ) -> None:
        self.problem, self._models, self._bench, self._budget = problem, models, bench, budget
        self._sign, self._first, self._at_once, self._beside_s = sign, first, at_once, beside_s
        self._changes, self._deadline = small_changes(problem), deadline or problem.deadline()
        self._key = class_of(problem.scenario) if exchange else _exact
        self._uneven = uneven(problem.deployment, problem.space)
        self._tried: dict[Hashable, Tried[R]] = {}
        self._outside: set[Hashable] = set()  # starts that may not be chosen
        self._climbed: set[Hashable] = set()  # plans of which all changes were simulated
        self._path: list[Step] = []
        self._leader: Tried[R] | None = None
        self._runs, self._run_s, self._kept, self._challengers = 0, 0.0, KEPT, 0
        self._late = self._whole = False

    def run(self, starts: Mapping[str, ExecutionPlan]) -> Searched[R]:
        """Searches from the starts, at least one, by what proposes them. A start that is not in the space is simulated
        beside the others, and never chosen. Raises BadInput if no plan of the space is found."""
        space, job = self.problem.space, self.problem.deployment
        self._outside = {self._key(each) for each in starts.values() if not space.includes(job, each)}
        names = {self._key(plan): name for name, plan in reversed([*starts.items()])}
        began = list[Tried[R]]()
        with suppress(_SpentError):
            for each in self._simulated([(plan, names[self._key(plan)]) for plan in self._new(starts.values())]):
                if self._may(each):
                    began.append(each)
                    self._challenge(each)
        for kept in (KEPT, 0):  # what the last comparison does not need goes into more climbs
            self._kept = kept
            with suppress(_SpentError):
                for start in self._starts(sorted(began, key=self._rank)):
                    self._climb(start)
            if self._leader is None:
                raise nothing_found(job, space)
            self._kept = 0
            self._decide()
        return self._searched(self._stay())

    def _starts(self, began: Sequence[Tried[R]]) -> Iterator[Tried[R]]:
        """Plans to climb from: the first ones, the best first, then drawn ones, until all of the space are known, or no
        draw is new. Numbers of subtasks of drawn plans are the given ones."""
        yield from began
        job, asked = self.problem.deployment, self.problem
        space, rng = SpacePlans(job, replace(asked.space, free_subtasks=False)), random_stream(asked.seed, "searching")
        few, empty = space.exact and space.count <= LISTED, 0
        while empty < EMPTY:
            drawn = space.sample(rng, max(1, space.count)) if few else space.draws(rng, DRAWN)
            new = self._new(as_plans(job, drawn)) if len(drawn) else []
            if not new and few:
                self._whole = not asked.space.free_subtasks and not self._uneven
                return
            empty = 0 if new else empty + 1
            best = [new[row] for row in predicted_order(asked, self._models, new)[:1]] if new else []
            for each in self._simulated([(plan, "a random plan") for plan in best]):
                self._challenge(each)
                yield each

    def _climb(self, start: Tried[R]) -> None:
        """Goes from a plan to the first of its changes that is better, again and again, until none is."""
        here: Tried[R] | None = start
        while here is not None and self._key(here.plan) not in self._climbed:
            here = self._better_near(here)

    def _better_near(self, here: Tried[R]) -> Tried[R] | None:
        """A change that is better: the best of those that are known, from which no climb has begun yet, or the first of
        the others; None if none is."""
        known, new = self._near(here.plan)
        better = [each for each in known if self._key(each.plan) not in self._climbed and self._beats(each, here)]
        if better:
            return min(better, key=self._rank)
        ordered = [new[row] for row in predicted_order(self.problem, self._models, new)] if new else []
        moves = here.found_by if here.found_by.startswith(MOVES) else f"{MOVES}{here.found_by}"
        for each in self._simulated([(plan, moves) for plan in ordered]):
            self._challenge(each)
            if self._beats(each, here):
                return each
        self._climbed.add(self._key(here.plan))
        return None

    def _near(self, plan: ExecutionPlan) -> tuple[list[Tried[R]], list[ExecutionPlan]]:
        """Small changes of a plan that are in the space, as they are deployed: those that were simulated, and the
        others."""
        job, space = self.problem.deployment, self.problem.space
        changed = [space.deployable(job, each) for each in self._changes(counts_of(job, plan))]
        if not changed:
            return [], []
        counts_nol = np.stack(changed)[space.holds(job, np.stack(changed))]
        plans = list(as_plans(job, counts_nol)) if len(counts_nol) else []
        if self._uneven:
            orders = [each for each in exchanged(plan, sorted(self._uneven)) if space.includes(job, each)]
            plans = [*orders, *(in_order_of(plan, each) for each in plans)]
        known = {self._key(each) for each in plans} & self._tried.keys()
        return [self._tried[key] for key in known if self._may(self._tried[key])], self._new(plans)

    def _new(self, plans: Iterable[ExecutionPlan]) -> list[ExecutionPlan]:
        """Plans that were not simulated; of those that are the same, the first."""
        found = dict[Hashable, ExecutionPlan]()
        for plan in plans:
            found.setdefault(self._key(plan), plan)
        return [plan for key, plan in found.items() if key not in self._tried]

    def _may(self, plan: Tried[R]) -> bool:
        """Whether a plan may be chosen."""
        return self._key(plan.plan) not in self._outside

    # runs ------------------------------------------------------------------------------------------------------------

    def _simulated(self, plans: Sequence[tuple[ExecutionPlan, str]]) -> Iterator[Tried[R]]:
        """First runs of plans that have none, in order, as they are asked for. Raises _SpentError."""
        wanted = [(plan, number) for plan, _ in plans for number in range(self._first)]
        runs = self._bench(wanted, self._at_once)
        for plan, found_by in plans:
            self._check(self._first)
            made: Tried[R] = Tried(plan, found_by)
            for _ in range(self._first):
                self._noted(made, next(runs))
            self._tried[self._key(plan)] = made
            yield made

    def _again(self, plan: Tried[R]) -> None:
        """One more run of a plan. Raises _SpentError."""
        self._check(1)
        self._noted(plan, next(self._bench([(plan.plan, len(plan.runs))], 1)))
        if plan is self._leader:
            self._note_leader()

    def _noted(self, plan: Tried[R], run: R) -> None:
        plan.runs.append(run)
        self._runs += 1
        self._run_s += run.cpu_s
        best = self._path[-1].best if self._path else None
        self.problem.tell("runs", self._runs, self._budget.runs, best=best)

    def _check(self, asked: int) -> None:
        """Raises _SpentError if nothing is left for so many runs; the first are made in any case."""
        if not self._runs:
            return
        self._late = self._deadline.over
        spent_s = self._run_s + self._beside_s()
        if self._late or not self._budget.left(self._kept, asked, self._runs, spent_s, self._run_s / self._runs):
            raise _SpentError

    # who leads -------------------------------------------------------------------------------------------------------

    def _rank(self, plan: Tried[R], count: int | None = None) -> Rank:
        """Rank of a plan by its first `count` runs; None: by those that all plans get at first."""
        return self._bench.judged(plan.runs[: count or self._first]).rank(self._sign)

    def _beats(self, one: Tried[R], other: Tried[R]) -> bool:
        """Whether a plan is better in the runs that both have."""
        count = min(len(one.runs), len(other.runs))
        return self._rank(one, count) < self._rank(other, count)

    def _challenge(self, plan: Tried[R]) -> None:
        """Lets a plan lead if it beats the leader in all runs that the leader has. Raises _SpentError."""
        self._challengers += 1
        leader = self._leader
        if leader is not None and self._challengers % EVERY == 0 and len(leader.runs) < LEADERS_RUNS:
            self._again(leader)
        while leader is not None and self._beats(plan, leader) and len(plan.runs) < len(leader.runs):
            self._again(plan)
        if leader is None or self._beats(plan, leader):
            self._leader = plan
            self._note_leader()

    def _note_leader(self) -> None:
        assert self._leader is not None
        found = self._bench.judged(self._leader.runs)
        self._path.append(Step(self._runs, found.objective, found.missed <= 0.0, self._leader.found_by))

    def _decide(self) -> None:
        """Spends what is left: first on who beats the leader in the runs that both have, until it has as many; then on
        who is best by its own runs, until that has LEADERS_RUNS, as luck in a few runs goes as others come. Plans that
        would be better and hardly miss what is required get some, too: two unlucky runs are no reason to pay more. Then
        leads who, with as many runs as the leader, beats it in those that both have, or by all of its own."""
        plans = [each for each in self._tried.values() if self._may(each)]
        try:
            while True:
                best, leader = min(plans, key=self._own), self._leader
                assert leader is not None
                ahead = [each for each in plans if len(each.runs) < len(leader.runs) and self._beats(each, leader)]
                doubtful = [each for each in plans if self._hardly_misses(each, best)]
                if not ahead and not doubtful and len(best.runs) >= LEADERS_RUNS:
                    break
                self._again(min(ahead or doubtful or [best], key=self._own))
        except _SpentError:
            pass
        leads = self._leader
        assert leads is not None
        for each in sorted(plans, key=self._own):
            fewer = len(each.runs) < len(leads.runs)
            if not fewer and (self._beats(each, leads) or self._own(each) < self._own(leads)):
                leads = each
        if leads is not self._leader:
            self._leader = leads
            self._note_leader()

    def _own(self, plan: Tried[R]) -> Rank:
        """Rank of a plan by all of its runs."""
        return self._rank(plan, len(plan.runs))

    def _hardly_misses(self, plan: Tried[R], best: Tried[R]) -> bool:
        """Whether a plan has a better objective than the best one, misses little of what is required, and has few
        runs."""
        one, other = (self._bench.judged(each.runs) for each in (plan, best))
        if len(plan.runs) >= LEADERS_RUNS or not 0.0 < one.missed <= HARDLY or other.missed > 0.0:
            return False
        return self._sign * (one.objective - other.objective) < -WORTH * abs(other.objective)

    def _stay(self) -> bool:
        """Lets the given plan lead again if nothing is better by more than is worth its moves, in the runs that both
        have; returns whether it does."""
        given, leader = self._tried.get(self._key(self.problem.scenario.plan)), self._leader
        if given is None or leader is None or given is leader or not self._may(given):
            return False
        count = min(len(given.runs), len(leader.runs))
        one, other = (self._bench.judged(each.runs[:count]) for each in (given, leader))
        gain, least = self._sign * (one.objective - other.objective), WORTH * abs(other.objective)
        if not gain:
            gain, least = one.second - other.second, WORTH * abs(other.second)
        if one.missed > 0.0 or other.missed > 0.0 or one.failed > other.failed or gain > least:
            return False
        self._leader = given
        self._note_leader()
        return True

    def _searched(self, stayed: bool) -> Searched[R]:
        best = self._leader
        assert best is not None
        known, new = self._near(best.plan)
        nothing_near = not new and (stayed or not any(self._beats(each, best) for each in known))
        others = sorted((each for each in self._tried.values() if each is not best), key=self._rank)
        path, tried = tuple(self._path), (best, *others)
        return Searched(tried, path, self._runs, self._run_s, nothing_near, self._whole, stayed, self._late)


def _exact(plan: ExecutionPlan) -> Hashable:
    """Key of a plan: equal for equal plans."""
    return str((sorted(plan.placement.items()), sorted(plan.key_groups.items()), plan.fused))
