"""Sizes of experiments, and the corpora and rows that they learn from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np

from scenarios.learning import CorpusRecipe
from scenarios.spaces.generator import FEATURES

if TYPE_CHECKING:
    from models.dataset import Dataset


# sizes ---------------------------------------------------------------------------------------------------------------
# Sizes of experiments: the paper's, or smaller ones that take hours or minutes.


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    """Everything that decides how long an experiment takes.

    runs, replicates: of the main corpus; `replicates` of them are simulated twice, for the replicate limit. members:
    networks in an ensemble; restricted_members: the same where a model is trained for one evaluation alone. epochs:
    passes over the training rows; None: as many as the model's settings say. n: fresh runs of an evaluation corpus, or
    random jobs of a size. queries: per query type, where plans are chosen. candidates: plans a query. fine_tuning_runs:
    of the few-shot corpus. horizon_s: simulated seconds a run. judged: simulated runs of a plan on sockets.
    random_plans: on sockets, an application.
    """

    runs: int
    replicates: int
    members: int
    restricted_members: int
    epochs: int | None
    n: int
    queries: int
    candidates: int
    fine_tuning_runs: int
    judged: int
    random_plans: int
    horizon_s: float = 240.0


SMALL = Sizes(
    runs=1200,
    replicates=100,
    members=1,
    restricted_members=1,
    epochs=50,
    n=60,
    queries=6,
    candidates=200,
    fine_tuning_runs=150,
    judged=1,
    random_plans=10,
)
"""Sizes that take minutes on two cores. Models see a thirtieth of the paper's runs: it shows that all works."""

MEDIUM = Sizes(
    runs=10_000,
    replicates=500,
    members=1,
    restricted_members=1,
    epochs=None,
    n=200,
    queries=20,
    candidates=1000,
    fine_tuning_runs=700,
    judged=1,
    random_plans=100,
)
"""Sizes that take hours on two cores: a quarter of the paper's runs, two fifths of its queries, one network for three.
"""

PAPER = Sizes(
    runs=43_281,
    replicates=1000,
    members=3,
    restricted_members=1,
    epochs=None,
    n=500,
    queries=50,
    candidates=10_000,
    fine_tuning_runs=3000,
    judged=3,
    random_plans=1000,
)
"""Sizes of the paper's corpus. n is five times the paper's, because of a hundred runs only a handful fail."""

SCALES: Mapping[str, Sizes] = {"small": SMALL, "medium": MEDIUM, "paper": PAPER}


# recipes of corpora --------------------------------------------------------------------------------------------------
# Recipes of the corpora that experiments learn from and are measured on, each with a hash of what decides it.


EVALUATION_SEED = 1000
"""Offset of the seed for corpora that models are measured on, so that none repeats a query of the training corpus."""

_DEFAULT_HORIZON_S = 240.0


def label(recipe: CorpusRecipe) -> str:
    """Name of a recipe's folders: its name and six digits of the hash."""
    return f"{recipe.name}-{recipe.plan()[1].manifest()['config_hash'][:6]}"


def main_corpus(sizes: Sizes, seed: int) -> CorpusRecipe:
    """Training corpus over Costream's Table II, its first runs repeated under other seeds."""
    return CorpusRecipe(sizes.runs, seed, sizes.replicates, horizon_s=horizon(sizes))


def evaluation_corpus(sizes: Sizes, seed: int, space: str) -> CorpusRecipe:
    """Corpus of `sizes.n` fresh runs of a space."""
    return CorpusRecipe(sizes.n, seed + EVALUATION_SEED, space=space, horizon_s=horizon(sizes))


def horizon(sizes: Sizes) -> float | None:
    """Simulated seconds a run; None for the default, so that a recipe is the same as one that does not name it."""
    return None if sizes.horizon_s == _DEFAULT_HORIZON_S else sizes.horizon_s


# rows to learn from --------------------------------------------------------------------------------------------------
# Filters for rows of a corpus that a model may learn from: the restricted ranges of generalisation experiments.


class RowFilter(Protocol):
    """Named selection of rows; the name decides where a model that learned from them is kept."""

    @property
    def name(self) -> str:
        """Name of the rows, for people and for folder names."""

    def mask(self, dataset: Dataset) -> np.ndarray:
        """Whether each row belongs. [G]"""


@dataclass(frozen=True, slots=True)
class Within:
    """Filter for rows whose `feature` lies in [low, high]; a hardware feature, on every host in use.

    feature: a key of `Dataset.about`, or one of scenarios.spaces.generator.FEATURES.
    """

    feature: str
    low: float
    high: float

    @property
    def name(self) -> str:
        """Name such as `ram_mb-1000-to-16000`."""
        return f"{self.feature}-{self.low:g}-to-{self.high:g}"

    def mask(self, dataset: Dataset) -> np.ndarray:
        """Whether each row lies within. [G]"""
        ends = ("_min", "_max") if self.feature in FEATURES else ("", "")
        least, most = (dataset.about[self.feature + end] for end in ends)
        return np.asarray((least >= self.low) & (most <= self.high))
