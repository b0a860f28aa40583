"""Loop of `twin demo`: simulate, learn, plan, prove, on one query, small enough for a coffee break.

The query is the library's smart-grid over edge, fog and cloud hosts. Its cost model is trained on variations of that
same query (plan, rates and hardware), so it knows this family of jobs and no other.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from optimizers.planner.loads import LOADS, MEAN, loads_of, rates_at
from optimizers.searching import Budget
from scenarios import learning
from scenarios.executing import Audience
from scenarios.files import scenario_file
from scenarios.planning import planner, validation
from scenarios.planning.searching import BySearch
from twin.plan import ExecutionPlan
from twin.rates.model import RateModel
from twin.run import Run
from twin.scenario import Scenario
from twin.simulation import simulate

if TYPE_CHECKING:
    from models.dataset import Dataset
    from models.prediction import LearnedCostModel
    from scenarios.learning import EvaluationTable

SCENARIO = "smart-grid"
OBJECTIVE = "e2e_latency_s"


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Size of the demo. budget: number of plans that a cost model may estimate; sim_budget: runs of the
    search by runs."""

    seed: int = 0
    runs: int = 500
    members: int = 3
    patience: int = 10
    budget: int = 1000
    sim_budget: int = 40
    replications: int = 5
    references: int = 10
    master: str = "local[*]"


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoOutcome:
    """Results of the demo, with everything that the report shows. seconds: wall time of each stage."""

    settings: Settings
    scenario: Scenario
    naive: Run
    learned: Run
    training_rows: int
    accuracy: EvaluationTable
    predictions: dict[str, list[Any]]
    curve: dict[str, list[Any]]
    rows: Sequence[validation.ValidationRow]
    seconds: dict[str, float]


class Stopwatch:
    """Stopwatch of wall time (s) by stage."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self._last_s = time.monotonic()

    def stop(self, stage: str) -> None:
        """Adds the time since the last stop to a stage."""
        now_s = time.monotonic()
        self.seconds[stage] = self.seconds.get(stage, 0.0) + now_s - self._last_s
        self._last_s = now_s


def play(out: Path, settings: Settings, audience: Audience) -> DemoOutcome:
    """Runs the loop; leaves corpus, dataset and model in `out`, which must hold none of the latter two."""
    clock, say = Stopwatch(), audience.stage
    scenario = scenario_file.load(SCENARIO)
    say("1/5 simulating the naive plan: every operator on the small box beside the meters")
    naive = simulate(scenario)
    say(f"    {_in_words(naive)}")
    clock.stop("naive plan")
    training_data(scenario, out, settings, audience)
    clock.stop("corpus and dataset (Spark)")

    say(f"4/5 training {settings.members} graph neural networks on them")
    model, dataset, curve = train(out, settings, audience)
    clock.stop("training")
    accuracy = learning.evaluate(model, dataset, every_row=False, seed=settings.seed)
    clock.stop("evaluation")
    say("5/5 planning with each optimizer, and simulating every plan")
    rows = prove(scenario, model, settings)
    clock.stop("planning and proof")
    return DemoOutcome(
        settings=settings,
        scenario=scenario,
        naive=naive,
        learned=simulate(scenario.with_plan(learned_plan(rows))),
        training_rows=len(dataset),
        accuracy=accuracy,
        predictions=learning.predictions(model, dataset, OBJECTIVE),
        curve=curve,
        rows=rows,
        seconds=clock.seconds,
    )


def training_data(scenario: Scenario, out: Path, settings: Settings, audience: Audience) -> None:
    """Writes OUT/corpus (or completes it) and OUT/dataset."""
    from spark.corpus import write_corpus
    from spark.pipeline import write_dataset
    from spark.session import session

    say = audience.stage
    say("2/5 starting Spark")
    make, spec = learning.around(scenario, runs=settings.runs, seed=settings.seed)
    with session(settings.master) as spark:
        say(f"    simulating {settings.runs} variations: plan, rates and hardware drawn anew for each")
        with audience.progress("runs") as report:
            write_corpus(spark, out / "corpus", spec, make, simulate, progress=report)
        say("3/5 aggregating the traces to training rows")
        write_dataset(spark, [out / "corpus"], out / "dataset")


def train(out: Path, settings: Settings, audience: Audience) -> tuple[LearnedCostModel, Dataset, dict[str, list[Any]]]:
    """Writes OUT/model; returns the model with the rows that it was trained on, and its learning curve."""
    from models import dataset as datasets
    from models import prediction
    from models.pipeline import train as train_ensembles
    from models.settings import OURS
    from scenarios import learning
    from twin.metrics import METRICS

    rows = datasets.read(out / "dataset")
    parts = datasets.split(rows, settings.seed)
    network = OURS.model_copy(update={"members": settings.members, "patience": settings.patience})
    with audience.progress("steps at most; training stops early") as report:
        ensembles = train_ensembles(
            rows, parts, network, settings.seed, progress=learning.steps(learning.networks(network, METRICS), report)
        )
    learning.write_model(ensembles, out / "model")
    return prediction.load(out / "model"), rows, learning.learning_curve(ensembles)


def prove(scenario: Scenario, model: LearnedCostModel, settings: Settings) -> list[validation.ValidationRow]:
    """Simulates every plan: the given one, a random one, a heuristic's, and the best by three cost models, of which the
    rate model is asked about each load."""
    rates = RateModel()
    given, random, governor, search = planner.optimizers("as-given,random,governor,local-search")
    rivals = [
        planner.WithCostModel("naive (as in the file)", given, rates, 1),
        planner.WithCostModel("random plan", random, rates, 1),
        planner.WithCostModel("heuristic (governor)", governor, rates, 1),
        *(
            planner.WithCostModel(rates_words(load), search, rates_at(load), settings.budget)
            for load in loads_of(scenario)
        ),
        planner.WithCostModel("search, learned model", search, model, settings.budget),
        planner.WithCostModel(
            f"search by {settings.sim_budget} runs", BySearch(Budget(runs=settings.sim_budget)), model, settings.budget
        ),
    ]
    rows = validation.validate(
        [scenario],
        rivals,
        [rates],
        simulate,
        settings.replications,
        settings.seed,
        objective=OBJECTIVE,
        references=settings.references,
    )
    return [replace(row, cost_model=rival.cost_model.name) for row, rival in zip(rows, rivals, strict=True)]


def rates_words(load: str) -> str:
    """Words for the search by the rate model under a load."""
    return "search, rate model" + ("" if load == MEAN else f" for {LOADS[load].words}")


def learned_plan(rows: Sequence[validation.ValidationRow]) -> ExecutionPlan:
    """Plan of the search by the learned model."""
    chosen = next(row for row in rows if "learned" in row.optimizer)
    return ExecutionPlan.model_validate({"placement": chosen.plan})


def _in_words(run: Run) -> str:
    metrics = run.metrics
    late = metrics.e2e_latency_s.mean if metrics.e2e_latency_s else float("nan")
    return f"it leaves {metrics.backpressure_per_s:,.0f} readings a second unread; a result is {late:.1f} s old"
