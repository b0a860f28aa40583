"""Regret of plans chosen by a model that learned from fewer runs, or on other hardware than it is asked about.

Models are trained on parts of the main corpus, and choose among plans of jobs that none of them saw; all plans are
simulated. The jobs are the first members of the suite's families with one to three sources; their hosts are drawn from
all of the corpus's ranges.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from papers.interface import CaseTable, Experiment, Row, lines
from papers.running import kept
from papers.workspace import RowFilter, Sizes, Within, Workspace, main_corpus
from scenarios.suite import FAMILIES
from twin.metrics import METRICS

if TYPE_CHECKING:
    from models.dataset import Dataset
    from scenarios.improving import JudgingJob
    from twin.metrics import CostModel

JUDGES = ("edge-linear", "edge-2-way", "edge-3-way")
PLANS = 30
"""Number of simulated plans of each job."""
RANGES: Mapping[RowFilter, str] = {
    Within("cpu_percent", 50, 300): "hosts of half a core to 3",
    Within("cpu_percent", 300, 800): "hosts of 3 to 8 cores",
    Within("bandwidth_mbps", 25, 300): "hosts with 25 to 300 Mbit/s",
}
"""Words for each filter of the training rows, for the table."""
CONTESTANTS = ("paper", "ours")


@dataclass(frozen=True, slots=True)
class FirstShare:
    """Filter for rows whose configuration's hash is in the first part of all hashes, whatever other rows there are."""

    share: float

    @property
    def name(self) -> str:
        """Name such as `share-0.05`."""
        return f"share-{self.share:g}"

    @property
    def words(self) -> str:
        """Words for the table."""
        return f"{self.share:.0%} of them"

    def mask(self, dataset: Dataset) -> np.ndarray:
        """Whether each row belongs. [G]"""
        return np.array([int(each[:8], 16) < self.share * 2**32 for each in dataset.config_hash])


SHARES = tuple(map(FirstShare, (0.1, 0.2, 0.5)))
"""Shares of the corpus that models learn from, by configuration."""


def judged_models(workspace: Workspace) -> Iterator[Row]:
    """Rows of models, judged on at most `sizes.queries` jobs a family. Ensembles are as small as for one evaluation."""
    from scenarios.improving import RoundRow
    from twin.rates.model import RateModel

    questions = list(_questions(workspace))
    for name, words, runs, model in _models(workspace, workspace.sizes):
        found = RoundRow.of(name, 0, runs, [question.judged(model) for question in questions])
        yield {**found.shown, "model": name, "learned": words}
    alone = RoundRow.of("rates", 0, 0, [question.judged(RateModel()) for question in questions])
    yield {**alone.shown, "model": "rate model", "learned": "nothing", "runs": None}


def _models(workspace: Workspace, sizes: Sizes) -> Iterator[tuple[str, str, int, CostModel]]:
    """Yields name, words for the training runs, their number, and the model."""
    from models.prediction import LearnedCostModel
    from papers.costream import planners
    from papers.costream.planners import NEEDED, ensembles

    recipe = main_corpus(sizes, workspace.seed)
    parts: dict[RowFilter | None, str] = {share: share.words for share in SHARES}
    parts[None] = ALL_RUNS
    parts.update(RANGES.items())
    for key, contestant in zip(CONTESTANTS, planners.anew(sizes, *CONTESTANTS), strict=True):
        for part, words in parts.items():
            split = workspace.split(recipe, part)
            metrics = NEEDED if key == "paper" else METRICS  # one network a metric, of which a choice needs three
            fitted = workspace.fitted(contestant, recipe, part, metrics)
            model = LearnedCostModel(contestant.name, ensembles(fitted)).only(NEEDED)
            yield contestant.name, words, len(split.train) + len(split.valid), model


def _questions(workspace: Workspace) -> Iterator[JudgingJob]:
    """Yields every job with its plans and their outcomes, simulated now or earlier."""
    from scenarios.improving import JudgingJob, job_pool
    from scenarios.questions.kept import RunOutcome

    asked = jobs(workspace.sizes)
    cases = [{"family": name, "number": number, "plans": PLANS} for name, number in asked]
    for (name, number), outcomes in zip(asked, kept(workspace, "exam", judged, cases), strict=True):
        where = job_pool(name, 0)
        job = where.judging(number)
        yield JudgingJob(job, where.plans(job, workspace.seed, PLANS), [RunOutcome(_finite(each)) for each in outcomes])


def judged(family: str, number: int, plans: int, seed: int) -> Sequence[Mapping[str, float | None]]:
    """Outcomes of each plan of one job, as JSON values: None for a latency where nothing arrived."""
    from scenarios.improving import MEAN, job_pool
    from scenarios.questions.bench import outcome

    where = job_pool(family, 0)
    job = where.judging(number)
    found = [outcome(job.with_plan(plan), seed).measures for plan in where.plans(job, seed, plans)]
    return [
        {key: each[key] if np.isfinite(each[key]) else None for key in (MEAN, "backpressured", "success")}
        for each in found
    ]


def _finite(measures: Mapping[str, float | None]) -> dict[str, float]:
    return {name: np.inf if value is None else value for name, value in measures.items()}


def jobs(sizes: Sizes) -> list[tuple[str, int]]:
    """Jobs that plans are chosen for: (family, number)."""
    return [(name, number) for name in JUDGES for number in range(len(FAMILIES[name].seeds[: sizes.queries]))]


ALL_RUNS = "all runs"
BY_SHARE = {"learned": [*(share.words for share in SHARES), ALL_RUNS]}

TRAINING = Experiment(
    name="driving.training",
    source="a what-if of ours",
    summary="regret of the plans that a model chooses, by how many runs it learned from and on which hardware",
    tables={
        "training": CaseTable(
            title=lambda workspace: (
                f"Simulated regret of what models choose among {PLANS} plans of each of "
                f"{len(jobs(workspace.sizes))} jobs"
            ),
            columns="""
                model | learned: learned from | runs | regret_words: regret, mean | regret_median: median |
                spoilt: worse kind | error_median: q-error of Lp, median | error_p95: 95 %
            """,
            measure=judged_models,
        )
    },
    figures={
        name: lines(
            "simulated runs learned from", vertical, x="runs", y=of, series="model", only=BY_SHARE, factor=factor
        )
        for name, of, factor, vertical in (
            ("training", "regret", 100.0, "mean regret (%)"),
            ("errors", "error_median", 1.0, "median q-error of Lp"),
        )
    },
    notes="""
- Regret is to the best simulated plan of each job; a plan of a worse kind (backpressured or failing, where another is
  not) counts as ten times the best.
""",
    recipes=lambda sizes, seed: [main_corpus(sizes, seed)],
)
