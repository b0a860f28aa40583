"""Simulates plans of one scenario, each once, with common random numbers; races them where many are compared.

A race adds a replication to every plan that is still in it, and drops plans that are clearly beaten by the best: by
half in the first run, or from the second run on by a worse kind, or by more than chance in a comparison run by run.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial

import numpy as np

from scenarios.executing.processes import Processes
from scenarios.planning.outcomes import PlanOutcome, half_width95, regret_of
from scenarios.planning.simulated_cost import Simulate
from twin.executor import Executor
from twin.metrics import Metrics
from twin.plan import ExecutionPlan
from twin.randomness import child_seed
from twin.scenario import Scenario
from twin.steadiness import in_short_periods

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
        """Relative distance of a plan to the best, and half of its 95 % interval, as from `outcomes.regret_of`."""
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
        behind = (mine.values - best.values) / max(abs(best.mean), 1e-300)
        half = half_width95(behind)
        return half is not None and float(np.mean(behind)) > half


def _far_behind(mine: PlanOutcome, best: PlanOutcome) -> bool:
    """Whether a plan is far behind the best one after the first run."""
    return bool((mine.values[0] - best.values[0]) / max(abs(best.mean), 1e-300) > FAR_BEHIND)


def _metrics(run: Simulate, scenario: Scenario) -> Metrics:
    return run(scenario).metrics


def _text(plan: ExecutionPlan) -> str:
    return plan.model_dump_json()
