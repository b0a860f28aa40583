"""Costream, Table V: hardware stronger or weaker than any that the training runs had."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean, geometric_mean
from typing import Any

from papers.costream import against
from papers.costream.judging import COLUMNS, SHORT, cells, every_row, published
from papers.costream.published import TABLE_V
from papers.interface import Experiment, Result, Table
from papers.recipes import CorpusRecipe, evaluation_corpus, main_corpus
from papers.rows import Within
from papers.shapes import against as compared
from papers.sizes import Sizes
from papers.workspace import Workspace
from scenarios.spaces.unseen_hardware import EXTRAPOLATIONS, Extrapolation
from twin.metrics import BINARY_METRICS

_MEAN_COLUMNS = {"model": "model", "ranges": "ranges", **{metric: COLUMNS[metric] for metric in SHORT}}


def restricted(extrapolation: Extrapolation) -> Within:
    """The rows of the main corpus that may be learned from: every host in use lies in the training range."""
    return Within(extrapolation.feature, *extrapolation.trained)


def fresh(extrapolation: Extrapolation, sizes: Sizes, seed: int) -> CorpusRecipe:
    """Runs whose hosts all have a value of the feature that no training run had."""
    return evaluation_corpus(sizes, seed, f"costream-{extrapolation.name}")


def run(workspace: Workspace, sizes: Sizes) -> Result:
    """Eight times: trained on the restricted rows, judged on fresh runs beyond them."""
    lines = [line for each in EXTRAPOLATIONS for line in _lines(workspace, sizes, each)]
    columns = {"range": "asked about", **COLUMNS, "training_rows": "training rows"}
    title = "Extrapolation: trained without the strongest or weakest hardware, judged on fresh simulated runs on it"
    notes = (
        f"Ensembles have {sizes.restricted_members} member(s), since they are trained for this table alone.",
        'The paper judges 100 queries a column. Its "64k, 10k" Mbit/s is read as 6400 and 10000, as in its Table II.',
    )
    means = Table("Means over the eight simulated ranges (geometric of q-errors)", _MEAN_COLUMNS, tuple(_means(lines)))
    tables = {"means": means, "extrapolation": Table(title, columns, tuple(lines))}
    return Result({**tables, "against": compared(against.extrapolated(lines))}, notes=notes)


def _means(lines: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """A line a model; a range in which a value is missing does not count for it."""
    found = []
    for model in dict.fromkeys(each["model"] for each in lines):
        mine = [each for each in lines if each["model"] == model]
        row: dict[str, Any] = {"model": model, "ranges": len(mine)}
        for metric in SHORT:
            measures = ("accuracy",) if metric in BINARY_METRICS else ("q50", "q95")
            known = [[each[f"{metric}_{measure}"] for each in mine] for measure in measures]
            row |= cells(metric, [_mean(values, metric) for values in known])
        found.append(row)
    return found


def _mean(values: Sequence[float | None], metric: str) -> float | None:
    known = [value for value in values if value is not None]
    if not known:
        return None
    return fmean(known) if metric in BINARY_METRICS else geometric_mean(known)


def _lines(workspace: Workspace, sizes: Sizes, each: Extrapolation) -> list[dict[str, Any]]:
    from papers.costream import rivals

    recipe, rows = main_corpus(sizes, workspace.seed), restricted(each)
    dataset = workspace.dataset(fresh(each, sizes, workspace.seed))
    values = " and ".join(f"{value:g}" for value in each.asked)
    about = {"range": f"{each.name}: {each.feature} {values}"}
    training_rows = len(workspace.split(recipe, rows).train)
    lines = [published("Costream", TABLE_V[each.name], **about, training_rows=None)]
    for contestant in rivals.generalising(sizes):
        model = workspace.fitted(contestant, recipe, rows)
        lines.append(every_row(model, dataset, workspace.seed, **about, training_rows=training_rows))
    return lines


TABLE5 = Experiment(
    name="costream.table5",
    source="Costream, Table V, Exp. 4",
    summary="extrapolation: hardware stronger or weaker than any that the model was trained on",
    run=run,
    recipes=lambda sizes, seed: [main_corpus(sizes, seed), *(fresh(each, sizes, seed) for each in EXTRAPOLATIONS)],
)
