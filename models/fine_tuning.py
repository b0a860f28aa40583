"""Few-shot fine-tuning: a trained model learns on from a few rows of queries that it has not seen (Costream, Exp. 5b).

Learning from new rows alone, a network forgets some of the old ones. Rehearsal is the remedy: as many old training
rows among the new ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import numpy as np
from pydantic import Field

from models import pipeline
from models.checkpoint import Ensemble
from models.dataset import Dataset, Split, join
from models.settings import TrainingSettings
from twin.errors import BadInput
from twin.metrics import REGRESSION_METRICS
from twin.randomness import stream
from twin.spec import Spec, parse


class FineTuning(Spec):
    """How long and how fast; everything else as the model was trained.

    epochs: passes over the rows. rate: highest learning rate, a quarter of training's.
    """

    epochs: Annotated[int, Field(ge=0, le=10**6)] = 20
    rate: Annotated[float, Field(gt=0, le=1)] = 5e-4


def fine_tune(
    ensembles: Sequence[Ensemble],
    dataset: Dataset,
    parts: Split,
    how: FineTuning,
    seed: int,
    progress: pipeline.Progress | None = None,
) -> tuple[Ensemble, ...]:
    """Each member trained on from where it is, unless the rows have nothing to teach it; never to a higher validation
    loss than it started from. Label scalings stay.

    Raises BadInput if no row has a label that the model predicts.
    """
    taught = [_teaches(dataset, parts, each) for each in ensembles]
    if not any(taught):
        metrics = ", ".join(metric for each in ensembles for metric in each.metrics)
        raise BadInput(f"the rows cannot teach {metrics}: every label is missing, or the same; simulate others")
    if how.epochs == 0:
        return tuple(ensembles)
    return tuple(
        pipeline.fine_tune([each], dataset, parts, _settings(each, how), seed, progress)[0] if teaches else each
        for each, teaches in zip(ensembles, taught, strict=True)
    )


def rehearsing(dataset: Dataset, parts: Split, old: Dataset, old_parts: Split, seed: int) -> tuple[Dataset, Split]:
    """The rows of both, with as many old training and validation rows as new ones (or all, if there are fewer).

    The test rows are the new ones.
    """
    rng = stream(seed, "rehearsal")

    def among(new: np.ndarray, known: np.ndarray) -> np.ndarray:
        return np.concatenate([new, len(dataset) + np.sort(rng.permutation(known)[: len(new)])])

    mixed = Split(among(parts.train, old_parts.train), among(parts.valid, old_parts.valid), parts.test)
    return join(dataset, old), mixed


def _settings(ensemble: Ensemble, how: FineTuning) -> TrainingSettings:
    trained = parse(TrainingSettings, ensemble.manifest["settings"], "settings of the model")
    return trained.model_copy(update=how.model_dump())


def _teaches(dataset: Dataset, parts: Split, ensemble: Ensemble) -> bool:
    """Whether some metric has labels to learn from: any of a regression, both classes of a binary metric."""
    needed = (1 if metric in REGRESSION_METRICS else 2 for metric in ensemble.metrics)
    columns = (dataset.label_G(metric)[parts.train] for metric in ensemble.metrics)
    return any(len(set(column[~np.isnan(column)])) >= least for column, least in zip(columns, needed, strict=True))
