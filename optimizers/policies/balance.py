"""Balances the hosts by moving key groups: ALBIC's adaptation, Algorithm 1 (Madsen, Zhou, Cao 2016) without scaling.

The other policies here differ in their solver: Flux, and COLA from scratch in every round, are baselines. ALBIC and our
joint search also bring key groups that exchange much onto one host: their traffic is measured too, and a round
is carried out if it brings more traffic together, or balances better.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import Field

from optimizers.balancing.albic import Albic
from optimizers.balancing.joint import Joint
from optimizers.balancing.problem import Assignment, Balance, Solver
from optimizers.balancing.search import Flux, Search
from optimizers.balancing.solvers import BalanceMilp, Cola
from optimizers.policies.rounds import SEARCHED, Round, Rounds
from twin.control import PeriodStatistics, PolicySpec, Reconfiguration
from twin.deployment import Deployment
from twin.errors import BadInput
from twin.events import Combine, Split, combined_with, is_combined
from twin.forms import Cost, WindowForm, cost, period_of_job, unit_costs
from twin.job import compile
from twin.query import merged_windows
from twin.windows import US_PER_S

NO_LIMIT = 10**9


class BalanceSpec(Round, PolicySpec):
    """Settings of policy `balance`: hosts are balanced by moving key groups."""

    name: Literal["balance"] = "balance"
    solver: Annotated[Literal["search", "milp", "flux", "flux-best-fit"], Field(description="as in docs/albic.md")] = (
        "search"
    )
    seconds: Annotated[float, Field(gt=0, le=3600, description="that HiGHS has for a round, if milp is the solver")] = 5

    def start(self, deployment: Deployment) -> Rounds:
        """Starts the policy for one run."""
        return Rounds(deployment, self, self._solver(), self.name)

    def _solver(self) -> Solver:
        search = Search(looks=SEARCHED, band=self.band)
        if self.solver == "milp":
            return BalanceMilp(seconds=self.seconds, start=search)
        return search if self.solver == "search" else Flux(best_fit=self.solver == "flux-best-fit")


class FluxSpec(Round, PolicySpec):
    """Settings of policy `flux`."""

    name: Literal["flux"] = "flux"

    def start(self, deployment: Deployment) -> Rounds:
        """Starts the policy for one run."""
        return Rounds(deployment, self, Flux(), self.name)


class ColaSpec(PolicySpec):
    """Settings of policy `cola`, which has no budget. Moves of groups that cannot move are left out of its plan."""

    name: Literal["cola"] = "cola"
    max_distance: Annotated[
        float, Field(gt=0, le=100, description="load distance that is even enough (percentage points)")
    ] = 10.0
    every_periods: Annotated[int, Field(ge=1, description="periods of a round; loads are means over them")] = 1

    @property
    def periods_before_acting(self) -> int:
        """Number of periods before the policy can act: one round."""
        return self.every_periods

    def start(self, deployment: Deployment) -> Rounds:
        """Starts the policy for one run."""
        spec = Round(max_migrations=NO_LIMIT, every_periods=self.every_periods)
        return Rounds(deployment, spec, Cola(self.max_distance), self.name, with_traffic=True, limited=False)


class AlbicSpec(Round, PolicySpec):
    """Settings of policy `albic`; the defaults of maxLD, maxPL, stepPL and sF are the paper's."""

    name: Literal["albic"] = "albic"
    pairs: Annotated[
        Literal["one", "several"], Field(description="that are brought together in a round; one, as published")
    ] = "several"
    share: Annotated[float, Field(gt=0, le=1, description="of the budget that several pairs may take")] = 0.6
    max_distance: Annotated[float, Field(gt=0, le=100, description="maxLD (percentage points)")] = 10.0
    max_partition: Annotated[float, Field(gt=0, le=100, description="maxPL: load that moves as one (percent)")] = 25.0
    step: Annotated[float, Field(gt=0, le=100, description="stepPL (percent)")] = 5.0
    score_factor: Annotated[float, Field(gt=0, description="sF: times the average traffic of a pair")] = 1.5

    def start(self, deployment: Deployment) -> Collocating:
        """Starts the policy for one run."""
        solver = Albic(
            max_distance=self.max_distance,
            max_partition=self.max_partition,
            step=self.step,
            score_factor=self.score_factor,
            share=self.share if self.pairs == "several" else None,
            inner=Search(looks=SEARCHED, band=self.band),
        )
        return Collocating(deployment, self, solver, self.name, with_traffic=True)


class JointSpec(Round, PolicySpec):
    """Settings of policy `joint`."""

    name: Literal["joint"] = "joint"
    band: Annotated[float, Field(ge=0, le=100, description="percentage points off the mean that hosts may be")] = 3.0
    max_partition: Annotated[float, Field(gt=0, le=100, description="load that moves as one (percent)")] = 25.0
    score_factor: Annotated[float, Field(gt=0, description="times the average traffic of a pair")] = 1.5
    steps: Annotated[int, Field(gt=0, le=100_000, description="of the search in a round, at most")] = 300

    def start(self, deployment: Deployment) -> Collocating:
        """Starts the policy for one run."""
        solver = Joint(
            band=self.band,
            max_partition=self.max_partition,
            score_factor=self.score_factor,
            steps=self.steps,
            inner=Search(looks=SEARCHED, band=self.band),
        )
        return Collocating(deployment, self, solver, self.name, with_traffic=True)


@dataclass
class Collocating(Rounds):
    """Rounds of a solver that collocates. Where no pair exchanges more than others, hosts are only balanced."""

    solver: Albic | Joint

    def _plan(self, balance: Balance) -> Assignment:
        pairs = balance.traffic is not None and balance.traffic.mutual(self.solver.score_factor).any()
        return (self.solver if pairs else self.solver.inner).solve(balance)


# windows split or combined -------------------------------------------------------------------------------------------
# Splits or combines windows, whichever costs less CPU while migrations pause records at most for a limit (Enorm, 5.1).
#
# It balances as Flux does, and counts the migrations: key groups of one component take their state along and their
# records wait, those of a separate compute do not. Every period it puts the measured rate and the migrations into the
# cost model, once for each form, and splits or combines where the other form is the better one.


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
