"""Rounds of active learning: the model chooses plans to simulate, and is fine-tuned on all runs so far; then again.

Each fine-tuning starts from the model as given, so that the result depends on the runs and not on their order. An
interrupted command goes on where it was: the bench keeps finished runs, and `folder` finished models.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from models.checkpoint import Ensemble, read_all, save
from models.dataset import Dataset, RowSplit, of_deployments, split
from models.pipeline import FineTuning, fine_tune, rehearsing
from models.prediction import LearnedCostModel
from scenarios.executing.progress import Audience
from scenarios.improving.choosing import STRATEGIES
from scenarios.improving.pool import JobPool
from scenarios.improving.test_set import seen
from scenarios.learning.learner import steps
from scenarios.questions.bench import Bench
from scenarios.questions.kept import RunOutcome
from twin.atomic import new_folder
from twin.errors import BadInput
from twin.metrics import METRICS, REGRESSION_METRICS
from twin.randomness import child_seed, random_stream
from twin.scenario import Scenario, config_hash

VALID = 0.2
"""Share of the new rows that validate: they stop the training, and fit the gates."""
STEPS, PER_STEP = 400, 128
"""Least number of steps of a fine-tuning that validation does not stop, and rows of each step."""


@dataclass(frozen=True, slots=True)
class LearningPlan:
    """Sizes of the rounds. jobs: new jobs a round. each: runs of each of these. pool: plans of a job to choose from.
    rehearsed: rows that the model was trained on; as many of these as of new rows are mixed in."""

    jobs: int
    each: int
    pool: int
    seed: int
    rehearsed: tuple[Dataset, RowSplit] | None = None


@dataclass(frozen=True, slots=True)
class LearningRound:
    """Model after a round. number: 0 is the model as given. runs: number of runs that it learned from."""

    number: int
    runs: int
    model: LearnedCostModel


def rounds(
    start: LearnedCostModel,
    pool: JobPool,
    strategy: str,
    count: int,
    how: LearningPlan,
    bench: Bench,
    folder: Path,
    audience: Audience,
) -> Iterator[LearningRound]:
    """Yields the model as given, and after each of `count` rounds. Raises BadInput as the model's `predict`, and if the
    runs teach nothing."""
    model, learned, outcomes = start, list[Scenario](), list[RunOutcome]()
    yield LearningRound(0, 0, start)
    for number in range(1, count + 1):
        chosen = list(_chosen(model, pool, strategy, number, how))
        with audience.progress(f"runs of round {number}, {strategy}") as report:
            outcomes += bench.outcomes([(job, how.seed) for job in chosen], report)
        learned += chosen
        model = _improved(start, learned, outcomes, how, folder / f"{strategy}-{number}", audience)
        yield LearningRound(number, len(learned), model)


def _chosen(
    model: LearnedCostModel, pool: JobPool, strategy: str, number: int, how: LearningPlan
) -> Iterator[Scenario]:
    """Scenarios of each new job, under the plans that the strategy chooses."""
    for index in range((number - 1) * how.jobs, number * how.jobs):
        job, seed = pool.teaching(index), child_seed(how.seed, index)
        plans = pool.plans(job, seed, how.pool)
        order, spread, _ = seen(model, job, plans)
        rows = STRATEGIES[strategy](spread, order, random_stream(seed, "strategy"), how.each)
        yield from (job.with_plan(plans[row]) for row in rows)


def rows_of(jobs: Sequence[Scenario], outcomes: Sequence[RunOutcome]) -> Dataset:
    """Dataset of runs; latencies and rates are labels only of runs that succeeded."""
    labels = np.array([[_label(outcome, metric) for metric in METRICS] for outcome in outcomes])
    failed = labels[:, METRICS.index("success")] == 0
    columns = [METRICS.index(metric) for metric in REGRESSION_METRICS]
    labels[np.ix_(failed, columns)] = np.nan
    return of_deployments(jobs, labels, [config_hash(job) for job in jobs])


def _label(outcome: RunOutcome, metric: str) -> float:
    return outcome.measures.get(metric, outcome.measures.get(f"{metric}.mean", np.nan))


def _improved(
    start: LearnedCostModel,
    jobs: Sequence[Scenario],
    outcomes: Sequence[RunOutcome],
    how: LearningPlan,
    folder: Path,
    audience: Audience,
) -> LearnedCostModel:
    if folder.is_dir():
        try:
            return LearnedCostModel(folder.name, read_all(folder))
        except BadInput as error:
            audience.stage(f"learning again: {error}")
    rows = rows_of(jobs, outcomes)
    parts = split(rows, how.seed, valid=VALID, test=0.0)
    if how.rehearsed is not None:
        rows, parts = rehearsing(rows, parts, *how.rehearsed, how.seed)
    with audience.progress(f"steps at most of learning from {len(jobs)} runs") as report:
        told = steps({ensemble.name: len(ensemble.members) for ensemble in start.ensembles}, report)
        ensembles = fine_tune(start.ensembles, rows, parts, _pace(len(parts.train)), how.seed, told)
    _write(ensembles, folder)
    return LearnedCostModel(folder.name, ensembles)


def _pace(rows: int) -> FineTuning:
    """Fine-tuning with as many passes over the rows as make STEPS."""
    return FineTuning(epochs=max(FineTuning().epochs, -(-STEPS * PER_STEP // max(rows, PER_STEP))))


def _write(ensembles: Sequence[Ensemble], folder: Path) -> None:
    folder.parent.mkdir(parents=True, exist_ok=True)
    with new_folder(folder, replacing=True) as aside:
        for ensemble in ensembles:
            save(ensemble, aside)
