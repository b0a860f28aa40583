"""Which corpora experiments learn from and are measured on: small frozen values, and what decides each in a hash."""

from __future__ import annotations

from dataclasses import dataclass

from papers.sizes import Sizes
from scenarios.learning import corpora
from scenarios.learning.corpora import Make
from twin.corpus.manifest import CorpusSpec

EVALUATION_SEED = 1000
"""Added to the seed for corpora that models are measured on, so that none repeats a query of the training corpus."""

_DEFAULT_HORIZON_S = 240.0


@dataclass(frozen=True, slots=True)
class CorpusRecipe:
    """What `twin corpus` with these options simulates. horizon_s: None is the default of run settings."""

    runs: int
    seed: int
    replicates: int = 0
    space: str | None = None
    scenario: str | None = None
    horizon_s: float | None = None

    @property
    def name(self) -> str:
        """The scenario or the space."""
        return self.scenario or self.space or corpora.DEFAULT_SPACE

    @property
    def command(self) -> str:
        """As on the command line."""
        return corpora.command(self._request)

    @property
    def _request(self) -> corpora.CorpusRequest:
        return {
            "runs": self.runs,
            "seed": self.seed,
            "space": self.space,
            "scenario": self.scenario,
            "horizon_s": self.horizon_s,
            "replicates": self.replicates,
        }

    def plan(self) -> tuple[Make, CorpusSpec]:
        """Raises BadInput if the options contradict each other or name nothing known."""
        return corpora.plan(**self._request)


def label(recipe: CorpusRecipe) -> str:
    """Name and six digits of the hash: what the recipe's folders are called."""
    return f"{recipe.name}-{recipe.plan()[1].manifest()['config_hash'][:6]}"


def main_corpus(sizes: Sizes, seed: int) -> CorpusRecipe:
    """The training corpus over Costream's Table II, its first runs repeated under other seeds."""
    return CorpusRecipe(sizes.runs, seed, sizes.replicates, horizon_s=horizon(sizes))


def evaluation_corpus(sizes: Sizes, seed: int, space: str) -> CorpusRecipe:
    """`sizes.n` fresh runs of a space."""
    return CorpusRecipe(sizes.n, seed + EVALUATION_SEED, space=space, horizon_s=horizon(sizes))


def horizon(sizes: Sizes) -> float | None:
    """None for the default, so that a recipe is the same as one that does not name it."""
    return None if sizes.horizon_s == _DEFAULT_HORIZON_S else sizes.horizon_s
