"""Which hosts are rented: their price, if the plan on them bears the rate with head room in the simulator."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from optimizers.interface import Problem, Solution
from optimizers.registry import BASELINES
from optimizers.requirements import Requirements, at_rate, price_of
from scenarios.benchmarking.answers import Answer, rows
from scenarios.benchmarking.request import Request
from scenarios.planning import planner
from scenarios.planning.outcomes import Outcome
from scenarios.planning.simulated_cost import replicate
from scenarios.planning.validation import ValidationRow
from scenarios.suite.registry import FAMILIES
from twin.errors import BadInput
from twin.plan import ExecutionPlan
from twin.rates.model import RateModel
from twin.scenario import Scenario
from twin.simulation import simulate

USUAL = "milp-hosts,local-search,first-fit,round-robin,spread,as-given"
HEAD_ROOM = 0.2


def judged(family: str, number: int, request: Request) -> Sequence[ValidationRow]:
    """Of the member of that number, from 0. All ask the rate model."""
    job = FAMILIES[family].member(number)
    return rows(job.name, "price", _answers(job, request))


def _answers(job: Scenario, request: Request) -> Iterator[Answer]:
    problem = Problem(
        scenario=job,
        cost_model=RateModel(),
        seed=request.seed,
        budget=request.budget,
        seconds=request.seconds,
        requirements=Requirements(head_room=HEAD_ROOM),
    )
    for optimizer in planner.optimizers(request.optimizers or USUAL):
        model = "-" if optimizer.name in {*BASELINES, planner.GIVEN} else "rates"
        try:
            found = optimizer.solve(problem)
            if not isinstance(found, Solution):
                raise BadInput(f"solve returned {type(found).__name__}, not a Solution")
            kind = _kind(job, found.plan, request)
        except Exception as error:  # an optimizer of others does what it likes
            yield Answer(optimizer.name, model, refusal=f"{type(error).__name__}: {error}")
            continue
        yield Answer(optimizer.name, model, price_of(job, found.plan, {}), kind, found.seconds)


def _kind(job: Scenario, plan: ExecutionPlan, request: Request) -> int:
    """At the rate with head room: 0 if the plan bears it, 1 if it is backpressured, 2 if it fails."""
    ahead = at_rate(job.with_plan(plan), 1.0 + HEAD_ROOM).with_run(seed=request.seed)
    return Outcome.of(replicate(simulate, ahead, request.replications), "processing_latency_s").rank[0]
