"""Every chosen plan is proved in the simulator: what was predicted, what came out, and how far from the best known.

For each scenario the chosen plans of all optimizers and cost models are simulated with common random numbers, and
with them alternatives: all valid plans where they are few, else a uniform sample. The best of all of these is the
reference, so no regret can be negative. A plan that is backpressured or fails in the simulator is compared only
with its like: its regret is infinite if any plan does better than that.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from optimizers.counted import as_plans
from optimizers.interface import OBJECTIVES, Optimizer, Problem, Solution
from optimizers.requirements import NOTHING_MORE, Requirements
from optimizers.space import ALL_PLANS, Space
from optimizers.space_plans import SpacePlans
from scenarios.planning.simulated_cost import Simulate, replicate
from twin.errors import BadInput
from twin.metrics import CostModel, Metrics
from twin.plan import ExecutionPlan
from twin.randomness import stream
from twin.scenario import Scenario

REFUSED = "refused"
REFERENCES = 30
BUDGET = 300


@dataclass(frozen=True, slots=True, kw_only=True)
class ValidationRow:
    """One chosen plan. The objective's own unit throughout: seconds, or tuples a second.

    status: of the solution, or "refused" with the reason in `message` and None below. predicted: by the cost model.
    simulated +- ci95: mean of the replications with its 95 % confidence interval (None for a single one).
    best: the best simulated plan known for the scenario. regret: simulated / best - 1 (best / simulated - 1 where
    more is better), >= 0; inf if the plan is backpressured or fails and another is not or does not. regret_ci95:
    half width from the replications, paired. references: plans that `best` was chosen from.
    """

    scenario: str
    optimizer: str
    cost_model: str
    objective: str
    status: str
    message: str = ""
    predicted: float | None = None
    simulated: float | None = None
    ci95: float | None = None
    best: float | None = None
    regret: float | None = None
    regret_ci95: float | None = None
    backpressured: bool | None = None
    success: bool | None = None
    plan_s: float | None = None
    evaluations: int | None = None
    references: int | None = None
    plan: Mapping[str, object] | None = None


@dataclass(frozen=True, slots=True)
class Outcome:
    """One plan's replications: values [R] of the objective, lower is better (throughput is negated).

    A latency is inf in a replication without results; `mean` is over the others. Flags are by majority.
    """

    values: np.ndarray
    backpressured: bool
    success: bool

    @property
    def mean(self) -> float:
        """Inf if no replication had results."""
        finite = self.values[np.isfinite(self.values)]
        return float(np.mean(finite)) if len(finite) else math.inf

    @property
    def rank(self) -> tuple[int, float]:
        """Smaller is better: first runs that are clean, then backpressured ones, then failed ones."""
        level = 2 if not self.success else int(self.backpressured)
        return level, self.mean


def validate(
    scenarios: Iterable[Scenario],
    optimizers: Sequence[Optimizer],
    cost_models: Sequence[CostModel],
    simulate: Simulate,
    replications: int,
    seed: int,
    *,
    objective: str = "processing_latency_s",
    budget: int = BUDGET,
    references: int = REFERENCES,
    space: Space = ALL_PLANS,
    requirements: Requirements = NOTHING_MORE,
) -> list[ValidationRow]:
    """One row a scenario, optimizer and cost model.

    budget: estimates an optimizer may ask for. references: alternatives simulated beside the chosen plans, >= 0.
    space: of the plans that may be chosen, and of these. requirements: that a chosen plan must fulfil.

    Raises BadInput for fewer than 1 replication, a negative number of references or an unknown objective.
    """
    if replications < 1:
        raise BadInput(f"replications must be >= 1, got {replications}")
    if references < 0:
        raise BadInput(f"references must be >= 0, got {references}")
    rows: list[ValidationRow] = []
    for scenario in scenarios:
        bench = _Bench(scenario, objective, simulate, replications, seed)
        chosen = [
            (optimizer.name, model.name, _solve(bench, optimizer, model, budget, space, requirements))
            for optimizer in optimizers
            for model in cost_models
        ]
        bench.simulate(_alternatives(scenario, references, seed, space))
        bench.simulate(solution.plan for _, _, solution in chosen if isinstance(solution, Solution))
        rows.extend(bench.row(*each) for each in chosen)
    return rows


def _solve(
    bench: _Bench, optimizer: Optimizer, model: CostModel, budget: int, space: Space, requirements: Requirements
) -> Solution | BadInput:
    """A refusal is data: the other optimizers' rows must not be lost with it."""
    problem = Problem(
        scenario=bench.scenario,
        cost_model=model,
        objective=bench.objective,
        seed=bench.seed,
        budget=budget,
        space=space,
        requirements=requirements,
    )
    try:
        return optimizer.solve(problem)
    except BadInput as refusal:
        return refusal


def _alternatives(scenario: Scenario, references: int, seed: int, space: Space) -> Sequence[ExecutionPlan]:
    """With the given numbers of replicas, if the space leaves them free."""
    if references == 0:
        return []
    plans = SpacePlans(scenario, replace(space, free_replicas=False))
    return as_plans(scenario, plans.sample(stream(seed, "references"), references))


class _Bench:
    """The simulated plans of one scenario; each is simulated once."""

    def __init__(self, scenario: Scenario, objective: str, simulate: Simulate, replications: int, seed: int) -> None:
        self.scenario = scenario
        self.objective = objective
        self.seed = seed
        self._run = simulate
        self._replications = replications
        self._outcomes: dict[str, Outcome] = {}

    def simulate(self, plans: Iterable[ExecutionPlan]) -> None:
        """Adds plans to the reference set."""
        seeded = self.scenario.with_run(seed=self.seed)
        for plan in plans:
            if plan.model_dump_json() not in self._outcomes:
                runs = replicate(self._run, seeded.with_plan(plan), self._replications)
                self._outcomes[plan.model_dump_json()] = self._outcome(runs)

    def _outcome(self, runs: Sequence[Metrics]) -> Outcome:
        sign = 1.0 if OBJECTIVES[self.objective] == "min" else -1.0
        values = sign * np.array([run.value(self.objective) for run in runs])
        return Outcome(
            values,
            backpressured=bool(np.mean([run.backpressured for run in runs]) > 0.5),
            success=bool(np.mean([run.success for run in runs]) >= 0.5),
        )

    def row(self, optimizer: str, model: str, solution: Solution | BadInput) -> ValidationRow:
        """What became of one solution, against the best plan simulated so far."""
        row = ValidationRow(
            scenario=self.scenario.name, optimizer=optimizer, cost_model=model, objective=self.objective, status=REFUSED
        )
        if isinstance(solution, BadInput):
            return replace(row, message=str(solution))
        outcome = self._outcomes[solution.plan.model_dump_json()]
        best = min(self._outcomes.values(), key=lambda each: each.rank)
        regret, regret_ci95 = regret_of(outcome, best)
        return replace(
            row,
            status=solution.status.value,
            message=solution.message,
            predicted=solution.objective,
            simulated=abs(outcome.mean),
            ci95=half_width95(outcome.values),
            best=abs(best.mean),
            regret=regret,
            regret_ci95=regret_ci95,
            backpressured=outcome.backpressured,
            success=outcome.success,
            plan_s=solution.seconds,
            evaluations=solution.evaluations,
            references=len(self._outcomes),
            plan=solution.plan.model_dump(mode="json")["placement"],
        )


def regret_of(outcome: Outcome, best: Outcome) -> tuple[float, float | None]:
    """Relative distance to the best, and its half width. Values are all positive (latencies) or negative (rates)."""
    if outcome is best or outcome.rank == best.rank:
        return 0.0, 0.0
    above, below = (outcome, best) if best.mean >= 0 else (best, outcome)
    if outcome.rank[0] != best.rank[0] or not math.isfinite(outcome.mean) or below.mean == 0:
        return math.inf, None
    ratio = above.mean / below.mean
    # first-order error of a ratio of paired means
    return ratio - 1.0, half_width95((above.values - ratio * below.values) / below.mean)


def half_width95(values: np.ndarray) -> float | None:
    """Half of the 95 % confidence interval of a mean (Student's t); None for one value or for infinite ones."""
    if len(values) < 2 or not np.all(np.isfinite(values)):
        return None
    from scipy import stats  # half a second

    quantile = float(stats.t.ppf(0.975, len(values) - 1))
    return quantile * float(np.std(values, ddof=1)) / math.sqrt(len(values))
