"""Costream, Table III: prediction errors of the five metrics for queries like those of the training corpus."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any

from papers.costream.judging import (
    BY_SEED,
    RESAMPLES,
    SEEDS,
    SHORT,
    TABLE_III,
    TWO_SEEDS,
    cells,
    judged,
    line,
    published,
    rivals,
)
from papers.interface import CaseTable, Experiment, Row
from papers.sizes import main_corpus
from papers.workspace import Workspace
from twin.metrics import BINARY_METRICS, REGRESSION_METRICS

if TYPE_CHECKING:
    from models.evaluation import BreakdownRow

MISJUDGED_BY = 0.2
ROUGHLY = ("ours", "trees-ratio", "trees-log", "rates")
"""Contestants that know the costs of the engine, and are also judged when they know them within MISJUDGED_BY only."""

DISSECTED = ("ours", "trees-ratio", "paper")
"""Contestants whose remaining error is broken down; the first one's is taken apart."""


def accuracy(workspace: Workspace, seeds: int = SEEDS) -> Iterator[Row]:
    """Lines of all contestants, trained on the same rows and judged on the same held-out tenth, for several splits."""
    from models import evaluation

    for name, reported in TABLE_III.items():
        yield published(name, reported, training_seed=None)
    by_seed = [_judged(workspace, workspace.reseeded(workspace.seed + number)) for number in range(seeds)]
    for same_model in zip(*by_seed, strict=True):
        yield from same_model
    dataset = workspace.dataset(main_corpus(workspace.sizes, workspace.seed))
    limit = evaluation.replicate_rows(dataset, bootstrap=RESAMPLES, seed=workspace.seed)
    about = "replicate limit: the simulator with another seed"
    yield line(about, workspace.sizes.replicates, limit, training_seed=None)


def _judged(corpus: Workspace, workspace: Workspace) -> list[dict[str, Any]]:
    """Lines of all contestants under a workspace's split; corpus: whose seed the main corpus has.

    In the last lines rows and labels are the same, but for training and for judging every cost constant is off: by a
    fixed error, as of a profile, and by one that is drawn for each run anew, the same for all splits.
    """
    from models.perturbed_costs import PerturbedCosts
    from papers.costream import planners as contestants

    sizes, seed = workspace.sizes, workspace.seed
    recipe, everyone = main_corpus(sizes, corpus.seed), contestants.everyone(sizes)
    dataset, test = workspace.dataset(recipe), workspace.split(recipe).test
    models = {name: workspace.fitted(contestant, recipe) for name, contestant in everyone.items()}
    on_logs = workspace.fitted(contestants.paper_on_logs(sizes), recipe, metrics=REGRESSION_METRICS)
    first = models.pop("paper")
    lines = [
        line(model.name, len(test), judged(model, dataset, seed, test), training_seed=seed)
        for model in (first, on_logs, *models.values())
    ]
    for fixed, words in ((True, "costs off by a fixed"), (False, "costs off anew each run by")):
        misjudged = PerturbedCosts(MISJUDGED_BY, recipe.seed, fixed)
        rough = workspace.dataset(recipe, misjudged)
        for name in ROUGHLY:
            model = workspace.fitted(everyone[name], recipe, misjudged=misjudged)
            rows = judged(model, rough, seed, test)
            lines.append(line(f"{model.name}, {words} ± {MISJUDGED_BY:.0%}", len(test), rows, training_seed=seed))
    return lines


@lru_cache(maxsize=1)
def breakdowns(workspace: Workspace) -> Sequence[Sequence[BreakdownRow]]:
    """Remaining error of the dissected models by stratum, in all metrics; kept, as each table asks for it."""
    from models.evaluation import error_breakdown
    from papers.costream import planners as contestants

    recipe, everyone = main_corpus(workspace.sizes, workspace.seed), contestants.everyone(workspace.sizes)
    dataset, test = workspace.dataset(recipe), workspace.split(recipe).test
    return [error_breakdown(workspace.fitted(everyone[name], recipe), dataset, test) for name in DISSECTED]


def where_columns(workspace: Workspace) -> str:
    """Columns of a table with one for each model's errors."""
    names = [rows[0].model for rows in breakdowns(workspace)]
    models = " | ".join(f"model{number}: {name}" for number, name in enumerate(names))
    return f"stratum | runs | {models} | share: share of the error of {names[0]} | noise: noise in it"


def where(metric: str, workspace: Workspace) -> Iterator[Row]:
    """Rows of every model's errors, with the first one's taken apart: the part that no model can avoid."""
    by_model = [[row for row in rows if row.metric == metric] for rows in breakdowns(workspace)]
    for same_stratum in zip(*by_model, strict=True):
        first = same_stratum[0]
        row: dict[str, Any] = {"stratum": first.stratum, "runs": first.rows, "pairs": first.pairs}
        row |= {"share": _percent(first.share), "noise": _percent(first.noise_share)}
        for number, found in enumerate(same_stratum):
            values = cells(metric, (found.accuracy,) if metric in BINARY_METRICS else (found.q50, found.q95))
            row |= {name.replace(metric, f"model{number}"): value for name, value in values.items()}
        yield row


def _percent(share: float | None) -> str | None:
    return None if share is None else f"{share:.0%}"


def _where_title(metric: str) -> str:
    what = "accuracy" if metric in BINARY_METRICS else "q-error median / 95 %"
    return f"Where the error of {SHORT[metric]} sits: {what}, held-out runs of the simulated corpus"


TABLE3 = Experiment(
    name="costream.table3",
    source="Costream, Table III, Exp. 1",
    summary="prediction accuracy of the cost models, baselines and the replicate limit",
    tables={
        "accuracy": CaseTable(
            title=lambda workspace: (
                "Prediction of held-out runs of the simulated corpus "
                f"({len(workspace.dataset(main_corpus(workspace.sizes, workspace.seed))):,} runs, a tenth held out)"
            ),
            columns=BY_SEED,
            measure=accuracy,
            shapes=rivals,
        ),
        **{
            f"where_{metric}": CaseTable(
                title=_where_title(metric), columns=where_columns, measure=partial(where, metric)
            )
            for metric in SHORT
        },
    },
    notes=TWO_SEEDS
    + """
- Costs off: every CPU constant that features and rate model know is wrong by up to that share; a fixed error, as of
  one profile measured once, can be learned, one that is drawn for each run anew cannot, and is no real engine's.
- Of a regression the error is the squared logarithm of the q-error, of a class the share of wrong answers; strata of
  different kinds overlap. *Noise* is the part of the first contestant's error that two runs of one configuration with
  different seeds show as well, so that no model can avoid it; above 100 % it says that the replicates are few.
""",
    recipes=lambda sizes, seed: [main_corpus(sizes, seed)],
)
