"""Judging of contestants on rows of a corpus, beside the numbers that Costream published."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from papers.interface import Row, Rows, apart, shape, span
from twin.metrics import BINARY_METRICS, REGRESSION_METRICS

if TYPE_CHECKING:
    from models.dataset import Dataset
    from models.evaluation import ErrorRow
    from models.predictors import Fitted


# published numbers ---------------------------------------------------------------------------------------------------
# Published numbers of the Costream paper (on Apache Storm): q-errors as (median, 95 %), accuracies as shares.


Reported = Mapping[str, tuple[float, ...]]
"""Numbers for each metric: (median, 95 %) of the q-error, or (accuracy,)."""


def _reported(
    *, t: tuple[float, float], le: tuple[float, float], lp: tuple[float, float], ro: float, s: float
) -> Reported:
    return {
        "throughput_per_s": t,
        "processing_latency_s": lp,
        "e2e_latency_s": le,
        "backpressured": (ro / 100,),
        "success": (s / 100,),
    }


TABLE_III = {
    "Costream": _reported(t=(1.33, 5.60), le=(1.37, 13.28), lp=(1.46, 13.90), ro=87.89, s=94.96),
    "Flat Vector": _reported(t=(9.92, 590.34), le=(24.96, 827.59), lp=(22.87, 458.14), ro=68.70, s=76.85),
}

TABLE_IV = {
    "Costream": _reported(t=(1.37, 8.28), le=(1.59, 25.33), lp=(1.54, 17.78), ro=88.04, s=87.13),
    "Flat Vector": _reported(t=(15.63, 282.50), le=(63.79, 869.85), lp=(27.85, 282.50), ro=72.83, s=68.32),
}

TABLE_V = {
    "stronger-ram": _reported(t=(1.66, 5.88), le=(1.85, 29.08), lp=(1.88, 11.32), ro=85.37, s=77.00),
    "stronger-cpu": _reported(t=(1.72, 9.40), le=(1.67, 9.43), lp=(1.75, 6.81), ro=86.59, s=93.14),
    "stronger-bandwidth": _reported(t=(1.48, 6.55), le=(1.75, 17.18), lp=(1.63, 13.89), ro=86.59, s=87.25),
    "stronger-latency": _reported(t=(1.52, 5.60), le=(3.55, 30.90), lp=(3.83, 19.43), ro=88.89, s=92.93),
    "weaker-ram": _reported(t=(1.79, 7.60), le=(1.72, 13.69), lp=(1.49, 13.27), ro=91.03, s=78.79),
    "weaker-cpu": _reported(t=(1.61, 13.16), le=(2.75, 111.53), lp=(2.96, 77.56), ro=75.00, s=86.67),
    "weaker-bandwidth": _reported(t=(1.42, 5.30), le=(1.46, 5.30), lp=(1.68, 12.94), ro=91.92, s=92.59),
    "weaker-latency": _reported(t=(3.25, 33.65), le=(2.10, 54.13), lp=(6.09, 406.83), ro=67.82, s=74.51),
}

FIGURE_7 = {"q_error": 1.6, "accuracy": 0.85}
"""Bounds over all hardware ranges (Section VII-A): the median q-error is "1.6 or better", the accuracy "above 85 %"."""

FIGURE_8 = {"q_error": 1.6}
"""Bound for every query type (Section VII-A): "below 1.6"."""

FIGURE_12 = {"operators": 2.6, "placement": 2.22, "table1": 1.37}
"""Median q-error of the end-to-end latency by what the model sees (Section VII-G)."""

TABLE_VI_A = {
    2: {
        "Costream": _reported(t=(2.74, 64.35), le=(1.68, 21.81), lp=(1.69, 48.26), ro=88, s=100),
        "Flat Vector": _reported(t=(5.52, 244.38), le=(259.98, 2302.38), lp=(48.93, 341.70), ro=68, s=4),
    },
    3: {
        "Costream": _reported(t=(2.87, 75.29), le=(2.15, 11.81), lp=(1.64, 5.41), ro=85, s=100),
        "Flat Vector": _reported(t=(18.82, 1078.26), le=(536.38, 1855.05), lp=(63.62, 266.80), ro=79, s=6),
    },
    4: {
        "Costream": _reported(t=(5.51, 445.87), le=(2.68, 23.99), lp=(1.61, 5.38), ro=82, s=100),
        "Flat Vector": _reported(t=(82.71, 3672.13), le=(538.10, 1877.68), lp=(55.27, 270.36), ro=79, s=6),
    },
}
"""Errors by the number of filters in a row."""

TABLE_VI_B = {
    "advertisement": {
        "Costream": _reported(t=(1.98, 11.01), le=(2.02, 15.08), lp=(2.27, 15.01), ro=85, s=100),
        "Flat Vector": _reported(t=(3.12, 46.11), le=(1.32, 40.59), lp=(3.62, 41.37), ro=80, s=100),
    },
    "spike-detection": {
        "Costream": _reported(t=(3.67, 66.48), le=(1.41, 17.55), lp=(1.63, 12.92), ro=78, s=100),
        "Flat Vector": _reported(t=(274.04, 891.99), le=(2.28, 1017.96), lp=(5.32, 339.82), ro=55, s=0),
    },
    "smart-grid-global": {
        "Costream": _reported(t=(1.44, 5.98), le=(2.01, 50.17), lp=(1.48, 12.70), ro=81, s=100),
        "Flat Vector": _reported(t=(104.79, 106.06), le=(118.77, 639.79), lp=(35.48, 161.60), ro=29, s=100),
    },
    "smart-grid-local": {
        "Costream": _reported(t=(1.43, 10.51), le=(1.67, 31.00), lp=(1.54, 7.96), ro=86, s=100),
        "Flat Vector": _reported(t=(104.79, 106.12), le=(143.22, 669.20), lp=(37.57, 174.38), ro=23, s=100),
    },
}
"""Errors by the scenario of the library."""

FIGURE_11 = {"before": {2: 2.74, 3: 2.87, 4: 5.51}, "after": {4: 1.61}}
"""Median q-error of the throughput by the number of filters in a row, before and after 3,000 additional queries. Values
that the text does not give are only drawn, and left out here."""


# contestants ---------------------------------------------------------------------------------------------------------
# Judging of contestants on rows of a corpus: a line for each one, below the paper's lines; and comparisons.


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
