"""Loop of `twin demo`: simulate, learn, plan, prove, on one job, small enough for a coffee break.

The job is the library's machine-stop over boxes, a plant's server and a cloud. Its cost model is trained on variations
of that same job (plan, rates and hardware), so it knows this family of jobs and no other.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from scenarios import learning
from scenarios.executing import Audience
from scenarios.files import scenario_file
from streamtwin.demo.story import PREDICTED, PROMISE, SCENARIO, Story, tell
from streamtwin.tables import tables
from twin.run import Run
from twin.scenario import Scenario
from twin.simulation import simulate

if TYPE_CHECKING:
    from models.dataset import Dataset
    from models.prediction import LearnedCostModel
    from scenarios.learning import EvaluationTable


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Size of the demo. runs: to learn from. estimates: number of plans that a cost model may estimate. search_runs: of
    the search by runs. replications: runs by which each plan is judged."""

    seed: int = 0
    runs: int = 500
    members: int = 3
    patience: int = 10
    estimates: int = 1000
    search_runs: int = 40
    replications: int = 10
    master: str = "local[*]"


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoOutcome:
    """Results of the demo, with everything that the report shows. given, best: a run of the given plan, and of the
    best one. seconds: wall time of each stage."""

    settings: Settings
    story: Story
    given: Run
    best: Run
    training_rows: int
    accuracy: EvaluationTable
    predictions: dict[str, list[Any]]
    curve: dict[str, list[Any]]
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
    say("1/5 simulating the plan as given: what the sensors measure goes to the cloud")
    given = simulate(scenario)
    age = given.metrics.e2e_latency_s
    say(f"    99 of 100 stops arrive within {tables.seconds(age.p99 if age else None)}; the promise is {PROMISE}")
    clock.stop("plan as given")
    training_data(scenario, out, settings, audience)
    clock.stop("corpus and dataset (Spark)")

    say(f"4/5 training {settings.members} graph neural networks on them")
    model, dataset, curve = train(out, settings, audience)
    clock.stop("training")
    accuracy = learning.evaluate(model, dataset, every_row=False, seed=settings.seed)
    clock.stop("evaluation")
    say(f"5/5 planning in each way, and judging each plan by {settings.replications} runs")
    story = tell(
        scenario,
        model,
        estimates=settings.estimates,
        runs=settings.search_runs,
        replications=settings.replications,
        seed=settings.seed,
        say=say,
    )
    clock.stop("planning and proof")
    return DemoOutcome(
        settings=settings,
        story=story,
        given=given,
        best=simulate(scenario.with_plan(story.best_plan)),
        training_rows=len(dataset),
        accuracy=accuracy,
        predictions=learning.predictions(model, dataset, PREDICTED),
        curve=curve,
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

    rows = datasets.read(out / "dataset")
    parts = datasets.split(rows, settings.seed)
    network = OURS.model_copy(update={"members": settings.members, "patience": settings.patience})
    wanted = datasets.learnable(rows, parts.train)
    with audience.progress("steps at most") as report:
        told = learning.steps(learning.networks(network, wanted), report)
        ensembles = train_ensembles(rows, parts, network, settings.seed, wanted, told)
    held = {"rows kept apart": learning.kept_apart(rows, parts.test)}
    about = {"dataset": "dataset", "preset": "ours"}
    learning.write_model(ensembles, out / "model", learning.card_of(ensembles, held, "model", about))
    return prediction.load(out / "model"), rows, learning.learning_curve(ensembles)
