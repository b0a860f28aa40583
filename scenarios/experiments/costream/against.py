"""What Costream's paper says of its tables and figures, beside the rows of ours; a function a page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from scenarios.experiments.costream.judging import SHORT
from scenarios.experiments.shapes import Row, apart, shape, span
from twin.metrics import REGRESSION_METRICS

Rows = Sequence[Mapping[str, Any]]
NOISE = "a simulated corpus has less noise than a cluster, and other tails"
LEVELS = apart("levels of q-errors and accuracies", "measured on Storm", "simulated", NOISE)
PAPERS, FLAT = "GNN (paper)", "Flat Vector (raw)"


def rivals(rows: Rows) -> list[Row]:
    """The paper's network before Flat Vector, in each metric; rows: of `judging.line`s, a seed's or several."""
    return [*(_before(rows, metric) for metric in SHORT), LEVELS]


def _before(rows: Rows, metric: str) -> Row:
    lower = metric in REGRESSION_METRICS
    key, form = (f"{metric}_q50", ".3g") if lower else (f"{metric}_accuracy", ".1%")
    ours, flat = (
        {_judged(row): row[key] for row in rows if row["model"] == name and row.get(key)} for name in (PAPERS, FLAT)
    )
    what, both = f"{SHORT[metric]}: Costream's network before Flat Vector", [each for each in ours if each in flat]
    if not both:
        return apart(what, "yes", "-", "one class, or no label")
    good = sum((ours[each] < flat[each]) == lower for each in both)
    text = f"{good} of {len(both)}: {span(list(ours.values()), form)} against {span(list(flat.values()), form)}"
    return shape(what, "yes", text, good == len(both))


def _judged(row: Mapping[str, Any]) -> tuple[Any, ...]:
    """What two lines must share to be compared."""
    return row.get("queries"), row.get("training_seed")


def bounded(rows: Rows, bounds: Mapping[str, float]) -> list[Row]:
    """Groups of runs against one bound for all, Figs. 7 and 8; rows: q50 or accuracy by metric and group."""
    found = []
    for name, key, better in (("q_error", "q50", min), ("accuracy", "accuracy", max)):
        if name in bounds:
            values = [row[key] for row in rows if row["model"] == PAPERS and row[key] is not None]
            good = sum(better(value, bounds[name]) == value for value in values)
            text = f"{good} of {len(values)}, {span(values, '.3g')}"
            what = f"groups with a median {name.replace('_', '-')} within {bounds[name]}"
            found.append(
                shape(what, "all", text, good == len(values)) if values else apart(what, "all", "-", "too few runs")
            )
    return [*found, LEVELS]


def features(rows: Rows) -> list[Row]:
    """Fig. 12."""
    medians = [row["q50"] for row in rows]
    ours = " > ".join(f"{each:.3g}" for each in medians)
    falling = medians[0] > medians[1] > medians[2]
    return [shape("Le: placement helps, and hardware more", "2.6 > 2.22 > 1.37", ours, falling), LEVELS]


def schemes(rows: Rows) -> list[Row]:
    """Fig. 13; rows: the traditional scheme first."""
    half = len(rows) // 2
    found = []
    for before, after in zip(rows[:half], rows[half:], strict=True):
        text = f"{after['q50']:.4g} against {before['q50']:.4g}"
        found.append(shape(f"{after['metric']}: three phases are better", "yes", text, after["q50"] < before["q50"]))
    return [*found, LEVELS]
