"""The course of one model, or of it by two strategies: rounds, each judged by the same exam."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from models.prediction import LearnedCostModel
from scenarios.executing.progress import Audience
from scenarios.improving.answer import Row, compared
from scenarios.improving.exam import exam, seen
from scenarios.improving.grounds import Grounds
from scenarios.improving.rounds import Plan, rounds
from scenarios.questions.bench import Bench
from twin.errors import BadInput
from twin.randomness import child_seed

EXAM = 2**30
"""The child of a seed that draws the plans of the exam, and is the seed of their runs."""
MODELS = "models"


@dataclass(frozen=True, slots=True)
class Course:
    """rows: in the order in which they came. sentence: how two strategies compare; empty for one."""

    rows: tuple[Row, ...]
    sentence: str

    @property
    def documents(self) -> list[dict[str, Any]]:
        """For JSON and a table."""
        return [asdict(each) for each in self.rows]


def require_ensemble(model: LearnedCostModel) -> None:
    """Raises BadInput for a model that cannot disagree with itself."""
    if min(len(each.members) for each in model.ensembles) < 2:
        raise BadInput(f"model {model.name!r} has one network, which agrees with itself; train it with --members 3")


def course(
    start: LearnedCostModel,
    grounds: Grounds,
    strategies: Sequence[str],
    count: int,
    how: Plan,
    size: tuple[int, int],
    bench: Bench,
    out: Path,
    audience: Audience,
) -> Course:
    """size: jobs of the exam, and plans of each. Raises BadInput as `rounds`."""
    judges, plans = size
    seen(start, grounds.judging(0), [grounds.judging(0).plan])  # it may refuse, before any run is made
    audience.stage(f"simulating what judges: {judges} jobs, {plans} plans each")
    with audience.progress("runs that judge") as report:
        questions = exam(bench, grounds, judges, plans, child_seed(how.seed, EXAM), report)
    rows, by_job = list[Row](), dict[str, list[list[float]]]()
    for strategy in strategies:
        for each in rounds(start, grounds, strategy, count, how, bench, out / MODELS, audience):
            answers = [question.answered_by(each.model) for question in questions]
            rows.append(Row.of(strategy, each.number, each.runs, answers))
            if each.number:
                by_job.setdefault(strategy, []).append([answer.regret for answer in answers])
            audience.stage(f"{strategy}, round {each.number}: regret {rows[-1].regret:.1%}")
    if len(strategies) < 2:
        return Course(tuple(rows), "")
    first, second = (np.mean(by_job[strategy], axis=0).tolist() for strategy in strategies)
    return Course(tuple(rows), compared(first, second, (strategies[0], strategies[1])))
