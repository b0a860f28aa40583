"""Splits or combines windows, whichever costs less CPU while migrations pause records at most for a limit (Enorm, 5.1).

It balances as Flux does, and counts the migrations: key groups of one component take their state along and their
records wait, those of a separate compute do not. Every period it puts the measured rate and the migrations
into the cost model, once for each form, and splits or combines where the other form is the better one.
"""

from __future__ import annotations

import math
from typing import Annotated, Literal

from pydantic import Field

from optimizers.balancing.flux import Flux
from optimizers.policies.rounds import Round, Rounds
from twin.control import PeriodStatistics, PolicySpec, Reconfiguration
from twin.deployment import Deployment
from twin.errors import BadInput
from twin.events import Combine, Split, combined_with, is_combined
from twin.forms import Cost, WindowForm, cost, period_of_job, unit_costs
from twin.job import compile
from twin.query import merged_windows
from twin.windows import US_PER_S

MOST_S = 300.0
"""Most seconds between two looks: a job with windows of a day would decide once a day."""


class SplitCombineSpec(Round, PolicySpec):
    """Settings of policy `split-combine`."""

    name: Literal["split-combine"] = "split-combine"
    paused_limit_s: Annotated[
        float | None,
        Field(ge=0, le=10**6, description="for which migrations in a longest window may hold records up, all together"),
    ] = None
    look_s: Annotated[
        float | None, Field(gt=0, le=10**7, description="between two looks; absent: the longest window")
    ] = None
    combine_by: Annotated[Literal["disruptive", "smooth"], Field(description="how a consolidate comes back")] = "smooth"

    @property
    def periods_before_acting(self) -> int:
        """Number of periods before the policy can act: one, as looks go by time, not by rounds."""
        return 1

    def start(self, deployment: Deployment) -> SplitCombine:
        """Starts the policy for one run."""
        return SplitCombine(deployment, self)


class SplitCombine:
    """Policy `split-combine` in one run. Raises BadInput for a job without a component to split."""

    name = "split-combine"

    def __init__(self, deployment: Deployment, spec: SplitCombineSpec) -> None:
        self.spec = spec
        self.job = compile(deployment)
        query = deployment.query
        pairs = {
            operator.name: combined_with(query, operator.name)
            for operator in query.operators
            if operator.hands_over == "partials"
        }
        self.pairs = {
            compute: merge for compute, merge in pairs.items() if merge is not None and self._alike(compute, merge)
        }
        if not self.pairs:
            raise BadInput(
                "policy 'split-combine' needs a compute with partial_s and one consolidate behind it, with subtasks "
                "at the same places in the same order; this job has none"
            )
        self.combined = {compute: is_combined(query, compute) for compute in self.pairs}
        self._balance = Rounds(deployment, spec, Flux(), self.name)
        self._balance.operators = [name for name in self._balance.operators if name not in self.pairs.values()]
        self._moved = dict.fromkeys(self.pairs, 0)
        self._taken = dict.fromkeys(self.pairs, 0.0)
        self._since_s = dict.fromkeys(self.pairs, 0.0)

    def _alike(self, compute: str, merge: str) -> bool:
        plan = self.job.deployment.plan
        return plan.locations(compute) == plan.locations(merge)

    def decide(self, statistics: PeriodStatistics) -> Reconfiguration | None:
        """Returns moves for balance and, at the end of a look, a split or a combination."""
        balanced = self._balance.decide(statistics) or Reconfiguration()
        for compute in self.pairs:
            self._moved[compute] += sum(len(move.key_groups) for move in balanced.moves if move.operator == compute)
            self._taken[compute] += float(statistics.operators[compute]["numRecordsIn"])
        changes = [self._look(compute, statistics) for compute in self.pairs if self._is_time(compute, statistics)]
        operations = tuple(operation for operation, _ in changes if operation is not None)
        figures = {**balanced.figures, **{key: value for _, told in changes for key, value in told.items()}}
        if not (balanced.moves or operations):
            return None
        combining = {self._compute_of(operation.operator) for operation in operations if isinstance(operation, Combine)}
        moves = tuple(move for move in balanced.moves if move.operator not in combining)
        reason = ", ".join(
            [
                *(f"{operation.kind} {operation.operator}" for operation in operations),
                *([balanced.reason] if moves else []),
            ]
        )
        return Reconfiguration(moves=moves, operations=operations, reason=reason, figures=figures)

    def _compute_of(self, merge: str) -> str:
        return next(compute for compute, consolidate in self.pairs.items() if consolidate == merge)

    def _longest_s(self, compute: str) -> float:
        return max(window.length_us for window in merged_windows(self.job.query, compute)) / US_PER_S

    def _is_time(self, compute: str, statistics: PeriodStatistics) -> bool:
        look_s = self.spec.look_s or min(MOST_S, self._longest_s(compute))
        return statistics.end_s - self._since_s[compute] >= look_s - 1e-9

    def _look(self, compute: str, statistics: PeriodStatistics) -> tuple[Split | Combine | None, dict[str, float]]:
        """Split or combination to carry out, if any, and the figures that decide it; a new look begins."""
        seconds, self._since_s[compute] = statistics.end_s - self._since_s[compute], statistics.end_s
        migrations = self._moved[compute] * self._longest_s(compute) / seconds
        rate_per_s = self._taken[compute] / seconds
        self._moved[compute], self._taken[compute] = 0, 0.0
        if rate_per_s <= 0.0:
            return None, {}
        combined, split = self.costs(compute, rate_per_s, migrations)
        figures = {"combined_cpu_s": combined.cpu_s, "split_cpu_s": split.cpu_s, "paused_s": combined.paused_s}
        limit_s = math.inf if self.spec.paused_limit_s is None else self.spec.paused_limit_s
        wanted = combined.paused_s <= limit_s and combined.cpu_s <= split.cpu_s
        if wanted == self.combined[compute]:
            return None, figures
        self.combined[compute] = wanted
        merge = self.pairs[compute]
        if wanted:
            return Combine(operator=merge, at_s=statistics.end_s, strategy=self.spec.combine_by), figures
        return Split(operator=merge, at_s=statistics.end_s), figures

    def costs(self, compute: str, rate_per_s: float, migrations: float) -> tuple[Cost, Cost]:
        """Costs over the longest window of one component, and of two, each by the cheaper of panes and windows."""
        period = period_of_job(self.job, compute, rate_per_s, migrations)
        costs = unit_costs(self.job, compute, period)
        by_form = {form: cost(form, period, costs) for form in WindowForm}
        combined = min((cost for form, cost in by_form.items() if not form.is_split), key=lambda cost: cost.cpu_s)
        split = min((cost for form, cost in by_form.items() if form.is_split), key=lambda cost: cost.cpu_s)
        return combined, split
