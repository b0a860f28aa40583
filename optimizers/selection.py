"""Costream's choice among candidates (Section V): drops plans predicted to fail or to be backpressured, takes the best.

If everything would be dropped, the candidate least likely to fail or be backpressured is kept; among those about as
likely (all of them, for a job that no plan can bear) the target metric decides. Ties go to the better target metric,
then to the plan whose text comes first, so the choice depends neither on order nor on chance.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from optimizers.interface import Candidate, Problem, Solution, Status
from optimizers.objectives import LATENCIES, OBJECTIVES, USUAL_METRIC, at_rate
from twin.errors import BadInput
from twin.job import compile
from twin.metrics import BINARY_METRICS, CHECKPOINTS, CostModel, Estimates, Narrowable, Ranged, Slow, Unsure, estimates
from twin.plan import ExecutionPlan
from twin.rates.model import RateModel
from twin.scenario import Scenario

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
    if (of is not None or problem.objective in LATENCIES) and isinstance(model, Slow):
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
