"""Recipes of the corpora that experiments learn from and are measured on, each with a hash of what decides it."""

from __future__ import annotations

from papers.sizes import Sizes
from scenarios.learning.corpora import CorpusRecipe

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
