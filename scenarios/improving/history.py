"""Rounds in which a model improves, by one or two strategies, all judged by the same test set."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from models.prediction import LearnedCostModel
from scenarios.executing.progress import Audience
from scenarios.files.documents import CLOSED
from scenarios.improving.pool import JobPool
from scenarios.improving.rounds import LearningPlan, rounds
from scenarios.improving.test_set import Judgement, judging_jobs, seen
from scenarios.planning.outcomes import half_width95
from scenarios.questions.bench import Bench
from twin.errors import BadInput
from twin.randomness import child_seed

COLUMNS = {
    "strategy": "runs chosen",
    "round": "round",
    "runs": "runs",
    "regret_words": "regret, mean",
    "regret_median": "median",
    "spoilt": "worse kind",
    "error_median": "q-error, median",
    "error_p95": "95 %",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundRow:
    """Judgement of one model on all jobs of the test set. runs: number of runs it learned from. regret, ci95: mean over
    the jobs, and half of its 95 % interval."""

    strategy: str
    round: int
    runs: int
    regret: float
    ci95: float | None
    regret_median: float
    spoilt: int
    error_median: float
    error_p95: float

    @classmethod
    def of(cls, strategy: str, number: int, runs: int, answers: Sequence[Judgement]) -> RoundRow:
        """Row of a round, from one judgement for each job."""
        regrets = np.array([answer.regret for answer in answers])
        errors = np.concatenate([answer.errors for answer in answers])
        median, p95 = np.quantile(errors, (0.5, 0.95)) if len(errors) else (np.nan, np.nan)
        return cls(
            strategy=strategy,
            round=number,
            runs=runs,
            regret=float(regrets.mean()),
            ci95=half_width95(regrets),
            regret_median=float(np.median(regrets)),
            spoilt=sum(answer.spoilt for answer in answers),
            error_median=float(median),
            error_p95=float(p95),
        )

    @property
    def shown(self) -> dict[str, Any]:
        """Values of the columns in `COLUMNS`, as text."""
        around = "" if self.ci95 is None else f" ± {self.ci95:.1%}"
        return {
            **asdict(self),
            "regret_words": f"{self.regret:.1%}{around}",
            "regret_median": f"{self.regret_median:.1%}",
        }


def compared(first: Sequence[float], second: Sequence[float], names: tuple[str, str]) -> str:
    """Sentence that compares the regrets of two strategies. first, second: mean regrets by job."""
    apart = np.array(first) - np.array(second)
    half = half_width95(apart)
    mean = float(apart.mean())
    words = f"regret after the rounds, {names[0]} minus {names[1]}: {mean:+.2%}"
    if half is None:
        return f"{words} in one job, which says nothing about other jobs"
    verdict = "no more than chance" if abs(mean) <= half else f"{names[0 if mean < 0 else 1]} is better"
    return f"{words} ± {half:.2%} (95 % interval over {len(apart)} jobs): {verdict}"


JUDGING_SEED = 2**30
"""Number of the child seed that draws the plans of the test set, and seeds their runs."""
MODELS = "models"


@CLOSED
@dataclass(frozen=True, slots=True, kw_only=True)
class ModelImproved:
    """The answer of `twin improve`. weights: hash of the networks that it began with. rows: in the order of the rounds.
    compared: a sentence about two strategies; empty for one."""

    command: str
    model: str
    weights: str
    on: str
    seed: int
    jobs: int
    runs: int
    pool: int
    judges: int
    plans: int
    rehearse: str | None
    rounds: int
    rows: tuple[RoundRow, ...]
    compared: str


def require_ensemble(model: LearnedCostModel) -> None:
    """Raises BadInput for a model with a single network, which cannot disagree with itself."""
    if min(len(ensemble.members) for ensemble in model.ensembles) < 2:
        raise BadInput(f"model {model.name!r} has one network, which agrees with itself; train it with --members 3")


def history(
    start: LearnedCostModel,
    pool: JobPool,
    strategies: Sequence[str],
    count: int,
    how: LearningPlan,
    size: tuple[int, int],
    bench: Bench,
    out: Path,
    audience: Audience,
) -> tuple[tuple[RoundRow, ...], str]:
    """Runs all rounds; returns their rows, and a sentence that compares two strategies (empty for one). size: number of
    jobs of the test set, and of plans of each. Raises BadInput as `rounds` does.
    """
    judges, plans = size
    seen(start, pool.judging(0), [pool.judging(0).plan])  # it may refuse, before any run is made
    audience.stage(f"simulating the test set: {judges} jobs, {plans} plans each at most")
    with audience.progress("runs of the test set") as report:
        judging = judging_jobs(bench, pool, judges, plans, child_seed(how.seed, JUDGING_SEED), report)
    rows, by_job = list[RoundRow](), dict[str, list[list[float]]]()
    for strategy in strategies:
        for done in rounds(start, pool, strategy, count, how, bench, out / MODELS, audience):
            answers = [job.judged(done.model) for job in judging]
            rows.append(RoundRow.of(strategy, done.number, done.runs, answers))
            if done.number:
                by_job.setdefault(strategy, []).append([answer.regret for answer in answers])
            audience.stage(f"{strategy}, round {done.number}: regret {rows[-1].regret:.1%}")
    if len(strategies) < 2:
        return tuple(rows), ""
    first, second = (np.mean(by_job[strategy], axis=0).tolist() for strategy in strategies)
    return tuple(rows), compared(first, second, (strategies[0], strategies[1]))
