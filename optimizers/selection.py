"""Choice of a plan: candidates are estimated once each, while the budget lasts, and Costream's rule takes the best.

For all optimizers: they say which plans are looked at, and here it is said which of these is the best.

If everything would be dropped, the candidate least likely to fail or be backpressured is kept; among those about as
likely (all of them, for a job that no plan can bear) the target metric decides. Ties go to the better target metric,
then to the plan whose text comes first, so the choice depends neither on order nor on chance.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from bisect import bisect_right
from collections.abc import Callable, Container, Hashable, Iterable, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, Generic, TypeVar

import numpy as np

from optimizers.interface import Candidate, Deadline, Problem, Solution, Status
from optimizers.objectives import MEAN_LATENCIES, OBJECTIVES, USUAL_METRIC, at_rate
from optimizers.program import FEW_NODES, ProgramLimits
from optimizers.space import as_plans, nothing_found
from twin.errors import BadInput
from twin.job import compile
from twin.metrics import BINARY_METRICS, CHECKPOINTS, CostModel, Estimates, Narrowable, Ranged, Slow, Unsure, estimates
from twin.plan import ExecutionPlan
from twin.rates.model import RateModel
from twin.scenario import Scenario

# the choice ----------------------------------------------------------------------------------------------------------


RISK_STEP = 0.05
"""Step of predicted probabilities of failure; smaller differences between two plans do not count."""

MARGIN = 0.03
"""Relative error of predictions for plans that do not keep up: smaller differences do not count, as overload on crowded
sockets is predicted to about a tenth."""
SURE = 0.2
"""Probability of backpressure below which a plan surely keeps up; the rate model says so up to 93 % of its pressure."""
PREMIUM = 0.01
"""Relative cost that a plan may have more to surely keep up."""
RANKS = 4
"""Number of the values by which plans are compared, as in `ranks`."""
ERRORS = 2.0
"""Standard errors by which a mean may be off by chance."""
UNKNOWN = (
    "cost model {model!r} does not predict {name}; let runs judge, with a budget (--budget 20 in CPU seconds, or "
    "40runs), or a model that was trained on it (--cost-model learned)"
)
ABSENT = "{scenario} takes no checkpoints, so it has no {name}; give it checkpoints, or leave {name} out"
NOTHING_FEASIBLE = "no plan looked at is predicted to keep up; this one is about the likeliest to"
NOTHING_FULFILS = "no plan that keeps up was found that {words}"


@dataclass(frozen=True, slots=True)
class Estimated:
    """N plans with the estimates of a cost model; arrays [N] as the fields of a `Candidate`.

    missed: amount by which a plan misses the requirements, 0 if it fulfils them: the largest share by which a latency
    is above its limit, plus, if it fails at the required head room, the share of results that are missing there,
    RISK_STEP at least. second: decides among plans of equal objective, less is better. error: relative error by
    chance, with 95 % confidence, of the objective, or of `second` where there is one. reached: values of the limited
    latencies, in their order [N, K]. None: unknown."""

    plans: Sequence[ExecutionPlan]
    objective: np.ndarray
    backpressured: np.ndarray
    success: np.ndarray
    missed: np.ndarray | None = None
    second: np.ndarray | None = None
    error: np.ndarray | None = None
    reached: np.ndarray | None = None

    @property
    def feasible(self) -> np.ndarray:
        """[N] whether each plan is feasible, as in `Candidate`."""
        return self.runs if self.missed is None else self.runs & (self.missed <= 0.0)

    @property
    def runs(self) -> np.ndarray:
        """[N] whether each plan keeps up, whether or not it fulfils other requirements."""
        return np.asarray((self.backpressured < 0.5) & (self.success >= 0.5))

    @classmethod
    def joined(cls, parts: Sequence[Estimated], plans: Sequence[ExecutionPlan]) -> Estimated:
        """Joins the estimates of parts of these plans, in order, to those of all plans."""
        columns: list[Any] = [None if each[0] is None else np.concatenate(each) for each in _columns(parts)]
        return cls(plans, *columns)

    def part(self, rows: Sequence[int]) -> Estimated:
        """Estimates of some of the plans, by their rows."""
        columns: list[Any] = [None if each is None else each[list(rows)] for (each,) in _columns([self])]
        return Estimated([self.plans[row] for row in rows], *columns)

    def candidate(self, row: int) -> Candidate:
        """Candidate made of one of the plans."""
        objective, backpressured, success = (
            float(column[row]) for column in (self.objective, self.backpressured, self.success)
        )
        fulfils = self.missed is None or bool(self.missed[row] <= 0.0)
        second = 0.0 if self.second is None else float(self.second[row])
        return Candidate(self.plans[row], objective, backpressured, success, fulfils, second)


def _columns(parts: Sequence[Estimated]) -> list[list[Any]]:
    """Values of all parts, for each field except the plans."""
    return [[getattr(part, field.name) for part in parts] for field in fields(Estimated) if field.name != "plans"]


def sees_beyond_rates(problem: Problem) -> bool:
    """Whether the rate model ignores something of the job, all of which the problem's cost model sees without
    extrapolation.

    Estimates by rates then do not tell good plans from bad ones.
    """
    model, scenario = problem.cost_model, problem.scenario
    ignored = set(RateModel().blind_to(scenario))
    if not ignored or ignored & set(model.blind_to(scenario)):
        return False
    return not (isinstance(model, Ranged) and model.beyond(scenario))


def intervals(
    model: CostModel, scenario: Scenario, plans: Sequence[ExecutionPlan], objective: str
) -> np.ndarray | None:
    """[2, N] lowest and highest objective of each plan, in its unit, in nine of ten runs. None if the cost model does
    not know them, ignores something of the scenario, or has to extrapolate."""
    model = model.only((objective,)) if isinstance(model, Narrowable) else model
    if not isinstance(model, Unsure) or not estimates(model, objective) or model.blind_to(scenario):
        return None
    extrapolates = isinstance(model, Ranged) and model.beyond(scenario)
    return None if extrapolates else model.interval(scenario, plans, objective)


def estimate(problem: Problem, plans: Sequence[ExecutionPlan]) -> Estimated:
    """Estimates of plans by the problem's cost model. Raises ValueError if one is NaN."""
    return estimate_with(problem, plans)[0]


def estimate_with(
    problem: Problem, plans: Sequence[ExecutionPlan], metrics: Sequence[str] = ()
) -> tuple[Estimated, list[np.ndarray]]:
    """Estimates of plans, and values [N] of further metrics, from one prediction. Raises ValueError if one is NaN."""
    of = OBJECTIVES[problem.objective].of
    decides = problem.objective if of is None else USUAL_METRIC
    limits = problem.requirements.at_most
    asked = (decides, *BINARY_METRICS, *metrics)
    found = _asked(problem, plans, (*asked, *limits))
    decided, backpressured, success, *more = (np.asarray(found[metric]) for metric in asked)
    reached = np.stack([found[name] for name in limits], axis=1) if limits else None
    model = problem.cost_model
    error = None
    if (of is not None or problem.objective in MEAN_LATENCIES) and isinstance(model, Slow):
        error = ERRORS * np.asarray(found.spread) / math.sqrt(model.replications)
    objective = decided if of is None else of(problem.deployment, plans, problem.requirements)
    second = None if of is None else decided
    missed = _missed(problem, plans, reached)
    return Estimated(plans, objective, backpressured, success, missed, second, error, reached), more


def predicted(problem: Problem, plans: Sequence[ExecutionPlan], metrics: Sequence[str]) -> list[np.ndarray]:
    """Estimates of the plans by the problem's cost model, for each metric [N]. Raises ValueError if one is NaN."""
    found = _asked(problem, plans, metrics)
    return [np.asarray(found[metric]) for metric in metrics]


def _asked(problem: Problem, plans: Sequence[ExecutionPlan], metrics: Sequence[str]) -> Estimates:
    model = problem.cost_model
    for name in metrics:
        if not estimates(model, name):
            raise BadInput(UNKNOWN.format(model=model.name, name=name))
        if name in CHECKPOINTS and problem.scenario.checkpoints is None:
            raise BadInput(ABSENT.format(name=name, scenario=problem.scenario.name))
    if isinstance(model, Narrowable):
        model = model.only(tuple(dict.fromkeys(metrics)))
    found = model.predict(problem.scenario, plans)
    if any(np.isnan(found[metric]).any() for metric in metrics):
        raise ValueError(f"cost model {problem.cost_model.name!r} predicts NaN")
    return found


def _missed(problem: Problem, plans: Sequence[ExecutionPlan], reached: np.ndarray | None) -> np.ndarray | None:
    """[N] `Estimated.missed` of plans; None without requirements. reached: values of the limited latencies [N, K]."""
    required = problem.requirements
    if not required.words:
        return None
    missed = np.zeros(len(plans))
    if reached is not None:
        missed += np.maximum(0.0, reached / list(required.at_most.values()) - 1.0).max(axis=1)
    if required.head_room:
        ahead = lasting(replace(problem, scenario=at_rate(problem.scenario, required.factor)))
        backpressured, success, per_s = predicted(ahead, plans, (*BINARY_METRICS, "throughput_per_s"))
        rates = compile(ahead.scenario).rates
        all_per_s = sum(rates[sink.name].in_per_s for sink in ahead.scenario.query.result_sinks)
        # not the probability of failure, which is 1 for all that are far from keeping up
        lacking = np.maximum(1.0 - per_s / max(all_per_s, 1e-300), RISK_STEP)
        missed += np.where((backpressured < 0.5) & (success >= 0.5), 0.0, lacking)
    return missed


def lasting(problem: Problem) -> Problem:
    """Problem in the long run, if its cost model can predict that: a plan that fills the channels is backpressured
    sooner or later, even if the run is too short to show it."""
    model = problem.cost_model
    return replace(problem, cost_model=model.lasting()) if isinstance(model, RateModel) else problem


def ranks(problem: Problem, found: Estimated) -> np.ndarray:
    """[RANKS, N] rank of each plan, less is better. Plans are compared by the first number in which they differ:
    whether a plan is not feasible, its risk in steps, its objective, and its second number. In place of its risk, a
    plan that keeps up and misses requirements has a negative number, which rises with the amount missed."""
    feasible = found.feasible
    risk = np.round((1.0 - (1.0 - found.backpressured) * found.success) / RISK_STEP)
    missed = 0.0 if found.missed is None else found.missed
    risk = np.where(feasible, 0.0, np.where(found.runs, -1.0 / (1.0 + missed), risk))
    second = np.zeros(len(feasible)) if found.second is None else found.second
    return np.stack([~feasible, risk, problem.sign * found.objective, second]).astype(float)


def best_first(rank_kn: np.ndarray) -> np.ndarray:
    """[N] rows of plans from the best down, by their ranks [K, N]; of equal ones the first comes first."""
    return np.lexsort(rank_kn[::-1])


def ranked(problem: Problem, found: Estimated, count: int) -> list[Candidate]:
    """Best `count` candidates, from the best down."""
    columns = ranks(problem, found)
    order = best_first(columns)
    last = columns[:, order[min(count, len(order)) - 1]]
    tied = (columns[:, order] == last[:, None]).all(axis=0)
    rows = order[: max(count, int(np.flatnonzero(tied)[-1]) + 1)]  # ties with the last go by their text
    best = [(tuple(columns[:, row]), found.candidate(int(row))) for row in rows]
    best.sort(key=lambda pair: (pair[0], _text(pair[1].plan)))
    return [candidate for _, candidate in best[:count]]


def _text(plan: ExecutionPlan) -> tuple[str, str, str]:
    """Text of a whole plan, to compare plans."""
    return str(sorted(plan.placement.items())), str(sorted(plan.key_groups.items())), str(plan.fused)


def shortfall(problem: Problem, best: Candidate) -> str:
    """Words for what the best plan does not fulfil; empty if it is feasible."""
    if best.feasible:
        return ""
    return NOTHING_FULFILS.format(words=problem.requirements.words) if best.runs else NOTHING_FEASIBLE


def dealt_anew(problem: Problem, plan: ExecutionPlan) -> str:
    """Parts of the scenario's own plan that another plan cannot keep, in words; empty if there are none."""
    lost, parted = problem.scenario.plan.lost_by(plan), problem.scenario.plan.parted_by(plan)
    return said(
        f"key groups of {', '.join(lost)} are dealt anew, for other numbers of subtasks" if lost else "",
        f"{', '.join(parted)} run apart" if parted else "",
    )


def said(*remarks: str) -> str:
    """Message of all remarks that are not empty."""
    return "; ".join(filter(None, remarks))


def answering(problem: Problem, found: Solution, answer: Candidate, before: Candidate) -> Solution:
    """Solution with another answer; its answer before becomes the first alternative."""
    if answer.plan == found.plan:
        return found
    others = (before, *(each for each in found.alternatives if each.plan != answer.plan))
    return replace(
        found,
        plan=answer.plan,
        objective=answer.objective,
        runs=answer.runs,
        fulfils=answer.fulfils,
        alternatives=others[: problem.alternatives],
    )


def safer(problem: Problem, best: Candidate, others: Sequence[Candidate]) -> Candidate:
    """The best if it surely keeps up; else the first of the others that does and hardly costs more, if any."""
    if problem.sign < 0.0 or not best.feasible or best.backpressured < SURE:
        return best
    most = best.objective * (1.0 + PREMIUM)
    return next((o for o in others if o.feasible and o.backpressured < SURE and o.objective <= most), best)


def as_close(one: float, other: float) -> bool:
    """Whether two predictions of plans that do not keep up differ by no more than their usual error."""
    return abs(one - other) <= MARGIN * abs(other)


def choose(problem: Problem, found: Estimated, *, evaluations: int, started_s: float, complete: bool) -> Solution:
    """Solution with the best candidate.

    started_s: time.perf_counter() when planning began. complete: the candidates are all valid plans, which
    proves the answer unless the cost model is learned. Raises ValueError without candidates.
    """
    if not len(found.plans):
        raise ValueError("nothing to choose from")
    best, *others = ranked(problem, found, 1 + problem.alternatives)
    complete = complete and not isinstance(problem.cost_model, Unsure)
    proved = Status.OPTIMAL if best.feasible else Status.INFEASIBLE
    return replace(
        Solution.of(
            best,
            proved if complete else Status.FEASIBLE,
            evaluations=evaluations,
            started_s=started_s,
            others=others,
        ),
        bound=best.objective if complete and best.feasible and math.isfinite(best.objective) else None,
        message=said(shortfall(problem, best), dealt_anew(problem, best.plan)),
        among=problem.space.words(problem.deployment) if complete else "",
    )


# candidates ----------------------------------------------------------------------------------------------------------
# They are the plans that an optimizer has looked at. Each is estimated once by the problem's cost model, until the
# budget is spent.


AT_ONCE = 500
"""Number of plans that a cost model estimates together, unless each takes it long."""
LETS_MOST_THROUGH = "no plan looked at is predicted to keep up; this one lets the most through"
P = TypeVar("P")
Prefers = Callable[[np.ndarray, Estimated], np.ndarray]
"""Computes numbers [K, N] of plans [N, O, L] and their estimates that rank before the objective; less is better."""
Judge = Callable[[Problem, Sequence[ExecutionPlan]], tuple[Estimated, np.ndarray]]
"""Computes a cost model's estimates of plans, and the numbers [K, N] that rank them; less is better."""


def by_risk(problem: Problem, plans: Sequence[ExecutionPlan]) -> tuple[Estimated, np.ndarray]:
    """Estimates plans and ranks them: feasible plans first; of others the one least likely to fail; then by the
    objective (Costream's choice)."""
    found = estimate(problem, plans)
    return found, ranks(problem, found)


def by_throughput(problem: Problem, plans: Sequence[ExecutionPlan]) -> tuple[Estimated, np.ndarray]:
    """Estimates plans and ranks them: feasible plans first, then those that keep up, others by their throughput."""
    found, (throughput,) = estimate_with(problem, plans, ("throughput_per_s",))
    keys = ranks(problem, found)
    keys[1] = np.where(found.runs, keys[1], 1.0 / (1.0 + throughput))
    return found, keys


class KnownPlans(ABC, Generic[P]):
    """Plans of the problem's space, in some form P, that were looked at.

    prefers: numbers that rank before those of `judge`, at `extra` estimates a plan; not asked for where the problem's
    budget is too small for one plan. total: number of plans in the space, if known.
    """

    def __init__(
        self,
        problem: Problem,
        judge: Judge = by_throughput,
        *,
        deadline: Deadline | None = None,
        prefers: Prefers | None = None,
        extra: int = 0,
        total: int | None = None,
    ) -> None:
        asks = prefers is not None and problem.budget > extra
        self.problem, self._judge, self._total = problem, judge, total
        self._prefers, self._each = (prefers, 1 + extra) if asks else (None, 1)
        self.deadline = problem.deadline() if deadline is None else deadline
        self._batch = 1 if isinstance(problem.cost_model, Slow) else AT_ONCE
        self._row: dict[Hashable, int] = {}
        self._items: list[P] = []
        self._parts: list[Estimated] = []
        self._first: list[int] = []
        self._made: dict[int, Candidate] = {}
        self._keys = np.zeros((0, 0))
        self.bound: float | None = None
        """Bound of the objective of all plans, None while none is known."""

    @abstractmethod
    def key(self, item: P) -> Hashable:
        """Key of a plan: equal for equal plans."""

    @abstractmethod
    def counts_of(self, item: P) -> np.ndarray:
        """Subtasks of a plan by operator and socket [O, L]."""

    @abstractmethod
    def plans(self, items: Sequence[P]) -> Sequence[ExecutionPlan]:
        """The items as plans of the job."""

    def __len__(self) -> int:
        return len(self._items)

    @property
    def evaluations(self) -> int:
        """Number of estimates asked for so far."""
        return len(self) * self._each

    @property
    def complete(self) -> bool:
        """Whether all plans of the space were looked at."""
        return len(self) == self._total

    @property
    def left(self) -> int:
        """Number of plans that may still be looked at; 0 once the problem's time is up, but for the first batch."""
        late = len(self) > 0 and self.deadline.over
        return 0 if late or self.complete else (self.problem.budget - self.evaluations) // self._each

    @property
    def limits(self) -> ProgramLimits:
        """Limits of a mixed-integer program, so that the problem's time is kept."""
        nodes = None if self.problem.proves else FEW_NODES
        return ProgramLimits(nodes, deadline=self.deadline, waits=None if self.problem.report is None else self._waits)

    def _waits(self, seconds: float) -> None:
        best = self.candidate(self.best).objective if len(self) else None
        self.problem.tell("seconds of a program", int(seconds), best=best, bound=self.bound)

    def row(self, item: P) -> int | None:
        """The row of a plan; None if it was not estimated."""
        return self._row.get(self.key(item))

    def look_at(self, items: Iterable[P]) -> None:
        """Estimates the plans that are new and in the space, as far as budget and time go."""
        new = list({self.key(each): each for each in items if self.row(each) is None}.values())
        if not new:
            return
        counts_nol = np.stack([self.counts_of(each) for each in new])
        holds_n = self.problem.space.holds(self.problem.deployment, counts_nol)
        new = [each for each, holds in zip(new, holds_n, strict=True) if holds]
        for first in range(0, len(new), self._batch):
            some = new[first : first + self._batch][: self.left]
            if not some:
                return
            self._estimate(some)

    def _estimate(self, items: list[P]) -> None:
        found, keys = self._judge(self.problem, self.plans(items))
        if self._prefers is not None:
            keys = np.vstack([self._prefers(np.stack([self.counts_of(each) for each in items]), found), keys])
        self._row |= {self.key(each): row for row, each in enumerate(items, len(self))}
        self._first.append(len(self))
        self._items += items
        self._parts.append(found)
        self._keys = np.hstack([self._keys, keys]) if self._keys.size else keys
        best = self._objective(self.best)
        self.problem.tell("plans estimated", self.evaluations, self.problem.budget, best=best, bound=self.bound)

    @property
    def ranking(self) -> np.ndarray:
        """Rows from the best down; of equally good ones the one looked at first."""
        return best_first(self._keys)

    @property
    def best(self) -> int:
        """Row of the best plan."""
        return int(self.ranking[0])

    def best_of(self, rows: list[int]) -> int:
        """Best of some rows; of equally good ones the first."""
        return rows[int(best_first(self._keys[:, rows])[0])]

    def __getitem__(self, row: int) -> P:
        return self._items[row]

    def candidate(self, row: int) -> Candidate:
        """Plan of a row with its estimates."""
        if row not in self._made:
            part = bisect_right(self._first, row) - 1
            self._made[row] = self._parts[part].candidate(row - self._first[part])
        return self._made[row]

    def _objective(self, row: int) -> float:
        part = bisect_right(self._first, row) - 1
        return float(self._parts[part].objective[row - self._first[part]])

    def found(self) -> Estimated:
        """Estimates of all plans looked at."""
        return Estimated.joined(self._parts, self.plans(self._items))

    def preferred(self, row: int | slice) -> np.ndarray | None:
        """Numbers of `prefers` for a row [K], or for several [K, N]; None if it was not asked."""
        return None if self._prefers is None else self._keys[:-RANKS, row]


class Candidates(KnownPlans[np.ndarray]):
    """Known plans in the form of subtasks by operator and socket [O, L]."""

    def key(self, item: np.ndarray) -> bytes:
        """Key of a plan: equal for equal counts, whatever the type of the numbers."""
        return np.ascontiguousarray(item, np.int64).tobytes()

    def counts_of(self, item: np.ndarray) -> np.ndarray:
        """Subtasks of a plan [O, L]: the item itself."""
        return item

    def row(self, item: np.ndarray) -> int | None:
        """The row of a plan, as it is deployed; None if it was not estimated."""
        return super().row(self._deployed(item))

    def look_at(self, items: Iterable[np.ndarray]) -> None:
        """Estimates plans as they are deployed."""
        super().look_at(map(self._deployed, items))

    def _deployed(self, item: np.ndarray) -> np.ndarray:
        return self.problem.space.deployable(self.problem.deployment, item)

    def plans(self, items: Sequence[np.ndarray]) -> Sequence[ExecutionPlan]:
        """The items as plans, in the form that cost models read fastest."""
        return as_plans(self.problem.deployment, np.stack(items))

    def solution(self, started_s: float, *, weighed: int = 0, rows: Container[int] | None = None) -> Solution:
        """Best plan and its alternatives, without a proof. rows: chooses only among these, which must have one known
        plan.

        Raises BadInput if no plan of the space was found.
        """
        problem = self.problem
        words = problem.space.words(problem.deployment)
        if not len(self):
            raise nothing_found(problem.deployment, problem.space)
        ranking = [int(row) for row in self.ranking if rows is None or int(row) in rows]
        best, *others = (self.candidate(row) for row in ranking[: 1 + problem.alternatives])
        found = Solution.of(best, Status.FEASIBLE, evaluations=self.evaluations, started_s=started_s, others=others)
        message = shortfall(problem, best) if best.runs else LETS_MOST_THROUGH
        return replace(found, message=message, weighed=weighed, among=words)
