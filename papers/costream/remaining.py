"""Where the remaining error sits, stratum by stratum, and what part of it no model can avoid."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from papers.costream.judging import SHORT, cells
from papers.interface import Table
from twin.metrics import BINARY_METRICS

if TYPE_CHECKING:
    from models.dataset import Dataset
    from models.predictors import Fitted

NOTE = (
    "Of a regression the error is the squared logarithm of the q-error, of a class the share of wrong answers; strata "
    "of different kinds overlap. *Noise* is the part of the first contestant's error that two runs of one "
    "configuration with different seeds show as well, so that no model can avoid it; above 100 % it says that the "
    "replicates are few."
)


def tables(models: Sequence[Fitted], dataset: Dataset, rows: np.ndarray) -> dict[str, Table]:
    """A table a metric over some rows: every model's errors, and the first one's remaining error taken apart."""
    from models.error_breakdown import error_breakdown

    found = [error_breakdown(model, dataset, rows) for model in models]
    return {
        f"where_{metric}": _table(metric, [[row for row in each if row.metric == metric] for each in found])
        for metric in SHORT
    }


def _table(metric: str, by_model: Sequence[Sequence[Any]]) -> Table:
    """by_model: strata rows of this metric, for each model in the same order."""
    what = "accuracy" if metric in BINARY_METRICS else "q-error median / 95 %"
    columns = {"stratum": "stratum", "runs": "runs"}
    columns |= {f"model{number}": rows[0].model for number, rows in enumerate(by_model)}
    columns |= {"share": f"share of the error of {by_model[0][0].model}", "noise": "noise in it"}
    lines = []
    for same_stratum in zip(*by_model, strict=True):
        first = same_stratum[0]
        line = {"stratum": first.stratum, "runs": first.rows, "pairs": first.pairs}
        line |= {"share": _percent(first.share), "noise": _percent(first.noise_share)}
        for number, row in enumerate(same_stratum):
            values = cells(metric, (row.accuracy,) if metric in BINARY_METRICS else (row.q50, row.q95))
            line |= {name.replace(metric, f"model{number}"): value for name, value in values.items()}
        lines.append(line)
    title = f"Where the error of {SHORT[metric]} sits: {what}, held-out runs of the simulated corpus"
    return Table(title, columns, tuple(lines))


def _percent(share: float | None) -> str | None:
    return None if share is None else f"{share:.0%}"
