"""Runs the suite of problems in as many processes as there are cores; keeps the rows of each problem once judged."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np

from optimizers.balancing.problem import Balance
from optimizers.balancing.solvers import SOLVERS
from optimizers.interface import Problem, Solution
from optimizers.objectives import Requirements, at_rate, price_of
from optimizers.policies import POLICIES
from optimizers.registry import BASELINES
from scenarios.executing import Progress
from scenarios.files.documents import CLOSED
from scenarios.planning import planner
from scenarios.planning.bench import PlanOutcome, Remembered, replicate
from scenarios.planning.cost_models import cost_models, with_loads
from scenarios.planning.searching import in_a_table
from scenarios.planning.validation import REFUSED, Standing, ValidationRow, validate
from scenarios.suite import FAMILIES, MEMBERS, changing, unbalanced
from twin.control import policy_spec
from twin.errors import BadInput, raised
from twin.files import stamped, unstamped, write_text
from twin.plan import ExecutionPlan
from twin.rates.model import RateModel
from twin.scenario import Scenario
from twin.simulation import simulate
from twin.work import Executor

# judges --------------------------------------------------------------------------------------------------------------
# Judges of the suite, one for each kind of problem: placement, hosts to rent, migration of key groups, scaling.
#
# A judge takes a family, the number of its member (from 0) and a request, and gives one row for each answer; the same
# request gives the same rows in every process. Placements are judged by `scenarios.planning.validation` in the
# simulator. Regret of other kinds is against the best answer given.


PLACING = "milp,branch-and-bound,local-search,costream,exhaustive,governor,first-fit,spread,random,as-given"
RENTING = "milp-hosts,local-search,first-fit,round-robin,spread,as-given"
"""Optimizers that are asked for placements, and for hosts, unless the request names others."""
HEAD_ROOM = 0.2
"""Head room that rented hosts must leave, as a share of the rate."""
OVER_BUDGET = 1
"""Kind of an answer whose migrations cost more than the budget."""
NO_POLICY = "none"
LATENCY, PRICE, DISTANCE = "e2e_latency_s", "price", "load distance"


def placements(family: str, number: int, request: BenchmarkRequest) -> Sequence[ValidationRow]:
    """Judges every optimizer with every cost model. A run is made once, but its time counts for all that ask for it."""
    made = FAMILIES[family]
    job = made.member(number)
    run = simulate if request.seconds is not None else Remembered(simulate)
    return validate(
        [job],
        planner.optimizers(request.optimizers or PLACING),
        with_loads(list(cost_models(request.cost_models).values()), job),
        run,
        request.replications,
        request.seed,
        objective=made.objective,
        budget=request.budget,
        references=request.references,
        space=made.space,
        seconds=request.seconds,
        planner_of=in_a_table,
        racing=True,
    )


@dataclass(frozen=True, slots=True)
class ProblemAnswer:
    """Answer to a problem. cost: lower is better. kind: a lower kind is better, whatever the costs.
    plan_s: seconds of planning. refusal: why there is no answer."""

    optimizer: str
    cost_model: str
    cost: float = math.inf
    kind: int = 0
    plan_s: float = 0.0
    predicted: float | None = None
    refusal: str = ""


def rows(
    problem: str, objective: str, answers: Iterable[ProblemAnswer], *, worst: float | None = None
) -> list[ValidationRow]:
    """Rows, one for each answer. worst: the cost of doing nothing; regret is then a share of the possible gain."""
    listed = list(answers)
    given = [answer for answer in listed if not answer.refusal]
    best = min(given, key=lambda answer: (answer.kind, answer.cost), default=None)
    return [_row(problem, objective, answer, best, worst) for answer in listed]


def _row(
    problem: str, objective: str, answer: ProblemAnswer, best: ProblemAnswer | None, worst: float | None
) -> ValidationRow:
    row = ValidationRow(
        scenario=problem,
        optimizer=answer.optimizer,
        cost_model=answer.cost_model,
        objective=objective,
        status=REFUSED if answer.refusal else "feasible",
        message=answer.refusal,
    )
    if answer.refusal or best is None:
        return row
    return replace(
        row,
        predicted=answer.predicted,
        simulated=answer.cost,
        best=best.cost,
        regret=_regret(answer, best, worst),
        backpressured=answer.kind == 1,
        success=answer.kind < 2,
        plan_s=answer.plan_s,
    )


def _regret(answer: ProblemAnswer, best: ProblemAnswer, worst: float | None) -> float:
    if answer.kind != best.kind or not math.isfinite(answer.cost):
        return 0.0 if answer is best else math.inf
    gained = best.cost if worst is None else worst - best.cost
    return 0.0 if answer.cost == best.cost else (answer.cost - best.cost) / gained if gained > 0.0 else math.inf


def hosts(family: str, number: int, request: BenchmarkRequest) -> Sequence[ValidationRow]:
    """Judges optimizers by the price of their hosts, provided that the plan bears the rate with head room in the
    simulator. Optimizers that need a cost model get the rate model."""
    job = FAMILIES[family].member(number)
    return rows(job.name, PRICE, _rented(job, request))


def _rented(job: Scenario, request: BenchmarkRequest) -> Iterator[ProblemAnswer]:
    problem = Problem(
        scenario=job,
        cost_model=RateModel(),
        seed=request.seed,
        budget=request.budget,
        seconds=request.seconds,
        requirements=Requirements(head_room=HEAD_ROOM),
    )
    for optimizer in planner.optimizers(request.optimizers or RENTING):
        model = "-" if optimizer.name in {*BASELINES, planner.GIVEN} else "rates"
        try:
            solution = optimizer.solve(problem)
            if not isinstance(solution, Solution):
                raise BadInput(f"solve returned {type(solution).__name__}, not a Solution")
            kind = _kind(job, solution.plan, request)
        except Exception as error:  # users' own optimizers may raise anything
            yield ProblemAnswer(optimizer.name, model, refusal=raised(error))
            continue
        yield ProblemAnswer(optimizer.name, model, price_of(job, solution.plan, {}), kind, solution.seconds)


def _kind(job: Scenario, plan: ExecutionPlan, request: BenchmarkRequest) -> int:
    """Kind of a plan at the rate with head room: 0 if it keeps up, 1 if it is backpressured, 2 if it fails."""
    ahead = at_rate(job.with_plan(plan), 1.0 + HEAD_ROOM).with_run(seed=request.seed)
    return PlanOutcome.of(replicate(simulate, ahead, request.replications), "processing_latency_s").rank[0]


def balances(family: str, number: int, request: BenchmarkRequest) -> Sequence[ValidationRow]:
    """Judges solvers by the load distance that they leave, as they compute it. Regret: share of the possible gain."""
    del request
    balance = unbalanced(MEMBERS[family].seeds[number])
    before = balance.distance(balance.home_g)
    return rows(f"{family}-{number + 1}", DISTANCE, _balanced(balance, before), worst=before)


def _balanced(balance: Balance, before: float) -> Iterator[ProblemAnswer]:
    for name, solver in SOLVERS.items():
        started_s = time.perf_counter()
        assignment = solver.solve(balance)
        took_s = time.perf_counter() - started_s
        kind = OVER_BUDGET if assignment.cost > balance.budget * (1 + 1e-9) else 0
        yield ProblemAnswer(name, "-", assignment.distance, kind, took_s, assignment.distance)
    yield ProblemAnswer("as-given", "-", before)


def policies(family: str, number: int, request: BenchmarkRequest) -> Sequence[ValidationRow]:
    """Judges policies that can control the job, and none, by mean end-to-end latency on the same random numbers.

    The price of subtasks is not judged; `twin compare-policies` shows it.
    """
    job = changing(MEMBERS[family].seeds[number]).with_run(seed=request.seed)
    return rows(f"{family}-{number + 1}", LATENCY, _controlled(job, request.replications))


def _controlled(job: Scenario, replications: int) -> Iterator[ProblemAnswer]:
    for name in (NO_POLICY, *POLICIES):
        try:
            spec = None if name == NO_POLICY else policy_spec(name)
            if spec is not None:
                spec.start(job)
        except ValueError as refusal:
            yield ProblemAnswer(name, "-", refusal=str(refusal))
            continue
        outcome = PlanOutcome.of(replicate(simulate, job.with_policy(spec), replications), LATENCY)
        kind = outcome.rank[0] if np.isfinite(outcome.mean) else 2
        yield ProblemAnswer(name, "-", outcome.mean, kind)


JUDGES: Mapping[str, Callable[[str, int, BenchmarkRequest], Sequence[ValidationRow]]] = {
    "placement": placements,
    "hosts": hosts,
    "balance": balances,
    "policy": policies,
}
"""Judges by kind of problem, as `asks` of a family names it."""


BUDGET = 300
"""Default number of plans that a cost model may estimate for a problem of the suite."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchmarkRequest:
    """Request to the suite. optimizers: names, separated by commas; None: the usual ones of each kind of problem.
    cost_models, budget, seconds: for optimizers that place operators. replications: simulated runs of each
    chosen plan. references: number of other plans that are simulated for comparison."""

    optimizers: str | None
    cost_models: str
    budget: int = BUDGET
    seconds: float | None = None
    replications: int = 3
    references: int = 30
    seed: int = 0


@CLOSED
@dataclass(frozen=True, slots=True, kw_only=True)
class SuiteJudged(BenchmarkRequest):
    """The answer of `twin benchmark`. suite: its version. most: number of problems of each family; null: all of them.
    standings: over all families that ask for placements."""

    suite: int
    families: tuple[str, ...]
    most: int | None
    standings: tuple[Standing, ...]
    by_family: Mapping[str, tuple[Standing, ...]]
    rows: tuple[ValidationRow, ...]


# problems in turn, or several at a time ------------------------------------------------------------------------------
# Judges problems of the suite, one by one or several at a time. Judged problems are kept and not judged again.


FOLDER = "problems"


@dataclass(frozen=True, slots=True)
class Piece:
    """One problem: a member of a family, by its number from 0."""

    family: str
    number: int

    @property
    def file(self) -> str:
        """Name of the file in which the problem's judged_rows are kept."""
        return f"{self.family}-{self.number + 1}.json"


def pieces(families: Sequence[str], most: int | None) -> list[Piece]:
    """The first `most` problems of each family, or all of them."""
    return [Piece(name, number) for name in families for number in range(len(MEMBERS[name].seeds[:most]))]


def judged_rows(
    wanted: Sequence[Piece], request: BenchmarkRequest, folder: Path | None, executor: Executor, report: Progress
) -> dict[str, list[ValidationRow]]:
    """Rows of each family, in order. folder: holds the judged_rows of judged problems. Raises as the judges do."""
    known = {piece: _kept(folder, piece) for piece in wanted}
    judged = {piece: listed for piece, listed in known.items() if listed is not None}
    report(len(judged), len(wanted))
    missing = [piece for piece in wanted if piece not in judged]

    def done(position: int, made: list[ValidationRow]) -> None:
        piece = missing[position]
        judged[piece] = made
        if folder is not None:
            write_text(folder / FOLDER / piece.file, stamped({"rows": [asdict(row) for row in made]}) + "\n")
        report(len(judged), len(wanted))

    executor.each(partial(judge, request=request), missing, done)
    by_family: dict[str, list[ValidationRow]] = {}
    for piece in wanted:
        by_family.setdefault(piece.family, []).extend(judged[piece])
    return by_family


def judge(piece: Piece, request: BenchmarkRequest) -> list[ValidationRow]:
    """Rows of one problem, one for each answer."""
    return list(JUDGES[MEMBERS[piece.family].asks](piece.family, piece.number, request))


def _kept(folder: Path | None, piece: Piece) -> list[ValidationRow] | None:
    path = None if folder is None else folder / FOLDER / piece.file
    if path is None or not path.exists():
        return None
    try:
        return [ValidationRow(**row) for row in unstamped(path.read_text(encoding="utf-8"))["rows"]]
    except (ValueError, KeyError, TypeError):
        raise BadInput(f"{path} is damaged; remove it, and give the same command again") from None
