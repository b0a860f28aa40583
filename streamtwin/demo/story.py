"""The demo's question, the plans that each way of planning gives, and what runs say of each.

The job must keep a promise that no formula predicts: a quantile of the latency where bursts of several machines meet by
chance. Predictions choose plans by the mean; runs judge them all by the promise, with seeds that no search has seen.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from time import perf_counter

import numpy as np

from optimizers.interface import Problem, Solution
from optimizers.planner import MEAN, PEAK, rates_at
from optimizers.searching import Budget
from scenarios.beside import PredictionBesideRuns, doubts
from scenarios.files.documents import CLOSED, Number
from scenarios.planning import planner
from scenarios.planning.bench import half_width95, replicate
from scenarios.planning.cost_models import planner_for
from scenarios.planning.searching import PlansSearched, search
from streamtwin.tables.tables import Wide, of_rows, seconds
from twin.metrics import CostModel, Metrics
from twin.plan import ExecutionPlan
from twin.rates.model import RateModel
from twin.scenario import Scenario
from twin.simulation import simulate

SCENARIO = "machine-stop"
PREDICTED = "e2e_latency_s"
"""What predictions choose by: the mean."""
PROMISED = "e2e_latency_s.p99"
PROMISE_S = 0.03
"""A stop reaches its machine within this time in 99 of 100 cases: the scenario's description says so."""
PROMISE = seconds(PROMISE_S)


@CLOSED
@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedPlan:
    """A plan of the demo, and what its runs say; latencies in seconds, end to end.

    plan_by: who chose it. effort: what choosing took, in words, and plan_s, the seconds of it. p99_s: mean of the runs'
    99 % quantiles, with half of its 95 % interval, and mean_s that of their means; infinite, in JSON null, if a run has
    no results. kept: runs in
    which the job keeps up and the promise is kept, of `runs`. keeps_up: in most runs. beside: the predicted mean beside
    the runs; null where nothing was predicted, or for another load. placement: hosts by operator that may move.
    """

    plan_by: str
    effort: str
    plan_s: float
    p99_s: Number
    p99_ci95_s: Number
    mean_s: Number
    kept: int
    runs: int
    keeps_up: bool
    beside: PredictionBesideRuns | None
    placement: dict[str, str]

    @property
    def shown(self) -> str:
        """The 99 % quantile with its interval, for people."""
        return seconds(self.p99_s) + (f" ± {seconds(self.p99_ci95_s)}" if self.p99_ci95_s else "")

    @property
    def keeps_promise(self) -> bool:
        """Whether the promise is kept on the mean of the runs, and in most of them."""
        return self.p99_s is not None and self.p99_s <= PROMISE_S and 2 * self.kept > self.runs

    @property
    def rank(self) -> tuple[bool, float]:
        """Jobs that keep up come first, then the shorter 99 % quantile; smaller is better."""
        return not self.keeps_up, np.inf if self.p99_s is None else self.p99_s

    def clearly_better(self, other: JudgedPlan) -> bool:
        """Whether it is better by more than what chance may do to both."""
        if self.keeps_up != other.keeps_up or self.p99_s is None or other.p99_s is None:
            return self.rank < other.rank
        return self.p99_s + (self.p99_ci95_s or 0.0) + (other.p99_ci95_s or 0.0) < other.p99_s


@dataclass(frozen=True, slots=True, kw_only=True)
class Story:
    """All plans in the order of the ways that chose them, the given one first. searched: what the search did."""

    scenario: Scenario
    judged: tuple[JudgedPlan, ...]
    plans: tuple[ExecutionPlan, ...]
    searched: PlansSearched

    @property
    def best(self) -> JudgedPlan:
        """The best plan; of equal ones, the one found first."""
        return min(self.judged, key=lambda each: each.rank)

    @property
    def best_plan(self) -> ExecutionPlan:
        """The best plan, as scenarios have it."""
        return self.plans[self.judged.index(self.best)]

    @property
    def verdict(self) -> str:
        """The answer in two sentences, whatever it was."""
        given, best = self.judged[0], self.best
        text = f"As the job runs today, 99 of 100 stops arrive within {seconds(given.p99_s)}; the promise is {PROMISE}."
        if best is given:
            return f"{text} No plan that was tried is better."
        ends = "keeps the promise" if best.keeps_promise else "comes nearest to it, and does not keep it"
        found = f"{seconds(best.p99_s)}, and within the promise in {best.kept} of {best.runs} runs"
        return f"{text} The best plan ({best.plan_by}) {ends}: {found}."


@dataclass(frozen=True, slots=True)
class Way:
    """Way of planning. plan_by: what it is called. optimizer, model: by which it plans. effort: what choosing took, in
    words. predicts: whether its model predicts the mean at the load that is run."""

    plan_by: str
    optimizer: str
    model: CostModel
    effort: Callable[[Solution], str] = lambda solution: f"{solution.evaluations:,} estimates"
    predicts: bool = False


def tell(
    scenario: Scenario,
    learned: CostModel,
    *,
    estimates: int,
    runs: int,
    replications: int,
    seed: int,
    say: Callable[[str], None],
) -> Story:
    """Plans in every way, and judges the plans by runs.

    learned: a model trained on variations of the scenario. estimates: plans that a cost model may be asked about. runs:
    of the search. replications: runs by which each plan is judged. say: takes a line about each plan.
    """
    rates = RateModel()
    ways = (
        Way("as given", "as-given", rates, lambda _: "nothing"),
        Way("heuristic (governor)", "governor", rates, lambda _: "a rule, no estimate"),
        Way("rate model, mean load", "local-search", rates_at(MEAN), predicts=True),
        Way("rate model, highest load", "local-search", rates_at(PEAK)),  # its prediction is of another load
        Way("learned model", "local-search", learned, predicts=True),
    )
    problem = Problem(scenario=scenario, cost_model=learned, objective=PREDICTED, seed=seed, budget=estimates)
    judge = Judge(scenario, replications, seed)
    judged, plans = list[JudgedPlan](), list[ExecutionPlan]()

    def add(plan_by: str, effort: str, plan_s: float, solution: Solution, model: CostModel | None) -> None:
        judged.append(judge.of(plan_by, effort, plan_s, solution, model))
        plans.append(solution.plan)
        say(f"    {plan_by}: 99 of 100 stops within {seconds(judged[-1].p99_s)}; {added(judged)}")

    for way in ways:
        (optimizer,) = planner.optimizers(way.optimizer)
        began_s = perf_counter()
        solution = planner_for(optimizer, way.model).solve(replace(problem, cost_model=way.model))
        spent_s = perf_counter() - began_s
        add(way.plan_by, way.effort(solution), spent_s, solution, way.model if way.predicts else None)
    searched = search(problem, PROMISED, Budget(runs=runs))
    add(f"search by {runs} runs", f"{searched.found.runs} runs", searched.seconds, searched.solution, None)
    return Story(scenario=scenario, judged=tuple(judged), plans=tuple(plans), searched=searched)


def added(judged: Sequence[JudgedPlan]) -> str:
    """Words on what the last of these plans adds to those before it, from their figures."""
    *before, new = judged
    promise = "the promise is kept" if new.keeps_promise else f"the promise of {PROMISE} is broken"
    if not before:
        return promise
    same = next((each for each in before if each.placement == new.placement), None)
    if same is not None:
        return f"nothing: the same plan as {same.plan_by}"
    best = min(before, key=lambda each: each.rank)
    best_is = f"{best.plan_by} ({seconds(best.p99_s)})"
    if not new.keeps_up:
        return f"nothing: the job does not keep up, and {best_is} is better"
    if new.clearly_better(best):
        return f"better than {best_is}; {promise}"
    if best.clearly_better(new):
        return f"nothing: {best_is} is better"
    return f"nothing for sure: the difference to {best_is} may be chance"


def plans_table(judged: Sequence[JudgedPlan]) -> Wide:
    """Table of all plans for people."""
    rows = [
        {
            "plan_by": each.plan_by,
            "p99": each.shown,
            "kept": f"in {each.kept} of {each.runs} runs",
            "effort": f"{each.effort}, {seconds(each.plan_s)}",
        }
        for each in judged
    ]
    columns = {
        "plan_by": "plan by",
        "p99": "99 of 100 within",
        "kept": f"promise of {PROMISE} kept",
        "effort": "choosing took",
    }
    return of_rows(f"{SCENARIO}: what each step added", columns, rows)


@dataclass(frozen=True, slots=True)
class Judge:
    """Judges plans by the same runs for all. replications: runs a plan; seed: parent of their seeds."""

    scenario: Scenario
    replications: int
    seed: int
    _known: dict[str, list[Metrics]] = field(default_factory=dict)

    def of(
        self, plan_by: str, effort: str, plan_s: float, solution: Solution, predicting: CostModel | None
    ) -> JudgedPlan:
        """Judges the plan of a solution. predicting: whose prediction of its mean latency is set beside the runs."""
        planned = self.scenario.with_plan(solution.plan)
        found = self._runs(planned)
        p99s = np.array([np.inf if each.e2e_latency_s is None else each.e2e_latency_s.p99 for each in found])
        means = np.array([np.inf if each.e2e_latency_s is None else each.e2e_latency_s.mean for each in found])
        behind = [each.falls_behind or not each.success for each in found]
        keeps_up = 2 * sum(behind) < len(found)
        mean_s = float(np.mean(means))
        beside = None
        if predicting is not None:
            said = predicting.predict(self.scenario, [solution.plan])
            beside = PredictionBesideRuns.of(
                float(said[PREDICTED][0]),
                mean_s,
                doubts(predicting, planned),
                model=predicting.name,
                keep_up=(bool(said["backpressured"][0] < 0.5 <= said["success"][0]), keeps_up),
            )
        movable = [each.name for each in self.scenario.query.operators if not each.pinned]
        return JudgedPlan(
            plan_by=plan_by,
            effort=effort,
            plan_s=plan_s,
            p99_s=float(np.mean(p99s)),
            p99_ci95_s=half_width95(p99s),
            mean_s=mean_s,
            kept=sum(bool(p99 <= PROMISE_S) and not late for p99, late in zip(p99s, behind, strict=True)),
            runs=len(found),
            keeps_up=keeps_up,
            beside=beside,
            placement={name: ", ".join(solution.plan.placement[name]) for name in movable},
        )

    def _runs(self, planned: Scenario) -> list[Metrics]:
        """Metrics of the runs of a plan; each plan is run once, whoever chose it."""
        key = planned.plan.model_dump_json()
        if key not in self._known:
            self._known[key] = replicate(simulate, planned.with_run(seed=self.seed), self.replications)
        return self._known[key]
