"""Fine-tunes a model on new rows: ensembles, and a table of errors before and after."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Annotated

import numpy as np
from pydantic import Field

from models import evaluation
from models.checkpoint import Ensemble
from models.dataset import Dataset, split
from models.evaluation import ErrorRow
from models.pipeline import FineTuning, fine_tune, rehearsing
from models.prediction import LearnedCostModel
from models.predictors import FittedNetworks
from scenarios.executing.progress import Progress
from scenarios.files.documents import CLOSED, Number
from scenarios.learning import learner

COLUMNS = {
    "metric": "metric",
    "queries": "queries",
    "rows": "runs",
    "q50_before": "median before",
    "q50": "q-error after",
    "q95_before": "95 % before",
    "q95": "after",
    "accuracy_before": "accuracy before",
    "accuracy": "after",
}
"""Headings of `Tuned.rows`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TunedRow(ErrorRow):
    """Errors of a fine-tuned model. queries: new or old. *_before: of the model before fine-tuning; None where it could
    not predict."""

    queries: str
    q50_before: float | None = None
    q95_before: float | None = None
    accuracy_before: float | None = None


@dataclass(frozen=True, slots=True)
class Tuned:
    """Result of fine-tuning. ensembles: the new model. rows: errors on held-out rows of the new queries, and of the old
    ones if these were given. sizes: number of rows in each part."""

    ensembles: tuple[Ensemble, ...]
    rows: tuple[TunedRow, ...]
    sizes: dict[str, int]


@CLOSED
@dataclass(frozen=True, slots=True, kw_only=True)
class ModelTrained:
    """The answer of `twin train`. rows: in each part. metrics, validation_losses: null for a model that was fine-tuned;
    from, evaluation: null for others."""

    model: str
    rows: Mapping[str, int]
    metrics: tuple[str, ...] | None = None
    validation_losses: tuple[Number, ...] | None = None
    from_: Annotated[str | None, Field(alias="from")] = None
    evaluation: tuple[TunedRow, ...] | None = None


def tune(
    model: LearnedCostModel, new: Dataset, old: Dataset | None, how: FineTuning, seed: int, report: Progress
) -> Tuned:
    """Fine-tunes a model on new rows, and on as many of the rows that it was trained on, if they are given.

    Raises BadInput if the new rows are too few or teach nothing, or the model was not trained on the old ones.
    """
    dataset, parts = new, split(new, seed)
    held_out = [("new", new, parts.test)]
    if old is not None:
        old_parts = learner.training_split(model, old)
        dataset, parts = rehearsing(new, parts, old, old_parts, seed)
        held_out.append(("old", old, old_parts.test))
    members = {ensemble.name: len(ensemble.members) for ensemble in model.ensembles}
    after = LearnedCostModel(
        model.name, fine_tune(model.ensembles, dataset, parts, how, seed, learner.steps(members, report))
    )
    rows = tuple(row for name, rows, test in held_out for row in _compared(name, rows, test, model, after))
    return Tuned(after.ensembles, rows, {name: len(part) for name, part in parts._asdict().items()})


def _compared(
    queries: str, dataset: Dataset, test: np.ndarray, before: LearnedCostModel, after: LearnedCostModel
) -> Iterable[TunedRow]:
    """Rows of errors before and after fine-tuning. None before, if that model did not know these kinds of operators."""
    part = dataset.take(test)
    found = evaluation.evaluate(FittedNetworks(after.name, after), part)
    known = evaluation.evaluate(FittedNetworks(before.name, before), part) if before.knows(part.graphs) else None
    for number, row in enumerate(found):
        old = {f"{name}_before": getattr(known[number], name) for name in ("q50", "q95", "accuracy")} if known else {}
        yield TunedRow(**asdict(row), queries=queries, **old)
