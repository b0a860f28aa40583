"""Costream, Table VI B: the four benchmark queries, whose windows and selectivities are not those of the training."""

from __future__ import annotations

from papers.costream import against
from papers.costream.published import TABLE_VI_B
from papers.costream.unseen_queries import COLUMNS, ONE_CLASS, block
from papers.interface import Experiment, Result, Table
from papers.recipes import EVALUATION_SEED, CorpusRecipe, horizon, main_corpus
from papers.shapes import against as compared
from papers.sizes import Sizes
from papers.workspace import Workspace

SPACE = "costream"
"""What the rates, hosts and placements are drawn from."""


def _fresh(sizes: Sizes, seed: int, scenario: str) -> CorpusRecipe:
    return CorpusRecipe(sizes.n, seed + EVALUATION_SEED, space=SPACE, scenario=scenario, horizon_s=horizon(sizes))


def run(workspace: Workspace, sizes: Sizes) -> Result:
    """Contestants trained on the main corpus, judged on runs of the library's benchmark queries."""
    from papers.costream import rivals

    recipe = main_corpus(sizes, workspace.seed)
    models = [workspace.fitted(contestant, recipe) for contestant in rivals.everyone(sizes).values()]
    lines = []
    for scenario, reported in TABLE_VI_B.items():
        fresh = workspace.dataset(_fresh(sizes, workspace.seed, scenario))
        lines += block(scenario, reported, models, fresh, workspace.seed)
    title = f"Unseen benchmarks: {sizes.n} simulated runs each, with random rates, hosts and placements"
    notes = (
        "The paper runs each query 100 times, on the benchmarks' own data.",
        "Here the queries are the benchmarks'; selectivities and distinct groups are assumed, as 'twin show' tells.",
        ONE_CLASS,
    )
    tables = {"benchmarks": Table(title, COLUMNS, tuple(lines)), "against": compared(against.rivals(lines))}
    return Result(tables, notes=notes)


TABLE6B = Experiment(
    name="costream.table6b",
    source="Costream, Table VI B, Exp. 6",
    summary="unseen queries: Advertisement, Spike Detection, Smart Grid global and local",
    run=run,
    recipes=lambda sizes, seed: [main_corpus(sizes, seed), *(_fresh(sizes, seed, scenario) for scenario in TABLE_VI_B)],
)
