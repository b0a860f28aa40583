"""Where operators run: optimizers by cost models, judged by simulated latency."""

from __future__ import annotations

from collections.abc import Sequence

from scenarios.benchmarking.request import Request
from scenarios.planning import planner
from scenarios.planning.cost_models import cost_models
from scenarios.planning.remembered import Remembered
from scenarios.planning.validation import ValidationRow, validate
from scenarios.suite.registry import FAMILIES
from twin.simulation import simulate

USUAL = "milp,branch-and-bound,local-search,costream,exhaustive,governor,first-fit,spread,random,as-given"


def judged(family: str, number: int, request: Request) -> Sequence[ValidationRow]:
    """Of the member of that number, from 0. A run is made once, and its time counts for each that asks for it."""
    made = FAMILIES[family]
    run = simulate if request.seconds is not None else Remembered(simulate)
    return validate(
        [made.member(number)],
        planner.optimizers(request.optimizers or USUAL),
        list(cost_models(request.cost_models).values()),
        run,
        request.replications,
        request.seed,
        budget=request.budget,
        references=request.references,
        space=made.space,
        seconds=request.seconds,
        lead=lambda optimizer, model: planner.led(
            optimizer, model, planner.fitting(request.drive, model), request.seed, 0, run
        ),
        racing=True,
    )
