"""How good are the plans of a model that learned from fewer runs, or on other hardware than it is asked about?

Models are trained on parts of the main corpus, and choose among plans of jobs that none of them saw, all of which are
simulated. The jobs are the first members of the suite's families with one to three sources; their hosts are drawn from
all of the corpus's ranges.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from papers.interface import Experiment, Result, Table
from papers.parallel import Piece, kept
from papers.recipes import main_corpus
from papers.rows import RowFilter, Within
from papers.sizes import Sizes
from papers.workspace import Workspace
from scenarios.suite.registry import FAMILIES
from twin.metrics import METRICS

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from models.dataset import Dataset
    from scenarios.improving.test_set import JudgingJob
    from twin.metrics import CostModel

JUDGES = ("edge-linear", "edge-2-way", "edge-3-way")
PLANS = 30
"""Simulated, of each job."""
RANGES: Mapping[RowFilter, str] = {
    Within("cpu_percent", 50, 300): "hosts of half a core to 3",
    Within("cpu_percent", 300, 800): "hosts of 3 to 8 cores",
    Within("bandwidth_mbps", 25, 300): "hosts with 25 to 300 Mbit/s",
}
"""In words, for the table."""
CONTESTANTS = ("paper", "ours")
COLUMNS: Mapping[str, str] = {
    "model": "model",
    "learned": "learned from",
    "runs": "runs",
    "regret_words": "regret, mean",
    "regret_median": "median",
    "spoilt": "worse kind",
    "error_median": "q-error of Lp, median",
    "error_p95": "95 %",
}
NOTES = (
    (
        "Regret is to the best simulated plan of each job; a plan of a worse kind (backpressured or failing, where "
        "another is not) counts as ten times the best."
    ),
)


@dataclass(frozen=True, slots=True)
class FirstShare:
    """Rows whose configuration's hash is in the first part of all hashes: the same ones, whatever else is there."""

    share: float

    @property
    def name(self) -> str:
        """Such as `share-0.05`."""
        return f"share-{self.share:g}"

    def mask(self, dataset: Dataset) -> np.ndarray:
        """[G] whether a row belongs."""
        return np.array([int(each[:8], 16) < self.share * 2**32 for each in dataset.config_hash])


SHARES = tuple(map(FirstShare, (0.1, 0.2, 0.5)))
"""Of the corpus, by configuration; and all of it."""


def run(workspace: Workspace, sizes: Sizes) -> Result:
    """`sizes.queries` jobs a family at most. Networks are as many as where a model is trained for one evaluation."""
    from figures.lines import lines
    from scenarios.improving.history import RoundRow
    from twin.rates.model import RateModel

    questions = list(_questions(workspace, sizes))
    rows: list[dict[str, Any]] = []
    for name, words, runs, model in _models(workspace, sizes):
        found = RoundRow.of(name, 0, runs, [each.judged(model) for each in questions])
        rows.append({**found.shown, "model": name, "learned": words})
    alone = RoundRow.of("rates", 0, 0, [each.judged(RateModel()) for each in questions])
    rows.append({**alone.shown, "model": "rate model", "learned": "nothing", "runs": None})
    by_share = [row for row in rows if row["runs"] is not None and "hosts" not in row["learned"]]

    def figure(of: str, factor: float, vertical: str) -> Figure:
        table = {
            "series": [row["model"] for row in by_share],
            "x": [row["runs"] for row in by_share],
            "y": [factor * row[of] for row in by_share],
        }
        return lines(table, "simulated runs learned from", vertical)

    title = f"Simulated regret of what models choose among {PLANS} plans of each of {len(questions)} jobs"
    figures = {
        "training": partial(figure, "regret", 100.0, "mean regret (%)"),
        "errors": partial(figure, "error_median", 1.0, "median q-error of Lp"),
    }
    return Result({"training": Table(title, COLUMNS, tuple(rows))}, figures=figures, notes=NOTES)


def _models(workspace: Workspace, sizes: Sizes) -> Iterator[tuple[str, str, int, CostModel]]:
    """Name, what it learned from, how many runs those are, and the model."""
    from models.prediction import LearnedCostModel
    from papers.costream import rivals
    from papers.costream.planners import NEEDED, ensembles

    recipe = main_corpus(sizes, workspace.seed)
    parts: dict[RowFilter | None, str] = {each: f"{each.share:.0%} of them" for each in SHARES}
    parts[None] = "all runs"
    parts.update(RANGES.items())
    for key, contestant in zip(CONTESTANTS, rivals.anew(sizes, *CONTESTANTS), strict=True):
        for part, words in parts.items():
            split = workspace.split(recipe, part)
            metrics = NEEDED if key == "paper" else METRICS  # of a network a metric, a choice needs three
            fitted = workspace.fitted(contestant, recipe, part, metrics)
            model = LearnedCostModel(contestant.name, ensembles(fitted)).only(NEEDED)
            yield contestant.name, words, len(split.train) + len(split.valid), model


def _questions(workspace: Workspace, sizes: Sizes) -> Iterator[JudgingJob]:
    """Every job's plans, simulated now or earlier."""
    from scenarios.improving.pool import job_pool
    from scenarios.improving.test_set import JudgingJob
    from scenarios.questions.kept import Outcome

    asked = [(name, number) for name in JUDGES for number in range(len(FAMILIES[name].seeds[: sizes.queries]))]
    keys = [{"family": name, "number": number, "plans": PLANS} for name, number in asked]
    pieces = [
        Piece(key, partial(_arguments, name, number, workspace.seed))
        for key, (name, number) in zip(keys, asked, strict=True)
    ]
    for (name, number), outcomes in zip(asked, kept(workspace, "exam", judged, pieces), strict=True):
        where = job_pool(name, 0)
        job = where.judging(number)
        yield JudgingJob(job, where.plans(job, workspace.seed, PLANS), [Outcome(_finite(each)) for each in outcomes])


def _arguments(name: str, number: int, seed: int) -> tuple[str, int, int]:
    return name, number, seed


def judged(name: str, number: int, seed: int) -> Sequence[Mapping[str, float | None]]:
    """What came of each plan of one job, as JSON has it: None for a latency that nothing has."""
    from scenarios.improving.pool import job_pool
    from scenarios.improving.test_set import MEAN
    from scenarios.questions.bench import outcome

    where = job_pool(name, 0)
    job = where.judging(number)
    found = [outcome(job.with_plan(plan), seed).measures for plan in where.plans(job, seed, PLANS)]
    return [
        {key: each[key] if np.isfinite(each[key]) else None for key in (MEAN, "backpressured", "success")}
        for each in found
    ]


def _finite(measures: Mapping[str, float | None]) -> dict[str, float]:
    return {name: np.inf if value is None else value for name, value in measures.items()}


TRAINING = Experiment(
    name="driving.training",
    source="a what-if of ours",
    summary="regret of the plans that a model chooses, by how many runs it learned from and on which hardware",
    run=run,
    recipes=lambda sizes, seed: [main_corpus(sizes, seed)],
)
