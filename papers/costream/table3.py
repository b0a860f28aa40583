"""Costream, Table III: how exactly the five metrics are predicted for queries like those of the training corpus."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from papers.costream import against, remaining
from papers.costream.judging import BY_SEED, RESAMPLES, SEEDS, TWO_SEEDS, judged, line, published
from papers.costream.published import TABLE_III
from papers.interface import Experiment, Result, Table
from papers.recipes import CorpusRecipe, main_corpus
from papers.shapes import against as compared
from papers.sizes import Sizes
from papers.workspace import Workspace
from twin.metrics import REGRESSION_METRICS

if TYPE_CHECKING:
    from models.predictors import Fitted

MISJUDGED_BY = 0.2
ROUGHLY = ("ours", "trees-ratio", "trees-log", "rates")
"""Who knows the costs of the engine, and is also asked when they are known within that share only."""

DISSECTED = ("ours", "trees-ratio", "paper")
"""Whose remaining error is looked into; the first one's is taken apart."""
BESIDE = (
    "Costs off: every CPU constant that features and rate model know is wrong by up to that share; a fixed error, as "
    "of one profile measured once, can be learned, one that is drawn for each run anew cannot, and is no real engine's."
)


def run(workspace: Workspace, sizes: Sizes) -> Result:
    """Every contestant, trained on the same rows and judged on the same held-out tenth, for each of two splits."""
    from models import evaluation

    recipe = main_corpus(sizes, workspace.seed)
    dataset = workspace.dataset(recipe)
    by_seed = [_judged(workspace.reseeded(workspace.seed + number), recipe, sizes) for number in range(SEEDS)]
    lines = [published(name, reported, training_seed=None) for name, reported in TABLE_III.items()]
    lines += [row for same in zip(*(rows for rows, _ in by_seed), strict=True) for row in same]
    limit = evaluation.replicate_rows(dataset, bootstrap=RESAMPLES, seed=workspace.seed)
    about = "replicate limit: the simulator with another seed"
    lines.append(line(about, sizes.replicates, limit, training_seed=None))
    title = f"Prediction of held-out runs of the simulated corpus ({len(dataset):,} runs, a tenth held out)"
    where = remaining.tables(by_seed[0][1], dataset, workspace.split(recipe).test)
    notes = (TWO_SEEDS, BESIDE, remaining.NOTE)
    tables = {"accuracy": Table(title, BY_SEED, tuple(lines)), "against": compared(against.rivals(lines))}
    return Result({**tables, **where}, notes=notes)


def _judged(workspace: Workspace, recipe: CorpusRecipe, sizes: Sizes) -> tuple[list[dict[str, Any]], list[Fitted]]:
    """The lines of all contestants under the workspace's split, and the models that are looked into."""
    from papers.costream import rivals

    dataset, parts, seed = workspace.dataset(recipe), workspace.split(recipe), workspace.seed
    models = {name: workspace.fitted(each, recipe) for name, each in rivals.everyone(sizes).items()}
    on_logs = workspace.fitted(rivals.paper_on_logs(sizes), recipe, metrics=REGRESSION_METRICS)
    order = (models["paper"], on_logs, *(each for name, each in models.items() if name != "paper"))
    lines = [
        line(model.name, len(parts.test), judged(model, dataset, seed, parts.test), training_seed=seed)
        for model in order
    ]
    lines += _with_rough_costs(workspace, recipe, sizes)
    return lines, [models[name] for name in DISSECTED]


def _with_rough_costs(workspace: Workspace, recipe: CorpusRecipe, sizes: Sizes) -> list[dict[str, Any]]:
    """The same rows and labels, but for training and for judging alike every cost constant is off: by a fixed error, as
    that of a profile, and by one that is drawn for each run anew. The errors are the same for all splits."""
    from models.perturbed_costs import PerturbedCosts
    from papers.costream import rivals

    contestants, seed = rivals.everyone(sizes), workspace.seed
    found = []
    for fixed, words in ((True, "costs off by a fixed"), (False, "costs off anew each run by")):
        misjudged = PerturbedCosts(MISJUDGED_BY, recipe.seed, fixed)
        dataset, test = workspace.dataset(recipe, misjudged), workspace.split(recipe).test
        for name in ROUGHLY:
            model = workspace.fitted(contestants[name], recipe, misjudged=misjudged)
            rows = judged(model, dataset, seed, test)
            found.append(line(f"{model.name}, {words} ± {MISJUDGED_BY:.0%}", len(test), rows, training_seed=seed))
    return found


TABLE3 = Experiment(
    name="costream.table3",
    source="Costream, Table III, Exp. 1",
    summary="prediction accuracy of the cost models, baselines and the replicate limit",
    run=run,
    recipes=lambda sizes, seed: [main_corpus(sizes, seed)],
)
