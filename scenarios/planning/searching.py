"""Searches for plans by runs: what predictions propose, the runs, and what was found."""

from __future__ import annotations

import math
import os
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from statistics import fmean
from typing import Any

from optimizers.interface import USUAL_S, Candidate, Optimizer, Problem, Solution, Status
from optimizers.judging import KEPT, OUTSIDE, early
from optimizers.objectives import OBJECTIVES, PRICE, USUAL_METRIC, Requirements, at_rate
from optimizers.planner import loads_of, planned_for, rates_at
from optimizers.plugins import AnswerError, PredictionError, faults_told, fitting
from optimizers.registry import OPTIMIZERS
from optimizers.searching import Budget, Judged, Search, Searched, Tried, interval
from optimizers.selection import said
from scenarios import measures
from scenarios.executing import Processes
from scenarios.files.documents import Number
from scenarios.planning.cost_models import is_learned, planner_for
from twin.errors import BadInput, TooMuch
from twin.histograms import histogram_of, merge, quantile_s
from twin.kinds.registry import SINKS
from twin.metrics import CostModel, measured
from twin.plan import ExecutionPlan
from twin.quantities import number
from twin.randomness import child_seed
from twin.rates.model import RateModel
from twin.run import Run
from twin.scenario import Scenario
from twin.simulation import simulate
from twin.steadiness import in_short_periods
from twin.work import Executor

# what runs are judged by ---------------------------------------------------------------------------------------------


MORE_IS_BETTER = frozenset({"throughput_per_s", "records_out", "records_in", measures.KEEPS_UP, "success"})
"""Measures of which more is better; of all others, less is."""
FAILED = 10.0
"""Amount missed by runs without results, or that were given up: more than by any others."""
LEAST = 1e-9
"""Limits nearer to 0 count as this, as an excess is a share of its limit."""
HISTOGRAMS = {"processing_latency_s": "processing", "e2e_latency_s": "e2e", "result_delay_s": "delay"}
"""Latencies of results by measure, as `twin.histograms` has them."""
QUANTILES = {"p50": 0.5, "p95": 0.95, "p99": 0.99}
TAIL = 0.9
"""Quantile above which a plan gets two runs at first: one may have nothing of what is rare, or too much of it."""


@dataclass(frozen=True, slots=True)
class SearchRun:
    """What a search keeps of one run. values: of measures by name. histograms: of latencies of results, by measure.
    succeeded: whether there were results, and no crash. behind, behind_ahead: by how much the job does not keep up, 0
    if it does: at the offered rates, and at those of the head room. cpu_s: CPU seconds that the run took. process: id
    of the process that made it."""

    values: Mapping[str, float]
    histograms: Mapping[str, Mapping[int, int]]
    succeeded: bool
    behind: float
    behind_ahead: float
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
        named = objective if _follows(objective) else measures.full_name(objective, scenario, "--objective")
        limits: dict[str, float] = {}
        for name, most in (*requirements.at_most.items(), *requirements.measured.items()):
            full = name if _follows(name) else measures.full_name(name, scenario, "--at-most")
            if full in MORE_IS_BETTER:
                raise BadInput(f"--at-most {name}: more of it is better; limit something that may be too much")
            limits[full] = min(most, limits.get(full, math.inf))
        return cls(named, limits, requirements.head_room or 0.0)

    @property
    def sign(self) -> float:
        """1 if less of the objective is better, else -1."""
        return -1.0 if self.objective in MORE_IS_BETTER else 1.0

    @property
    def follows(self) -> bool:
        """Whether the objective follows from the plan alone."""
        return _follows(self.objective)

    @property
    def predicted(self) -> str:
        """The objective by which predictions propose plans: the same, if some cost model estimates it."""
        name = self.objective.removesuffix(measures.MEAN)
        return name if name in OBJECTIVES else USUAL_METRIC

    @property
    def names(self) -> tuple[str, ...]:
        """Measures that runs must tell."""
        first = f"{USUAL_METRIC}{measures.MEAN}" if self.follows else self.objective
        return tuple(dict.fromkeys([first, *(name for name in self.at_most if not _follows(name))]))

    @property
    def following(self) -> tuple[str, ...]:
        """Measures that follow from the plan alone."""
        return tuple(name for name in dict.fromkeys([self.objective, *self.at_most]) if _follows(name))

    @property
    def names_hosts(self) -> bool:
        """Whether a measure is of one host or link, so that equal hosts are not the same to who asks."""
        return any(name.startswith(("hosts.", "links.")) for name in self.names)

    @property
    def first_runs(self) -> int:
        """Runs that each plan gets before it is judged."""
        return 2 if any(_quantile(name)[1] > TAIL for name in self.names) else 1

    def value(self, name: str, runs: Sequence[SearchRun]) -> float:
        """A measure over the runs that have results; infinite if most have none, or if it is in one of them. Where
        results are rare, some runs have none under any plan."""
        latency, q = _quantile(name)
        telling = [run for run in runs if run.succeeded]
        if 2 * len(telling) <= len(runs):
            return math.inf
        found = [run.values[name] for run in telling]
        if not q or not all(map(math.isfinite, found)):
            return fmean(found)
        return quantile_s(merge(run.histograms[latency] for run in telling), q)

    def between_equals(self, runs: Sequence[SearchRun]) -> float:
        """What decides between plans of equal price, traffic or change: how near they come to the limits of what runs
        measure, and the usual latency where nothing is limited."""
        limited = [name for name in self.at_most if not _follows(name)]
        if not limited:
            return self.value(self.names[0], runs)
        return max(self.value(name, runs) / max(abs(self.at_most[name]), LEAST) for name in limited)

    def excess(self, runs: Sequence[SearchRun]) -> float:
        """By how much the limits are missed: less than 1 for each, 0 if all are kept."""
        missed = 0.0
        for name, most in self.at_most.items():
            value = self.value(name, runs)
            share = max(0.0, value - most) / max(abs(most), LEAST)
            missed += share / (1.0 + share) if math.isfinite(share) else 1.0
        return missed


def _follows(objective: str) -> bool:
    return objective in OBJECTIVES and OBJECTIVES[objective].of is not None


def _quantile(name: str) -> tuple[str, float]:
    """Latency of results and share of which a measure is the quantile; no name and 0 for other measures."""
    latency, _, quantile = name.rpartition(".")
    return (latency, QUANTILES[quantile]) if latency in HISTOGRAMS and quantile in QUANTILES else ("", 0.0)


def _behind(run: Run) -> float:
    """By how much a run does not keep up: 0 if it does, else from 1 to 2, more the more is left unread."""
    metrics = run.metrics
    if not metrics.falls_behind:
        return 0.0
    lost_per_s = metrics.backpressure_per_s + metrics.queue_growth_per_s
    return 1.0 + lost_per_s / (1.0 + lost_per_s)


def _kept(goal: Goal, run: Run, warmup_s: float) -> tuple[dict[str, float], dict[str, dict[int, int]]]:
    """Values and histograms that the goal needs of a run."""
    found = measures.measures(run)
    rows = [row for row in measured(run.operator_rows, warmup_s) if row["kind"] in SINKS]
    latencies = {latency for latency, q in map(_quantile, goal.names) if q}
    histograms = {each: histogram_of(rows, HISTOGRAMS[each]) for each in latencies}
    return {name: measures.of(found, name) for name in goal.names}, histograms


# the bench -----------------------------------------------------------------------------------------------------------


SEARCH_CHILD = 2**31 + 1
"""Child of the scenario's seed whose children are the seeds of these runs, so that those that judge have others."""


@dataclass(slots=True)
class RunBench:
    """Makes runs of a scenario under plans; an `optimizers.searching.Bench`. budget: of the search. here_s: CPU seconds
    of those that this process has made."""

    problem: Problem
    goal: Goal
    budget: Budget
    executor: Executor
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
        """What runs of one plan say together. The job keeps up if it does in more than half of them."""
        goal = self.goal
        missed = goal.excess(runs) + sum(_most(each) for each in zip(*map(_faults, runs), strict=True))
        failed = fmean(not run.succeeded for run in runs)
        if goal.follows:
            return Judged(runs[0].values[goal.objective], missed, goal.between_equals(runs), failed)
        return Judged(goal.value(goal.objective, runs), missed, failed=failed)

    def candidate(self, tried: Tried[SearchRun]) -> Candidate:
        """A simulated plan as a candidate: it runs if it does in more than half of its runs."""
        runs, judged = tried.runs, self.judged(tried.runs)
        behind = fmean(each.behind > 0.0 for each in runs)
        succeeded = fmean(each.succeeded for each in runs)
        ahead = _most([each.behind_ahead for each in runs])
        fulfils = not self.goal.excess(runs) and not ahead
        return Candidate(tried.plan, judged.objective, behind, succeeded, fulfils, judged.second, len(runs))

    def _left_s(self) -> float:
        """CPU seconds that the runs still to come will take."""
        spent_s = sum(each.cpu_s for each in self._known.values())
        if self.budget.runs is None:
            return (self.budget.cpu_s or 0.0) - spent_s
        return spent_s / len(self._known) * (self.budget.runs - len(self._known))

    def _make(self, keys: Sequence[tuple[str, int]], wanted: Sequence[tuple[ExecutionPlan, int]]) -> None:
        scenario = self.problem.scenario
        seed = child_seed(scenario.run.seed, SEARCH_CHILD)
        items = [(plan, child_seed(seed, number)) for plan, number in wanted]
        if self._known and isinstance(self.executor, Processes):
            self.executor.expect(self._left_s())
        found: dict[int, SearchRun] = {}
        self.executor.each(partial(_made, scenario, self.goal, self.problem.requirements), items, found.__setitem__)
        for position, run in found.items():
            self._known[keys[position]] = run
            self.here_s += run.cpu_s if run.process == os.getpid() else 0.0


def _faults(run: SearchRun) -> tuple[float, float, float]:
    """Amounts missed by a run: failure, and falling behind at the offered rates, and at those of the head room."""
    return 0.0 if run.succeeded else FAILED, run.behind, run.behind_ahead


def _most(missed: Sequence[float]) -> float:
    """Mean of the amounts missed by runs if at least half of them miss something, else 0."""
    return fmean(missed) if 2 * sum(each > 0.0 for each in missed) >= len(missed) else 0.0


def _made(scenario: Scenario, goal: Goal, requirements: Requirements, item: tuple[ExecutionPlan, int]) -> SearchRun:
    """One run of a plan with a seed, and one at the rates of the head room if some is required. A run that is given up,
    as it would take too much, tells nothing and counts as failed."""
    (plan, seed), began_s = item, time.process_time()
    planned = in_short_periods(scenario).with_plan(plan).with_run(seed=seed)
    try:
        found = simulate(planned)
        (values, histograms), succeeded = _kept(goal, found, planned.run.warmup_s), found.metrics.success
        behind = _behind(found)
    except TooMuch:
        values, histograms, succeeded, behind = dict.fromkeys(goal.names, math.inf), {}, False, 0.0
    ahead = _behind_ahead(planned, 1.0 + goal.head_room) if goal.head_room else 0.0
    for name in goal.following:
        of = OBJECTIVES[name].of
        values[name] = math.nan if of is None else float(of(scenario, [plan], requirements)[0])
    return SearchRun(values, histograms, succeeded, behind, ahead, time.process_time() - began_s, os.getpid())


def _behind_ahead(planned: Scenario, factor: float) -> float:
    """By how much the job does not keep up at a multiple of the rates; all there is if the run would take too much."""
    try:
        found = simulate(at_rate(planned, factor))
    except TooMuch:
        return FAILED
    return _behind(found) if found.metrics.success else FAILED


# starts --------------------------------------------------------------------------------------------------------------


PROPOSERS = ("local-search", "milp")
"""Optimizers whose plans by rates, for each load, are simulated first."""
BEARS, BUYS = "milp-rate", "milp-hosts"
ROOMS = (0.0, 0.2, 0.5, 1.0)
"""Head rooms for which the cheapest hosts are proposed."""
SHARE_OF_STARTS = 0.3
"""Share of a budget of CPU seconds for all that proposes starts."""
LONG_S = 600.0
"""CPU seconds above which a budget without a unit is refused."""
LEAST_S = 0.05
"""Least seconds for each that proposes a start."""
CUT = "{names} had no more than {seconds:g} s: on another machine they may propose other plans"
GIVEN, HEURISTIC = "as given", "governor"
ALIKE = "{objective} is the same under all plans that were simulated, so it says nothing of which is better"
STAYS = "nothing is better than the given plan by more than its moves are worth (1 %), so it is kept"


@dataclass(frozen=True, slots=True)
class Proposal:
    """Who proposes a plan, by the name in the answer. own: whether the optimizer was asked for, so that its faults are
    told."""

    name: str
    optimizer: Optimizer
    problem: Problem
    load: str | None = None
    own: bool = False

    def plans(self, seconds: float) -> list[ExecutionPlan]:
        """The plan proposed within so many seconds; none if the optimizer cannot take the problem or leaves its space.

        Mostly what it proposes ends by counts, of estimates and of nodes, long before, and is the same on every
        machine. Raises BadInput for the faults of an optimizer that was asked for, and of a cost model of somebody
        else's.
        """
        problem = replace(self.problem, seconds=seconds, proves=False)
        if self.own:
            with faults_told(self.optimizer):
                return [fitting(problem, self.optimizer.solve(problem)).plan]
        try:
            solve = self.optimizer.solve
            found = solve(problem) if self.load is None else planned_for(self.load, problem, solve)
            found = fitting(problem, found)
        except PredictionError:
            raise
        except (BadInput, AnswerError):
            return []
        return [found.plan] if problem.space.includes(problem.deployment, found.plan) else []


def proposals(problem: Problem, own: Optimizer | None) -> list[Proposal]:
    """Who proposes plans beside the given one. own: the optimizer that was asked for."""
    model = problem.cost_model
    by_model = replace(problem.judged_by(model), report=None)
    asked = replace(problem.judged_by(RateModel()), cost_model=model, report=None)
    found = list[Proposal]()
    mine = OPTIMIZERS[PROPOSERS[0]] if own is None else own
    if is_learned(model):
        found.append(Proposal(f"{mine.name} by {model.name}", planner_for(mine, model), by_model, own=own is not None))
    elif mine.name not in PROPOSERS:
        found.append(Proposal(mine.name, planner_for(mine, problem.cost_model), asked, own=True))
    for room in ROOMS if problem.objective == PRICE else ():
        roomy = replace(asked, requirements=replace(asked.requirements, head_room=room))
        found.append(Proposal(f"{BUYS} with head room {room:g}", OPTIMIZERS[BUYS], roomy))
    found.append(Proposal(HEURISTIC, OPTIMIZERS[HEURISTIC], asked))
    fixed = replace(asked, space=replace(asked.space, free_subtasks=False))
    found += [
        Proposal(f"{name} by {rates_at(load).name}", OPTIMIZERS[name], fixed, load)
        for load in loads_of(problem.scenario)
        for name in PROPOSERS
    ]
    return [*found, Proposal(BEARS, OPTIMIZERS[BEARS], fixed)]


def starts(problem: Problem, own: Optimizer | None, patience_s: float) -> Iterator[tuple[str, ExecutionPlan]]:
    """Plans that predictions propose, after the given one, and what proposes each. own: the optimizer that was asked
    for. patience_s: for each proposal. Raises BadInput if that optimizer cannot take the problem, or fails."""
    yield GIVEN, problem.scenario.plan
    for each in proposals(problem, own):
        yield from ((each.name, plan) for plan in each.plans(patience_s))


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
    confidence interval of its objective; null of one run. limits: values of the limited measures, by full names, in its
    runs. nothing_near: whether all small changes of it were simulated,
    and none is better. whole: whether all plans of the space were simulated. path: when which plan led."""

    runs: int
    cpu_seconds: float
    best_runs: int
    interval: tuple[Number, Number] | None
    limits: Mapping[str, Number]
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
    bench: tells what runs say. seconds: wall time of all. cut: who proposed plans until its time was up, where runs
    are counted."""

    found: Searched[SearchRun]
    starts: Mapping[str, ExecutionPlan]
    bench: RunBench
    seconds: float
    cut: tuple[str, ...] = ()

    @property
    def interval(self) -> tuple[float, float] | None:
        """About 95 % confidence interval of the best plan's objective; None of one run, or where no run tells it. The
        runs that chose the plan are among these, so that it may be a little too good."""
        return None if self.bench.goal.follows else interval(self.bench, self.found.best.runs)

    @property
    def told(self) -> SearchTold:
        """What the search did."""
        found = self.found
        return SearchTold(
            runs=found.runs,
            cpu_seconds=found.cpu_s,
            best_runs=len(found.best.runs),
            interval=self.interval,
            limits={name: self.bench.goal.value(name, found.best.runs) for name in self.bench.goal.at_most},
            nothing_near=found.nothing_near,
            whole=found.whole,
            path=tuple(
                SearchStep(runs=each.runs, best=each.best, as_required=each.feasible, found_by=each.found_by)
                for each in found.path
            ),
        )

    @property
    def _alike(self) -> bool:
        """Whether the objective is the same under all of several plans."""
        values = {self.bench.judged(each.runs).objective for each in self.found.tried}
        return len(self.found.tried) > 1 and len(values) == 1

    @property
    def solution(self) -> Solution:
        """What was found in the form of every optimizer's answer: objectives are those of runs."""
        problem, found = self.bench.problem, self.found
        given = problem.scenario.plan
        by_plan = [(each.plan, self.bench.candidate(each)) for each in found.tried]
        (_, best), others = by_plan[0], [each for _, each in by_plan[1 : 1 + problem.alternatives]]
        starts = {name: each for name, start in self.starts.items() for plan, each in by_plan if plan == start}
        made = Solution.of(best, Status.FEASIBLE, evaluations=len(by_plan), started_s=0.0, others=others)
        near = "all small changes of it were simulated, and none is better"
        none = f"no plan that was simulated {problem.requirements.words or 'keeps up'}; this one misses the least"
        outside = not problem.space.includes(problem.deployment, given)
        return replace(
            made,
            seconds=self.seconds,
            simulated=len(by_plan),
            given=next((each for plan, each in by_plan if plan == given), None),
            starts=starts,
            message=said(
                early(problem) if found.late else "",
                OUTSIDE if outside else "",
                STAYS if found.stayed else KEPT if best.plan == given else "",
                "" if best.feasible else none,
                ALIKE.format(objective=self.bench.goal.objective) if self._alike else "",
                "all plans of the space were simulated" if found.whole else near if found.nothing_near else "",
                CUT.format(names=", ".join(self.cut), seconds=USUAL_S) if self.cut else "",
            ),
        )


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

    problem: whose cost model proposes plans and orders changes, beside the rate model for each load; numbers of
    subtasks stay as given unless its space frees them. objective: any measure of a run, or an objective that follows
    from the plan. optimizer: whose plan is a start too. executor: makes the runs; None: this process. at_once: runs
    that are made side by side; the answer does not depend on it, unless CPU seconds or a limit of time end the search.
    Raises BadInput for an unknown measure, a space without plans, or an optimizer that cannot take the problem.
    """
    began_s, began_cpu_s, deadline = time.perf_counter(), time.process_time(), problem.deadline()
    scenario, goal = problem.scenario, Goal.of(problem.scenario, objective, problem.requirements)
    if budget.runs is not None and budget.runs < goal.first_runs:
        raise BadInput(
            f"--budget {budget.runs}runs: each plan gets {goal.first_runs} runs where p95 or p99 counts, as what is "
            f"rare may be absent in one; give {goal.first_runs}runs or more"
        )
    fixed = replace(problem, objective=goal.predicted).settled(free_subtasks=False)
    bench = RunBench(fixed, goal, budget, executor or Processes(1))
    proposed, asked = {GIVEN: scenario.plan}, proposals(fixed, optimizer)
    patience_s = USUAL_S if budget.cpu_s is None else max(LEAST_S, SHARE_OF_STARTS * budget.cpu_s / len(asked))
    cut = list[str]()
    for done, each in enumerate(asked):
        if deadline.over:
            break
        problem.tell("plans proposed", done, len(asked))
        asked_s = time.perf_counter()
        for plan in each.plans(min(patience_s, max(LEAST_S, deadline.left_s))):
            if plan not in proposed.values():
                proposed[each.name] = plan
        cut += [each.name] if budget.cpu_s is None and time.perf_counter() - asked_s >= patience_s else []
    by_rates = [rates_at(load) for load in loads_of(scenario)]
    others = [] if problem.cost_model.name in {each.name for each in by_rates} else [problem.cost_model]
    space = problem.space
    made = Search(
        fixed,
        [*others, *by_rates],
        bench,
        budget,
        sign=goal.sign,
        first=goal.first_runs,
        at_once=at_once,
        exchange=not (goal.names_hosts or space.allowed or space.most_moves is not None or problem.requirements.prices),
        deadline=deadline,
        beside_s=lambda: time.process_time() - began_cpu_s - bench.here_s,
    )
    return PlansSearched(made.run(proposed), proposed, bench, time.perf_counter() - began_s, tuple(cut))


def budget_of(text: str) -> Budget:
    """Budget in words: CPU seconds, such as 20, 20s or 2min, or 40runs. Raises BadInput for anything else."""
    wrong = BadInput(f"--budget {text!r}: write CPU seconds, such as 20 or 2min, or runs, such as 40runs")
    if runs := re.fullmatch(r"(\d+) ?runs?", text.strip()):
        return Budget(runs=int(runs[1]))
    bare = re.fullmatch(r"-?\d+(\.\d*)?", text.strip())
    if not bare and not re.fullmatch(r"\d+(\.\d*)? ?(ms|s|min|h)", text.strip()):
        raise wrong
    cpu_s = number(text.strip().replace(" ", ""), "budget_s")
    if bare and cpu_s > LONG_S:
        raise BadInput(
            f"--budget {text} would be {cpu_s:g} CPU seconds; write {text}s if that is meant, {text}runs for runs, "
            f"or --estimates {text} for plans that predictions may look at"
        )
    return Budget(cpu_s=cpu_s)


SEARCHED = "searched"
USUAL_BUDGET = Budget(runs=40)


@dataclass(frozen=True, slots=True)
class BySearch:
    """Optimizer that searches with runs in the loop: a row beside others in tables. No planner surrounds it, as runs
    have judged its answer."""

    budget: Budget
    name: str = SEARCHED

    def solve(self, problem: Problem) -> Solution:
        """Best plan by runs, whose seeds are not those of the runs that judge it. Raises BadInput as `search` does."""
        return search(problem, problem.objective, self.budget).solution


def in_a_table(optimizer: Optimizer, model: CostModel) -> Optimizer:
    """Planner of an optimizer under a cost model, for a row of a table; `searched` as it is."""
    return optimizer if isinstance(optimizer, BySearch) else planner_for(optimizer, model)
