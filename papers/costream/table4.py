"""Costream, Table IV: hardware between the values that the training corpus has."""

from __future__ import annotations

from papers.costream import against
from papers.costream.judging import BY_SEED, SEEDS, TWO_SEEDS, every_row, published
from papers.costream.published import TABLE_IV
from papers.interface import Experiment, Result, Table
from papers.recipes import CorpusRecipe, evaluation_corpus, main_corpus
from papers.shapes import against as compared
from papers.sizes import Sizes
from papers.workspace import Workspace

SPACE = "costream-between"


def _fresh(sizes: Sizes, seed: int) -> CorpusRecipe:
    return evaluation_corpus(sizes, seed, SPACE)


def run(workspace: Workspace, sizes: Sizes) -> Result:
    """Contestants trained on the main corpus, judged on fresh runs on hardware of which no value is in it."""
    from papers.costream import rivals

    fresh = workspace.dataset(_fresh(sizes, workspace.seed))
    lines = [published(name, reported, training_seed=None) for name, reported in TABLE_IV.items()]
    seeds = range(workspace.seed, workspace.seed + SEEDS)
    for contestant in rivals.everyone(sizes).values():
        for seed in seeds:
            model = workspace.reseeded(seed).fitted(contestant, main_corpus(sizes, workspace.seed))
            lines.append(every_row(model, fresh, workspace.seed, training_seed=seed))
    title = f"Interpolation: {len(fresh)} fresh simulated runs on hardware between the values of the training corpus"
    notes = ("The paper judges 100 queries.", TWO_SEEDS)
    tables = {"interpolation": Table(title, BY_SEED, tuple(lines)), "against": compared(against.rivals(lines))}
    return Result(tables, notes=notes)


TABLE4 = Experiment(
    name="costream.table4",
    source="Costream, Table IV, Exp. 3",
    summary="interpolation: hardware between the values of the training corpus",
    run=run,
    recipes=lambda sizes, seed: [main_corpus(sizes, seed), _fresh(sizes, seed)],
)
