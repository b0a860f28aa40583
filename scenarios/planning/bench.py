"""Plans of one scenario in the simulator: outcomes, a cost model that simulates, and races between plans."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Protocol

import numpy as np

from optimizers.objectives import OBJECTIVES
from scenarios.executing import Processes
from twin.errors import BadInput
from twin.metrics import DELAY, OF_RESULTS, QUANTILES, Estimates, Metrics
from twin.plan import ExecutionPlan
from twin.randomness import child_seed
from twin.run import Run
from twin.scenario import Scenario, config_hash
from twin.steadiness import in_short_periods
from twin.work import Executor

# outcomes ------------------------------------------------------------------------------------------------------------
# Outcomes of plans in the simulator, and the regret of one against another.


@dataclass(frozen=True, slots=True)
class PlanOutcome:
    """Outcome of one plan's replications: values [R] of the objective, lower is better (throughput is negated).

    A latency is inf in a replication without results; `mean` is over the others. Flags are by majority. backpressured:
    or falling behind otherwise (`Metrics.falls_behind`).
    """

    values: np.ndarray
    backpressured: bool
    success: bool

    @classmethod
    def of(cls, runs: Sequence[Metrics], objective: str) -> PlanOutcome:
        """Outcome of a plan's runs. runs: at least one."""
        sign = 1.0 if OBJECTIVES[objective].better == "min" else -1.0
        return cls(
            sign * np.array([run.value(objective) for run in runs]),
            backpressured=bool(np.mean([run.falls_behind for run in runs]) > 0.5),
            success=bool(np.mean([run.success for run in runs]) >= 0.5),
        )

    @property
    def mean(self) -> float:
        """Mean of the finite values; inf if no replication had results."""
        finite = self.values[np.isfinite(self.values)]
        return float(np.mean(finite)) if len(finite) else math.inf

    @property
    def rank(self) -> tuple[int, float]:
        """Kind (0: keeps up, 1: backpressured, 2: failed) and mean; smaller is better."""
        level = 2 if not self.success else int(self.backpressured)
        return level, self.mean


def regret_of(outcome: PlanOutcome, best: PlanOutcome) -> tuple[float, float | None]:
    """Relative distance to the best, and half of its 95 % interval. Values are all positive (latencies) or negative
    (rates)."""
    if outcome is best or outcome.rank == best.rank:
        return 0.0, 0.0
    above, below = (outcome, best) if best.mean >= 0 else (best, outcome)
    if outcome.rank[0] != best.rank[0] or not math.isfinite(outcome.mean) or below.mean == 0:
        return math.inf, None
    ratio = above.mean / below.mean
    # first-order error of a ratio of paired means (delta method); a run without results leaves it unknown
    with np.errstate(invalid="ignore"):
        return ratio - 1.0, half_width95((above.values - ratio * below.values) / below.mean)


def half_width95(values: np.ndarray) -> float | None:
    """Half of the 95 % confidence interval of a mean (Student's t); None for one value or for infinite ones."""
    if len(values) < 2 or not np.all(np.isfinite(values)):
        return None
    from scipy.special import stdtrit  # here, because most commands need no SciPy

    quantile = float(stdtrit(len(values) - 1, 0.975))
    return quantile * float(np.std(values, ddof=1)) / math.sqrt(len(values))


# a cost model that simulates -----------------------------------------------------------------------------------------
# Cost model that simulates: the interface of analytic and learned models, and the truth that they are held to.
#
# `Remembered` makes each run once, and counts its time again for each optimizer that needs it.


class HasMetrics(Protocol):
    """Anything with the metrics of a run."""

    @property
    def metrics(self) -> Metrics:
        """Metrics of the run."""


Simulate = Callable[[Scenario], HasMetrics]
"""Function that runs a scenario: twin.simulation.simulate, or a stand-in."""


def replicate(simulate: Simulate, scenario: Scenario, count: int) -> list[Metrics]:
    """Metrics of `count` runs. Run i has the same random numbers under any plan (common random numbers)."""
    return [run.metrics for run in runs_under(simulate, scenario, count)]


def runs_under(simulate: Simulate, scenario: Scenario, count: int) -> list[HasMetrics]:
    """Runs of a scenario with `count` child seeds, with all their results. Run i has the same seed under any plan."""
    seeds = [child_seed(scenario.run.seed, index) for index in range(count)]
    judged = in_short_periods(scenario)
    return [simulate(judged.with_run(seed=seed)) for seed in seeds]


@dataclass(frozen=True, slots=True)
class SimulatedCostModel:
    """Cost model that simulates the scenario under every plan `replications` times; a twin.metrics.CostModel.

    Estimates are means. seed: parent of the runs' seeds; None: the scenario's own. Probabilities are shares of the
    runs; those that fall behind in any way count as backpressured, as they would be once channels are full. The spread
    is the standard deviation of the log of the processing latency, or the relative standard error of a single run.
    Raises BadInput if replications is below 1.
    """

    simulate: Simulate
    seed: int | None = None
    replications: int = 1
    name: str = "sim"
    further: tuple[str, ...] = (DELAY, *QUANTILES)

    def __post_init__(self) -> None:
        if self.replications < 1:
            raise BadInput(f"replications must be >= 1, got {self.replications}")

    def predict(self, scenario: Scenario, plans: Sequence[ExecutionPlan]) -> Estimates:
        """Estimates of each plan; a latency is inf if no run had results."""
        seeded = scenario if self.seed is None else scenario.with_run(seed=self.seed)
        runs_of = [runs_under(self.simulate, seeded.with_plan(plan), self.replications) for plan in plans]
        by_metric = {
            name: np.array([_mean([run.metrics.value(name) for run in runs]) for runs in runs_of])
            for name in OF_RESULTS
        }
        by_metric["backpressured"] = np.array([np.mean([run.metrics.falls_behind for run in runs]) for runs in runs_of])
        return Estimates(by_metric, np.array([_spread(runs) for runs in runs_of]))

    def blind_to(self, scenario: Scenario) -> tuple[str, ...]:
        """Features of the scenario that are ignored: none, as it is run."""
        del scenario
        return ()


def _spread(runs: Sequence[HasMetrics]) -> float:
    found_s = [run.metrics.value("processing_latency_s") for run in runs]
    if len(runs) == 1:
        error_s = runs[0].standard_errors.processing_latency_s if isinstance(runs[0], Run) else None
        return 0.0 if error_s is None else error_s / found_s[0]
    arrived_s = [each for each in found_s if math.isfinite(each) and each > 0]
    return float(np.std(np.log(arrived_s))) if arrived_s else 0.0


def _mean(values: Sequence[float]) -> float:
    """Mean over the runs with results; inf if there are none."""
    finite = [value for value in values if math.isfinite(value)]
    return float(np.mean(finite)) if finite else math.inf


@dataclass(frozen=True, slots=True)
class Known:
    """Remembered run: its metrics, and the seconds that it took."""

    metrics: Metrics
    took_s: float


@dataclass(slots=True)
class Remembered:
    """`Simulate` that remembers the runs of another one. spared_s: seconds of the runs that were not made again."""

    run: Simulate
    spared_s: float = 0.0
    _known: dict[tuple[str, int], Known] = field(default_factory=dict)

    def __call__(self, scenario: Scenario) -> HasMetrics:
        """Returns the metrics of a run, which is made once for a scenario and seed."""
        key = config_hash(scenario), scenario.run.seed
        if key in self._known:
            self.spared_s += self._known[key].took_s
            return self._known[key]
        started_s = time.perf_counter()
        metrics = self.run(scenario).metrics
        self._known[key] = Known(metrics, time.perf_counter() - started_s)
        return self._known[key]


def spared_s(simulate: Simulate) -> float:
    """Seconds of runs that were not made again so far; 0 if `simulate` remembers nothing."""
    return simulate.spared_s if isinstance(simulate, Remembered) else 0.0


# the bench -----------------------------------------------------------------------------------------------------------
# Simulates plans of one scenario, each once, with common random numbers; races them where many are compared.
#
# A race adds a replication to every plan that is still in it, and drops plans that are clearly beaten by the best: by
# half in the first run, or from the second run on by a worse kind, or by more than chance in a comparison run by run.


FAR_BEHIND = 0.5
"""Distance to the best, relative, beyond which a plan is beaten after one run."""
FEWEST = 2
"""Number of runs from which on kinds and paired differences count."""


@dataclass(slots=True)
class PlanBench:
    """Simulated plans of one scenario, by their text. replications: of a plan that is not beaten. executor: makes the
    runs."""

    scenario: Scenario
    objective: str
    run: Simulate
    replications: int
    seed: int
    executor: Executor = field(default_factory=lambda: Processes(1))
    _plans: dict[str, ExecutionPlan] = field(default_factory=dict)
    _runs: dict[str, list[Metrics]] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self._runs)

    @property
    def simulated(self) -> int:
        """Number of runs so far."""
        return sum(map(len, self._runs.values()))

    def simulate(self, plans: Iterable[ExecutionPlan]) -> None:
        """Makes all replications of every plan. Raises BadInput for a plan that does not fit the scenario."""
        keys = self._keys(plans)
        self._make([(key, number) for key in keys for number in range(len(self._runs[key]), self.replications)])

    def race(self, plans: Iterable[ExecutionPlan]) -> None:
        """Runs every plan until it is clearly beaten or has all replications. Raises BadInput as `simulate`."""
        live = self._keys(plans)
        for done in range(1, self.replications + 1):
            self._make([(key, done - 1) for key in live if len(self._runs[key]) < done])
            live = [key for key in live if not self._beaten(key)]

    def outcome(self, plan: ExecutionPlan) -> PlanOutcome:
        """Outcome of a plan that was simulated. Raises KeyError for another plan."""
        return PlanOutcome.of(self._runs[_text(plan)], self.objective)

    @property
    def best(self) -> PlanOutcome:
        """Outcome of the best among the plans that have all replications."""
        whole = [runs for runs in self._runs.values() if len(runs) == self.replications]
        return min((PlanOutcome.of(runs, self.objective) for runs in whole), key=lambda each: each.rank)

    def regret(self, plan: ExecutionPlan) -> tuple[float, float | None]:
        """Relative distance of a plan to the best, and half of its 95 % interval, as from `regret_of`."""
        return regret_of(self.outcome(plan), self.best)

    def _keys(self, plans: Iterable[ExecutionPlan]) -> list[str]:
        given = {_text(plan): plan for plan in plans}
        self._plans |= given
        for key in given:
            self._runs.setdefault(key, [])
        return list(given)

    def _make(self, wanted: Sequence[tuple[str, int]]) -> None:
        """Makes runs, given by plan and number; those of a plan must be in order, and follow those that it has."""
        found = self._metrics([self._scenario(key, number) for key, number in wanted])
        for (key, _), metrics in zip(wanted, found, strict=True):
            self._runs[key].append(metrics)

    def _metrics(self, runs: Sequence[Scenario]) -> list[Metrics]:
        """Metrics of each run, in order."""
        found: dict[int, Metrics] = {}
        self.executor.each(partial(_metrics, self.run), runs, found.__setitem__)
        return [found[position] for position in range(len(runs))]

    def _scenario(self, key: str, number: int) -> Scenario:
        """Scenario of a run under a plan; run i has the same random numbers under any plan."""
        seeded = in_short_periods(self.scenario).with_run(seed=self.seed)
        return seeded.with_plan(self._plans[key]).with_run(seed=child_seed(self.seed, number))

    def _beaten(self, key: str) -> bool:
        """Whether a plan is beaten by the best one with as many runs."""
        count = len(self._runs[key])
        rivals = [PlanOutcome.of(runs[:count], self.objective) for runs in self._runs.values() if len(runs) >= count]
        best, mine = min(rivals, key=lambda each: each.rank), PlanOutcome.of(self._runs[key], self.objective)
        if mine.rank[0] != best.rank[0]:
            return mine.rank[0] > best.rank[0] and count >= FEWEST
        if count < FEWEST:
            return _far_behind(mine, best)
        if not (np.isfinite(mine.values).all() and np.isfinite(best.values).all()):  # runs without results
            return False
        behind = (mine.values - best.values) / max(abs(best.mean), 1e-300)
        half = half_width95(behind)
        return half is not None and float(np.mean(behind)) > half


def _far_behind(mine: PlanOutcome, best: PlanOutcome) -> bool:
    """Whether a plan is far behind the best one after the first run."""
    if not math.isfinite(best.values[0]):  # not even the best had results
        return False
    return bool((mine.values[0] - best.values[0]) / max(abs(best.mean), 1e-300) > FAR_BEHIND)


def _metrics(run: Simulate, scenario: Scenario) -> Metrics:
    return run(scenario).metrics


def _text(plan: ExecutionPlan) -> str:
    return plan.model_dump_json()
