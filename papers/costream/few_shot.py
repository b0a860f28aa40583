"""Contestant that does not start afresh: networks trained on with a few more rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from models.checkpoint import Ensemble, read_all
from models.dataset import Dataset, RowSplit
from models.pipeline import FineTuning, fine_tune, rehearsing
from models.prediction import LearnedCostModel
from models.predictors import FittedNetworks
from scenarios.executing.progress import Progress
from scenarios.learning.learner import steps
from twin.metrics import METRICS
from twin.randomness import random_stream


@dataclass(frozen=True)
class FewShot:
    """Contestant that trains networks on. name: as tables show it. trained_on: names the rows that `start` learned
    from. runs: number of new ones that it may learn from. rehearsed: the rows of `start`, if as many of them are mixed
    in."""

    name: str
    trained_on: str
    how: FineTuning
    runs: int
    rehearsal: bool
    start: tuple[Ensemble, ...] = field(repr=False)
    rehearsed: tuple[Dataset, RowSplit] | None = field(repr=False, default=None)

    def fit(
        self,
        dataset: Dataset,
        parts: RowSplit,
        seed: int,
        metrics: Sequence[str] = METRICS,
        progress: Progress | None = None,
    ) -> FittedNetworks:
        """Networks trained on from `start`, also on the test rows of this split: other runs are judged."""
        everything = random_stream(seed, "few-shot").permutation(np.concatenate(parts))[: self.runs]
        tenth = max(1, len(everything) // 10)
        parts = RowSplit(everything[tenth:], everything[:tenth], np.array([], dtype=int))
        if self.rehearsed is not None:
            dataset, parts = rehearsing(dataset, parts, *self.rehearsed, seed)
        start = [each for each in self.start if set(each.metrics) & set(metrics)]
        report = progress or (lambda _done, _total: None)
        told = steps({each.name: len(each.members) for each in start}, report)
        ensembles = fine_tune(start, dataset, parts, self.how, seed, told)
        return FittedNetworks(self.name, LearnedCostModel(self.name, ensembles))

    def load(self, folder: Path) -> FittedNetworks:
        """Networks that `fit` gave."""
        return FittedNetworks(self.name, LearnedCostModel(self.name, read_all(folder)))
