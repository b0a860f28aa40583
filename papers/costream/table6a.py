"""Costream, Table VI A: chains of two, three and four filters, by models that have never seen two in a row."""

from __future__ import annotations

from papers.costream import against
from papers.costream.published import TABLE_VI_A
from papers.costream.unseen_queries import COLUMNS, ONE_CLASS, block
from papers.interface import Experiment, Result, Table
from papers.recipes import CorpusRecipe, evaluation_corpus, main_corpus
from papers.rows import Within
from papers.shapes import against as compared
from papers.sizes import Sizes
from papers.workspace import Workspace

LENGTHS = (2, 3, 4)
NO_CHAINS = Within("filter_chain", 0, 1)
"""The rows of the main corpus in which no filter follows another, as in the paper's training data."""


def chains(sizes: Sizes, seed: int, length: int) -> CorpusRecipe:
    """Fresh chains of so many filters."""
    return evaluation_corpus(sizes, seed, f"costream-chain{length}")


def run(workspace: Workspace, sizes: Sizes) -> Result:
    """Contestants trained on the main corpus without filter chains, judged on fresh chains."""
    from papers.costream import rivals

    recipe = main_corpus(sizes, workspace.seed)
    models = [workspace.fitted(contestant, recipe, NO_CHAINS) for contestant in rivals.anew(sizes)]
    lines = []
    for length in LENGTHS:
        fresh = workspace.dataset(chains(sizes, workspace.seed, length))
        lines += block(f"{length} filters", TABLE_VI_A[length], models, fresh, workspace.seed)
    trained = len(workspace.split(recipe, NO_CHAINS).train)
    title = f"Unseen filter chains: {sizes.n} fresh simulated runs each, after training on {trained:,} runs without any"
    tables = {"chains": Table(title, COLUMNS, tuple(lines)), "against": compared(against.chains(lines))}
    return Result(tables, notes=("The paper judges 100 queries.", ONE_CLASS))


TABLE6A = Experiment(
    name="costream.table6a",
    source="Costream, Table VI A, Exp. 5a",
    summary="unseen queries: chains of 2, 3 and 4 filters",
    run=run,
    recipes=lambda sizes, seed: [main_corpus(sizes, seed), *(chains(sizes, seed, length) for length in LENGTHS)],
)
