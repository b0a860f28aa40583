"""Judging of contestants on rows of a corpus: a line for each one, below the paper's lines; and comparisons."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from papers.costream.published import Reported
from papers.interface import Row, Rows
from papers.shapes import apart, shape, span
from twin.metrics import BINARY_METRICS, REGRESSION_METRICS

if TYPE_CHECKING:
    from models.dataset import Dataset
    from models.evaluation import ErrorRow
    from models.predictors import Fitted

SHORT: Mapping[str, str] = {
    "throughput_per_s": "T",
    "e2e_latency_s": "Le",
    "processing_latency_s": "Lp",
    "backpressured": "RO",
    "success": "S",
}
"""Names of the metrics in the paper, in its order."""

RESAMPLES = 200
"""Number of resamples of the bootstrap that gives standard errors."""

METRIC_COLUMNS = " | ".join(
    f"{metric}: {short} ({'accuracy' if metric in BINARY_METRICS else 'q-error median / 95 %'})"
    for metric, short in SHORT.items()
)
COLUMNS = f"model | runs | {METRIC_COLUMNS}"
"""Columns of a table of `line`s."""
SEEDS = 2
"""Number of splits of one corpus, and of models trained on them, which shows how much the choice of either matters."""
BY_SEED = f"model | training_seed: seed | runs | {METRIC_COLUMNS}"
"""Columns of a table of `line`s where models are trained several times."""
TWO_SEEDS = """
- Each seed splits the one corpus anew and trains anew. Beside a figure, after ±, is its standard error over the
  judged runs alone; how far the seeds are apart holds the split and the training as well.
"""


def judged(fitted: Fitted, dataset: Dataset, seed: int, rows: np.ndarray | None = None) -> list[ErrorRow]:
    """Errors, one row for each predicted metric, over all rows of the dataset or some."""
    from models import evaluation

    part = dataset if rows is None else dataset.take(rows)
    return evaluation.evaluate(fitted, part, RESAMPLES, seed)


def every_row(fitted: Fitted, dataset: Dataset, seed: int, **more: Any) -> dict[str, Any]:
    """Line of a model judged on a whole corpus, which it was not trained on."""
    return line(fitted.name, len(dataset), judged(fitted, dataset, seed), **more)


def line(model: str, runs: int | None, rows: Iterable[ErrorRow], **more: Any) -> dict[str, Any]:
    """Line of a model: every metric that was judged as text, and as numbers under METRIC_q50, METRIC_q95,
    METRIC_accuracy, with their standard errors under ..._se."""
    found: dict[str, Any] = {"model": model, "runs": runs, **dict.fromkeys(SHORT), **more}
    for row in rows:
        measures = ("accuracy",) if row.metric in BINARY_METRICS else ("q50", "q95")
        errors = [getattr(row, f"{measure}_se") for measure in measures]
        found |= cells(row.metric, [getattr(row, measure) for measure in measures], errors)
        found |= {f"{row.metric}_{measure}_se": getattr(row, f"{measure}_se") for measure in measures}
    return found


def published(model: str, reported: Reported, **more: Any) -> dict[str, Any]:
    """Line of the paper."""
    found: dict[str, Any] = {"model": f"paper: {model} (Storm)", "runs": None, **more}
    for metric, values in reported.items():
        found |= cells(metric, values)
    return found


def cells(metric: str, values: Sequence[float | None], errors: Sequence[float | None] = (None, None)) -> dict[str, Any]:
    """Cells of a metric: (median, 95 %) of q-errors or (accuracy,), as text with standard errors and as number."""
    if metric in BINARY_METRICS:
        accuracy, error = values[0], errors[0]
        text = None if accuracy is None else f"{accuracy:.1%}" + ("" if error is None else f" ± {error:.1%}")
        return {metric: text, f"{metric}_accuracy": accuracy}
    q50, q95 = values
    shown = [_factor(q) + _beside(error) for q, error in zip(values, errors, strict=True) if q is not None]
    text = " / ".join(shown) if len(shown) == 2 else None
    return {metric: text, f"{metric}_q50": q50, f"{metric}_q95": q95}


def _factor(value: float) -> str:
    """Text of a factor >= 1, such that the part above 1 has at least two digits."""
    for below, form in ((1.1, ".3f"), (10, ".2f"), (100, ".1f")):
        if value < below:
            return format(value, form)
    return f"{value:,.0f}"


def _beside(error: float | None) -> str:
    return "" if error is None else f" ± {error:.2g}"


ONE_CLASS = """
- All runs of some of these corpora are alike in RO or S: the cell then has the share that is predicted right.
"""


def block(
    reported: Mapping[str, Reported], models: Iterable[Fitted], dataset: Dataset, seed: int, **about: Any
) -> Iterator[Row]:
    """Lines of the paper, and one for each model over all rows of the dataset. about: cells that all of them have."""
    for name, figures in reported.items():
        yield published(name, figures, **about)
    for model in models:
        yield every_row(model, dataset, seed, **about) | _one_class(model, dataset)


def _one_class(model: Fitted, dataset: Dataset) -> dict[str, Any]:
    """Cells of binary metrics whose rows all have one class: the share that is right, in place of an accuracy."""
    predicted = model.predict(dataset)
    cells: dict[str, Any] = {}
    for metric in BINARY_METRICS:
        labels = dataset.label_G(metric)
        if metric in predicted and labels.min() == labels.max():
            right = float(np.mean((predicted[metric] > 0.5) == (labels > 0.5)))
            cells |= {metric: f"{right:.1%} of one class", f"{metric}_right": right}
    return cells


PAPERS, FLAT = "GNN (paper)", "Flat Vector (raw)"
LEVELS = apart(
    "levels of q-errors and accuracies",
    "measured on Storm",
    "simulated",
    "a simulated corpus has less noise than a cluster, and other tails",
)


def rivals(rows: Rows) -> Rows:
    """Compares the paper's network with Flat Vector in each metric; rows: `line`s of one seed or several."""
    return [*(_before(rows, metric) for metric in SHORT), LEVELS]


def _before(rows: Rows, metric: str) -> Row:
    lower = metric in REGRESSION_METRICS
    key, form = (f"{metric}_q50", ".3g") if lower else (f"{metric}_accuracy", ".1%")
    ours, flat = (
        {_compared(row): row[key] for row in rows if row["model"] == name and row.get(key)} for name in (PAPERS, FLAT)
    )
    what, both = f"{SHORT[metric]}: Costream's network before Flat Vector", [each for each in ours if each in flat]
    if not both:
        return apart(what, "yes", "-", "one class, or no label")
    good = sum((ours[each] < flat[each]) == lower for each in both)
    text = f"{good} of {len(both)}: {span(list(ours.values()), form)} against {span(list(flat.values()), form)}"
    return shape(what, "yes", text, good == len(both))


def _compared(row: Mapping[str, Any]) -> tuple[Any, ...]:
    """Key that two lines must share to be compared."""
    return row.get("queries"), row.get("training_seed")
