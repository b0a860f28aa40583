"""Plans that runs have judged: the start of a search by predictions, its runs, and what it found."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from statistics import fmean
from time import perf_counter, process_time
from typing import Any

from optimizers.interface import Candidate, Optimizer, Problem, Solution, Status
from optimizers.objectives import OBJECTIVES, PRICE, Requirements, at_rate
from optimizers.planner import Planner
from optimizers.planner.judging import early
from optimizers.planner.loads import loads_of, planned_for, rates_at
from optimizers.plugins import AnswerError, PredictionError, faults_told, fitting
from optimizers.registry import OPTIMIZERS
from optimizers.searching import Budget, Judged, Search, Searched, Tried, interval
from optimizers.selection import said
from scenarios import measures
from scenarios.executing import Processes
from scenarios.files.documents import Number
from scenarios.planning.cost_models import is_learned
from twin.errors import BadInput, TooMuch
from twin.executor import Executor
from twin.histograms import histogram_of, merge, quantile_s
from twin.kinds.registry import SINKS
from twin.metrics import REGRESSION_METRICS, measured
from twin.plan import ExecutionPlan
from twin.quantities import number
from twin.randomness import child_seed
from twin.run import Run
from twin.scenario import Scenario
from twin.simulation import simulate
from twin.steadiness import in_short_periods

# what runs are judged by ---------------------------------------------------------------------------------------------


USUAL = "processing_latency_s"
MORE_IS_BETTER = frozenset({"throughput_per_s", "records_out", "records_in", measures.KEEPS_UP, "success"})
"""Measures of which more is better; of all others, less is."""
LEAST = 1e-9
"""Least value of a limit of which an excess is a share."""
FAILED = 10.0
"""Amount missed by a run without results, or that was given up: more than by one that falls behind."""
HISTOGRAMS = {"processing_latency_s": "processing", "e2e_latency_s": "e2e", "result_delay_s": "delay"}
"""Latencies of results by measure, as `twin.histograms` has them."""
QUANTILES = {"p50": 0.5, "p95": 0.95, "p99": 0.99}
TAIL = 0.9
"""Quantile from which on a plan gets two runs at first: what is rare in a run may be absent, or all there is."""


@dataclass(frozen=True, slots=True)
class SearchRun:
    """What a search keeps of one run. values: of measures by name. histograms: of latencies of results, by measure.
    behind: by how much the job does not keep up, 0 if it does. cpu_s: that the run took, in which process."""

    values: Mapping[str, float]
    histograms: Mapping[str, Mapping[int, int]]
    behind: float
    cpu_s: float
    process: int


@dataclass(frozen=True, slots=True)
class Goal:
    """What plans are judged by in runs: an objective and limits, by full names of measures, or an objective that
    follows from the plan alone. head_room: share of the offered rates that a plan must bear beyond them.

    A quantile of several runs is that of all their results together; of other measures it is the mean that counts.
    """

    objective: str
    at_most: Mapping[str, float]
    head_room: float

    @classmethod
    def of(cls, scenario: Scenario, objective: str, requirements: Requirements) -> Goal:
        """Goal in full names. Raises BadInput for unknown measures."""
        alone = objective in OBJECTIVES and OBJECTIVES[objective].of is not None
        named = objective if alone else measures.full_name(objective, scenario, "--objective")
        asked = {**requirements.at_most, **requirements.measured}
        limits = {measures.full_name(name, scenario, "--at-most"): most for name, most in asked.items()}
        return cls(named, limits, requirements.head_room or 0.0)

    @property
    def sign(self) -> float:
        """1 if less of the objective is better, else -1."""
        return -1.0 if self.objective in MORE_IS_BETTER else 1.0

    @property
    def follows(self) -> bool:
        """Whether the objective follows from the plan alone."""
        return self.objective in OBJECTIVES and OBJECTIVES[self.objective].of is not None

    @property
    def predicted(self) -> str:
        """The objective known to predictions that is nearest, by which they propose plans."""
        name = self.objective.partition(".")[0]
        return self.objective if self.follows else name if name in REGRESSION_METRICS else USUAL

    @property
    def names(self) -> tuple[str, ...]:
        """Measures that runs must tell; between plans of equal price or traffic, the usual latency decides."""
        first = f"{USUAL}{measures.MEAN}" if self.follows else self.objective
        return tuple(dict.fromkeys([first, *self.at_most]))

    @property
    def first_runs(self) -> int:
        """Runs that each plan gets before it is judged."""
        return 2 if any(_quantile(name)[1] > TAIL for name in self.names) else 1

    def value(self, name: str, runs: Sequence[SearchRun]) -> float:
        """A measure over several runs; infinite if one did not tell it."""
        latency, q = _quantile(name)
        found = [run.values[name] for run in runs]
        if not q or not all(map(math.isfinite, found)):
            return fmean(found)
        return quantile_s(merge(run.histograms[latency] for run in runs), q)


def _quantile(name: str) -> tuple[str, float]:
    """Latency of results and share of which a measure is the quantile; no name and 0 for other measures."""
    latency, _, quantile = name.rpartition(".")
    return (latency, QUANTILES[quantile]) if latency in HISTOGRAMS and quantile in QUANTILES else ("", 0.0)


def _behind(run: Run) -> float:
    """By how much a run does not keep up: 0 if it does; else the share of its records that stay behind, and at least a
    hundredth."""
    metrics = run.metrics
    if not metrics.success:
        return FAILED
    if not metrics.falls_behind:
        return 0.0
    lost_per_s = metrics.backpressure_per_s + metrics.queue_growth_per_s
    return max(0.01, lost_per_s / max(lost_per_s + metrics.throughput_per_s, 1e-300))


def _kept(goal: Goal, run: Run, warmup_s: float) -> tuple[dict[str, float], dict[str, dict[int, int]]]:
    """Values and histograms that the goal needs of a run."""
    found = measures.measures(run)
    rows = [row for row in measured(run.operator_rows, warmup_s) if row["kind"] in SINKS]
    latencies = {latency for latency, q in map(_quantile, goal.names) if q}
    histograms = {each: histogram_of(rows, HISTOGRAMS[each]) for each in latencies}
    return {name: measures.of(found, name) for name in goal.names}, histograms


# the bench -----------------------------------------------------------------------------------------------------------


RUNS = 2**31 + 1
"""Number of the child seed whose children are the runs of a search, apart from those that judge its answer."""


@dataclass(slots=True)
class RunBench:
    """Makes runs of a scenario under plans; an `optimizers.searching.Bench`. budget: of the search. here_s: CPU seconds
    of those that this process has made."""

    problem: Problem
    goal: Goal
    budget: Budget
    executor: Executor
    run: Callable[[Scenario], Run] = simulate
    here_s: float = 0.0
    _known: dict[tuple[str, int], SearchRun] = field(default_factory=dict)

    def __call__(self, wanted: Sequence[tuple[ExecutionPlan, int]], at_once: int) -> Iterator[SearchRun]:
        """Runs of plans by number, in order, as they are asked for."""
        keys = [(plan.model_dump_json(), number) for plan, number in wanted]
        for row, key in enumerate(keys):
            if key not in self._known:
                ahead = [each for each in range(row, len(keys)) if keys[each] not in self._known][:at_once]
                self._make([keys[each] for each in ahead], [wanted[each] for each in ahead])
            yield self._known[key]

    def judged(self, runs: Sequence[SearchRun]) -> Judged:
        """What runs of one plan say together: the job keeps up if it does in most of them."""
        goal, behind = self.goal, sum(each.behind > 0.0 for each in runs)
        missed = fmean(each.behind for each in runs) if 2 * behind > len(runs) else 0.0
        for name, most in goal.at_most.items():
            value = goal.value(name, runs)
            missed += max(0.0, value - most) / max(abs(most), LEAST) if math.isfinite(value) else FAILED
        first = goal.value(goal.names[0], runs)
        return Judged(runs[0].values[goal.objective], missed, first) if goal.follows else Judged(first, missed)

    def _left_s(self) -> float:
        """CPU seconds that the runs still to come will take."""
        spent_s = sum(each.cpu_s for each in self._known.values())
        if self.budget.runs is None:
            return (self.budget.cpu_s or 0.0) - spent_s
        return spent_s / len(self._known) * (self.budget.runs - len(self._known))

    def _make(self, keys: Sequence[tuple[str, int]], wanted: Sequence[tuple[ExecutionPlan, int]]) -> None:
        scenario = self.problem.scenario
        seed = child_seed(scenario.run.seed, RUNS)
        items = [(plan, child_seed(seed, number)) for plan, number in wanted]
        if self._known and isinstance(self.executor, Processes):
            self.executor.expect(self._left_s())
        found: dict[int, SearchRun] = {}
        work = partial(_made, self.run, scenario, self.goal, self.problem.requirements)
        self.executor.each(work, items, found.__setitem__)
        for position, run in found.items():
            self._known[keys[position]] = run
            self.here_s += run.cpu_s if run.process == os.getpid() else 0.0


def _made(
    run: Callable[[Scenario], Run],
    scenario: Scenario,
    goal: Goal,
    requirements: Requirements,
    item: tuple[ExecutionPlan, int],
) -> SearchRun:
    """One run of a plan with a seed. A run that is given up, as it would take too much, tells nothing."""
    (plan, seed), began_s = item, process_time()
    planned = in_short_periods(scenario).with_plan(plan).with_run(seed=seed)
    try:
        found = run(planned)
        (values, histograms), behind = _kept(goal, found, planned.run.warmup_s), _behind(found)
        if goal.head_room:
            behind += _behind(run(at_rate(planned, 1.0 + goal.head_room)))
    except TooMuch:
        values, histograms, behind = dict.fromkeys(goal.names, math.inf), {}, FAILED
    of = OBJECTIVES[goal.objective].of if goal.follows else None
    if of is not None:
        values[goal.objective] = float(of(scenario, [plan], requirements)[0])
    return SearchRun(values, histograms, behind, process_time() - began_s, os.getpid())


# starts --------------------------------------------------------------------------------------------------------------


PROPOSERS = ("local-search", "milp")
"""Optimizers whose plans by rates, for each load, are simulated first."""
BEARS, BUYS = "milp-rate", "milp-hosts"
ROOMS = (0.0, 0.2, 0.5, 1.0)
"""Head rooms for which the cheapest hosts are proposed."""
SHARE_OF_STARTS = 0.3
"""Share of CPU seconds for all that proposes starts."""
LONG_S = 600.0
"""CPU seconds from which on a budget without a unit is asked about."""
PATIENCE_S, LEAST_S = 2.0, 0.05
"""Seconds for each that proposes a start, where runs are counted; and at least."""
GIVEN, HEURISTIC = "as given", "governor"


def starts(problem: Problem, own: Optimizer | None, patience_s: float) -> Iterator[tuple[str, ExecutionPlan]]:
    """Plans that predictions propose, and what proposes each. own: the optimizer that was asked for. patience_s: for
    each proposal. Raises BadInput if that optimizer cannot take the problem, or fails."""
    yield GIVEN, problem.scenario.plan
    asked = replace(problem, seconds=patience_s, report=None, requirements=problem.requirements.of_means)
    if own is not None and own.name not in PROPOSERS:
        with faults_told(own):
            yield own.name, fitting(asked, own.solve(asked)).plan
    if is_learned(problem.cost_model):
        driven = Planner(own or OPTIMIZERS[PROPOSERS[0]], keeps=False)
        driven = replace(driven, near=driven.traits.analytic)
        yield from _proposed(f"{driven.name} by {problem.cost_model.name}", asked, driven.solve)
    for room in ROOMS if problem.objective == PRICE else ():
        roomy = replace(asked, requirements=replace(asked.requirements, head_room=room))
        yield from _proposed(f"{BUYS} with head room {room:g}", roomy, OPTIMIZERS[BUYS].solve)
    yield from _proposed(HEURISTIC, asked, OPTIMIZERS[HEURISTIC].solve)
    for load in loads_of(problem.scenario):
        for name in PROPOSERS:
            by_load = partial(planned_for, load, propose=OPTIMIZERS[name].solve)
            yield from _proposed(f"{name} by {rates_at(load).name}", asked, by_load)
    yield from _proposed(BEARS, asked.settled(free_subtasks=False), OPTIMIZERS[BEARS].solve)


def _proposed(name: str, problem: Problem, solve: Callable[[Problem], Solution]) -> Iterator[tuple[str, ExecutionPlan]]:
    """The plan that is proposed, if the optimizer can take the problem and keeps to its space. Raises PredictionError
    where a cost model of somebody else's fails."""
    try:
        found = fitting(problem, solve(problem))
    except PredictionError:
        raise
    except (BadInput, AnswerError):
        return
    if problem.space.includes(problem.deployment, found.plan):
        yield name, found.plan


# the search ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchStep:
    """Point of the path of a search: the best plan known after so many runs, and what proposed it."""

    runs: int
    best: Number
    as_required: bool
    found_by: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchTold:
    """What a search by runs did. runs: made; cpu_seconds: that they took. best_runs: of the best plan. interval: 95 %
    confidence interval of its objective; null of one run. nothing_near: whether all small changes of it were simulated,
    and none is better. whole: whether all plans of the space were simulated. path: when which plan led."""

    runs: int
    cpu_seconds: float
    best_runs: int
    interval: tuple[Number, Number] | None
    nothing_near: bool
    whole: bool
    path: tuple[SearchStep, ...]

    @property
    def table(self) -> dict[str, list[Any]]:
        """Columns of the path, for a figure."""
        columns = ("runs", "best", "as_required", "found_by")
        rows = [{**asdict(each), "best": math.nan if each.best is None else each.best} for each in self.path]
        return {name: [row[name] for row in rows] for name in columns}


@dataclass(frozen=True, slots=True)
class PlansSearched:
    """Plans that runs have judged. found: by the search. starts: plans by what proposed them, the given one first.
    bench: tells what runs say. seconds: wall time of all. late: whether a limit of time has ended it."""

    found: Searched[SearchRun]
    starts: Mapping[str, ExecutionPlan]
    bench: RunBench
    seconds: float
    late: bool = False

    @property
    def interval(self) -> tuple[float, float] | None:
        """95 % confidence interval of the best plan's objective; None of one run."""
        return interval(self.bench, self.found.best.runs)

    @property
    def told(self) -> SearchTold:
        """What the search did."""
        found = self.found
        return SearchTold(
            runs=found.runs,
            cpu_seconds=found.cpu_s,
            best_runs=len(found.best.runs),
            interval=self.interval,
            nothing_near=found.nothing_near,
            whole=found.whole,
            path=tuple(
                SearchStep(runs=each.runs, best=each.best, as_required=each.feasible, found_by=each.found_by)
                for each in found.path
            ),
        )

    @property
    def solution(self) -> Solution:
        """What was found in the form of every optimizer's answer: objectives are those of runs."""
        problem = self.bench.problem
        found, given = self.found, problem.scenario.plan
        by_plan = [(each.plan, self._candidate(each)) for each in found.tried]
        (_, best), others = by_plan[0], [each for _, each in by_plan[1 : 1 + problem.alternatives]]
        starts = {name: each for name, start in self.starts.items() for plan, each in by_plan if plan == start}
        made = Solution.of(best, Status.FEASIBLE, evaluations=len(by_plan), started_s=0.0, others=others)
        near = "all small changes of it were simulated, and none is better"
        return replace(
            made,
            seconds=self.seconds,
            simulated=len(by_plan),
            given=next((each for plan, each in by_plan if plan == given), None),
            starts=starts,
            message=said(
                early(problem) if problem.stopped() or self.late else "",
                "the given plan is the best" if best.plan == given else "",
                "" if best.feasible else "no plan that was simulated is as required; this one misses the least",
                "all plans of the space were simulated" if found.whole else near if found.nothing_near else "",
            ),
        )

    def _candidate(self, tried: Tried[SearchRun]) -> Candidate:
        judged = self.bench.judged(tried.runs)
        behind = fmean(each.behind > 0.0 for each in tried.runs)
        return Candidate(tried.plan, judged.objective, behind, 1.0, judged.missed <= 0.0, judged.second)


def search(
    problem: Problem,
    objective: str,
    budget: Budget,
    *,
    optimizer: Optimizer | None = None,
    executor: Executor | None = None,
    at_once: int = 1,
) -> PlansSearched:
    """Searches with runs in the loop, by an `optimizers.searching.Search`.

    problem: whose cost model proposes plans and orders changes, beside the rate model for each load. objective: any
    measure of a run, or an objective that follows from the plan. optimizer: whose plans are starts too. executor: makes
    the runs; None: this process. at_once: runs that are made side by side; the answer does not depend on it, unless CPU
    seconds limit the search. Raises BadInput for an unknown measure, or as optimizers do for a space without plans.
    """
    began_s, began_cpu_s, deadline = perf_counter(), process_time(), problem.deadline()
    scenario, goal = problem.scenario, Goal.of(problem.scenario, objective, problem.requirements)
    problem = replace(problem, objective=goal.predicted)
    fixed = problem.settled(free_subtasks=False)
    bench = RunBench(problem, goal, budget, executor or Processes(1))
    patience_s = PATIENCE_S
    if budget.cpu_s is not None:
        proposals = 2 + len(loads_of(scenario)) * len(PROPOSERS)
        patience_s = max(LEAST_S, SHARE_OF_STARTS * budget.cpu_s / proposals)
    proposed = dict[str, ExecutionPlan]()
    for name, plan in starts(fixed, optimizer, patience_s):
        if plan not in proposed.values():
            proposed[name] = plan
        problem.tell("plans proposed", len(proposed))
        if problem.stopped():
            break
    by_rates = [rates_at(load) for load in loads_of(scenario)]
    others = [] if problem.cost_model.name in {each.name for each in by_rates} else [problem.cost_model]
    made = Search(
        fixed,
        [*others, *by_rates],
        bench,
        budget,
        sign=goal.sign,
        first=goal.first_runs,
        at_once=at_once,
        beside_s=lambda: process_time() - began_cpu_s - bench.here_s,
    )
    found = made.run(proposed)
    return PlansSearched(found, proposed, bench, perf_counter() - began_s, deadline.over)


def budget_of(text: str) -> Budget:
    """Budget in words: CPU seconds, such as 20, 20s or 2min, or 40runs. Raises BadInput for anything else."""
    word = text.strip().replace(" ", "").removesuffix("s")
    try:
        if word.endswith("run"):
            return Budget(runs=int(word.removesuffix("run")))
        cpu_s = number(text, "budget_s")
        if cpu_s > LONG_S and text.strip().replace(".", "").isdigit():
            raise BadInput(
                f"--budget {text} would be {cpu_s:g} CPU seconds; write {text}s if that is meant, {text}runs for runs, "
                f"or --estimates {text} for plans that predictions may look at"
            )
        return Budget(cpu_s=cpu_s)
    except ValueError as error:
        if isinstance(error, BadInput):
            raise
        raise BadInput(f"--budget {text!r}: write CPU seconds, such as 20, or runs, such as 40runs") from None


SEARCHED = "searched"
USUAL_BUDGET = Budget(runs=40)


@dataclass(frozen=True, slots=True)
class BySearch:
    """Optimizer that searches with runs in the loop: a row beside others in tables."""

    budget: Budget
    name: str = SEARCHED

    def solve(self, problem: Problem) -> Solution:
        """Best plan by runs with other seeds than those of the scenario's first children. Raises BadInput as `search`
        does."""
        return search(problem, problem.objective, self.budget).solution
