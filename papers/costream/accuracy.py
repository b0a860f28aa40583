"""Costream's errors on runs like those of its training: Table III, Figs. 7 and 8, and ablations (Figs. 12, 13)."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from itertools import pairwise
from math import hypot
from typing import TYPE_CHECKING, Any

import numpy as np

from papers.costream.judging import (
    BY_SEED,
    FIGURE_7,
    FIGURE_8,
    FIGURE_12,
    LEVELS,
    PAPERS,
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
from papers.interface import CaseTable, Drawer, Experiment, Row, Rows, apart, bars, columns, grid, shape, span
from papers.workspace import Workspace, main_corpus
from twin.metrics import BINARY_METRICS, METRICS, REGRESSION_METRICS

if TYPE_CHECKING:
    from models.dataset import Dataset
    from models.evaluation import BreakdownRow

# all contestants: Table III ------------------------------------------------------------------------------------------
# Prediction errors of the five metrics for queries like those of the training corpus.


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
    from models.encoding import PerturbedCosts
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


# by hardware and by type: Figs. 7 and 8 ------------------------------------------------------------------------------
# Errors by the mean hardware of the hosts that carry a query, and by its type.


FEWEST = 10
"""Least number of runs with the label, and of each class, in a group that has a value."""
KIND = {metric: "q_error" if metric in REGRESSION_METRICS else "accuracy" for metric in METRICS}
EDGES: Mapping[str, tuple[str, tuple[float, ...]]] = {
    "cpu_percent": ("CPU (% of a core)", (50, 200, 300, 400, 500, 600, 800)),
    "ram_mb": ("RAM (GB)", (1000, 4000, 8000, 12000, 16000, 24000, 32000)),
    "bandwidth_mbps": ("bandwidth (Mbit/s)", (25, 200, 800, 1600, 3200, 6400, 10000)),
    "latency_ms": ("latency (ms)", (1, 10, 20, 40, 80, 160)),
}
"""Label and ends of the ranges of each hardware feature, chosen so that each range holds a fair share of the runs."""
TYPES = {1: "linear", 2: "2-way join", 3: "3-way join"}
"""Query types by the number of sources."""


@dataclass(frozen=True)
class RowGroup:
    """Group of some rows of a dataset under a name; groups of one dimension are drawn together. rows: indices."""

    dimension: str
    name: str
    rows: np.ndarray


def by_hardware(dataset: Dataset) -> list[RowGroup]:
    """Groups of all rows by each hardware feature; a range holds its lower end, the last one both."""
    groups = []
    for feature, (label, edges) in EDGES.items():
        mean = dataset.about[f"{feature}_mean"]
        scale = 1000 if feature == "ram_mb" else 1
        for low, high in itertools.pairwise(edges):
            inside = (mean >= low) & ((mean < high) | (high == edges[-1]))
            groups.append(RowGroup(label, f"{low / scale:g}–{high / scale:g}", np.flatnonzero(inside)))
    return groups


def by_type(dataset: Dataset) -> list[RowGroup]:
    """Groups of all rows by number of sources, without and with an aggregation."""
    sources, aggregates = (dataset.about[name] for name in ("sources", "aggregates"))
    return [
        RowGroup("query type", name + ending, np.flatnonzero((sources == count) & ((aggregates > 0) == aggregated)))
        for count, name in TYPES.items()
        for aggregated, ending in ((False, ""), (True, " + aggregation"))
    ]


def errors(groups_of: Callable[[Dataset], Sequence[RowGroup]], workspace: Workspace, contestant: str) -> Iterator[Row]:
    """Rows of a contestant's errors over groups of the test rows of the main corpus."""
    from papers.costream import planners

    recipe = main_corpus(workspace.sizes, workspace.seed)
    dataset = workspace.dataset(recipe).take(workspace.split(recipe).test)
    model = (planners.paper if contestant == "paper" else planners.ours)(workspace.sizes)
    found = workspace.fitted(model, recipe).predict(dataset)
    for group in groups_of(dataset):
        for metric in METRICS:
            yield _row(model.name, dataset, group, metric, found[metric])


def _row(model: str, dataset: Dataset, group: RowGroup, metric: str, estimate: np.ndarray) -> Row:
    """Row of one group and metric. Balanced accuracy is over all rows of the group, not over equally many of each
    class, because groups are small."""
    from models import evaluation

    labels = dataset.label_G(metric)[group.rows]
    known = ~np.isnan(labels)
    found = evaluation.row(metric, model, labels[known], np.asarray(estimate)[group.rows][known])
    smaller = known.sum() if metric in REGRESSION_METRICS else min((labels == value).sum() for value in (0, 1))
    values = {name: getattr(found, name) if smaller >= FEWEST else None for name in ("q50", "q95", "accuracy")}
    about = {
        "dimension": group.dimension,
        "group": group.name,
        "metric": SHORT[metric],
        "quantity": KIND[metric],
        "runs": int(known.sum()),
    }
    return {"model": model, **about, **values}


def bounded(bounds: Mapping[str, float], rows: Rows) -> Rows:
    """Compares groups of runs with one bound for all; rows: q50 or accuracy by metric and group."""
    shapes: list[Row] = []
    for name, key, better in (("q_error", "q50", min), ("accuracy", "accuracy", max)):
        if name in bounds:
            values = [row[key] for row in rows if row["model"] == PAPERS and row[key] is not None]
            good = sum(better(value, bounds[name]) == value for value in values)
            text = f"{good} of {len(values)}, {span(values, '.3g')}"
            what = f"groups with a median {name.replace('_', '-')} within {bounds[name]}"
            shapes.append(
                shape(what, "all", text, good == len(values)) if values else apart(what, "all", "-", "too few runs")
            )
    return [*shapes, LEVELS]


def _value(row: Row) -> float:
    value = row["q50" if row["quantity"] == "q_error" else "accuracy"]
    return float("nan") if value is None else float(value)


def figures(bounds: Mapping[str, float]) -> dict[str, Drawer]:
    """Drawers of figures, one for each contestant."""
    same: dict[str, Any] = {name: name for name in ("dimension", "group", "metric", "quantity")}
    return {
        name: columns(
            "plans.error_by_group",
            bounds,
            "bound in the paper",
            only={"contestant": [contestant]},
            **same,
            value=_value,
        )
        for name, contestant in (("paper_architecture", "paper"), ("ours", "ours"))
    }


def by_group(groups_of: Callable[[Dataset], Sequence[RowGroup]], bounds: Mapping[str, float], title: str) -> CaseTable:
    """Table of two contestants, the paper's architecture and ours. bounds: what the paper says of its median `q_error`
    and `accuracy` in all groups."""
    return CaseTable(
        title=title,
        columns="""
            model | dimension: by | group: range | metric | runs | q50: q-error median | q95: q-error 95 % |
            accuracy: balanced accuracy | paper: bound in the paper
        """,
        cases=grid(contestant=("paper", "ours")),
        measure=partial(errors, groups_of),
        published=bounds,
        by=("quantity",),
        shapes=partial(bounded, bounds),
    )


FIG7 = Experiment(
    name="costream.fig7",
    source="Costream, Fig. 7, Exp. 1",
    summary="prediction errors by CPU, RAM, bandwidth and latency",
    tables={
        "errors": by_group(
            by_hardware,
            FIGURE_7,
            "Errors on held-out runs of the simulated corpus, by the mean of a feature over the hosts in use",
        )
    },
    figures=figures(FIGURE_7),
    recipes=lambda sizes, seed: [main_corpus(sizes, seed)],
)
FIG8 = Experiment(
    name="costream.fig8",
    source="Costream, Fig. 8, Exp. 1",
    summary="prediction errors by query type",
    tables={"errors": by_group(by_type, FIGURE_8, "Errors on held-out runs of the simulated corpus, by query type")},
    figures=figures(FIGURE_8),
    recipes=lambda sizes, seed: [main_corpus(sizes, seed)],
)


# ablations: Figs. 12 and 13 ------------------------------------------------------------------------------------------
# Latency predictions by what the model sees, and by its order of messages.


METRIC = "e2e_latency_s"
SEEN = {
    "operators": "operators only",
    "placement": "operators and placement",
    "table1": "operators, placement and hardware",
}
"""What the network sees, in words, by feature set."""
SCHEMES = {"traditional": "traditional: all neighbours, in rounds", "costream": "Costream: three phases"}
ERRORS = "runs | q50: q-error median | q50_se: its standard error | q95: q-error 95 % | q95_se: its standard error"


def seeing(workspace: Workspace, features: str) -> Row:
    """Errors of the paper's architecture with a feature set; each network is trained and judged on the same rows."""
    (row,) = _errors(workspace, (METRIC,), features=features)
    return {**row, "seen": SEEN[features]}


def passing(workspace: Workspace, scheme: str) -> Iterator[Row]:
    """Errors of the paper's architecture with a scheme of message passing, on the same rows."""
    for row in _errors(workspace, REGRESSION_METRICS, scheme=scheme):
        yield {**row, "scheme": SCHEMES[scheme]}


def _errors(workspace: Workspace, metrics: tuple[str, ...], **network: str) -> Iterator[Row]:
    """Errors on the held-out rows, metric by metric."""
    from papers.costream import planners

    recipe = main_corpus(workspace.sizes, workspace.seed)
    dataset, test = workspace.dataset(recipe), workspace.split(recipe).test
    model = workspace.fitted(planners.paper(workspace.sizes, **network), recipe, metrics=metrics)
    for found in judged(model, dataset, workspace.seed, test):
        errors = {key: getattr(found, key) for key in ("q50", "q50_se", "q95", "q95_se")}
        yield {"metric": SHORT[found.metric], "runs": found.rows, **errors}


QUANTILES = {"q50": "median", "q95": "95 %"}
SURE = 2.0
"""Standard errors by which two quantiles must differ, or it may be chance. They are of the runs that both networks are
judged on, taken as independent; the difference that a second training would make is not in them."""


def feature_shapes(rows: Rows) -> Rows:
    """Compares both quantiles from step to step; rows: by what the network sees, from the least."""
    steps = {"placement helps": "2.6 > 2.22", "hardware helps": "2.22 > 1.37"}
    return [
        *(
            _lower(f"Le, {words}: {what}", medians if key == "q50" else "yes", *pair, key)
            for key, words in QUANTILES.items()
            for (what, medians), pair in zip(steps.items(), pairwise(rows), strict=True)
        ),
        LEVELS,
    ]


def scheme_shapes(rows: Rows) -> Rows:
    """Compares both quantiles of each metric between the schemes; rows: the traditional scheme first."""
    half = len(rows) // 2
    return [
        *(
            _lower(f"{after['metric']}, {words}: three phases are better", "yes", before, after, key)
            for key, words in QUANTILES.items()
            for before, after in zip(rows[:half], rows[half:], strict=True)
        ),
        LEVELS,
    ]


def _lower(what: str, paper: str, before: Row, after: Row, key: str) -> Row:
    """Verdict on whether a quantile is lower afterwards."""
    values, errors = ([row[name] for row in (before, after)] for name in (key, f"{key}_se"))
    text = " > ".join(f"{value:.4g} ± {error:.2g}" for value, error in zip(values, errors, strict=True))
    sure = abs(values[0] - values[1]) > SURE * hypot(*errors)
    lower = values[1] < values[0]
    text = text if lower else text.replace(">", "<")
    return shape(what, paper, text, lower) if sure else apart(what, paper, text, f"within {SURE:g} standard errors")


FIG12 = Experiment(
    name="costream.fig12",
    source="Costream, Fig. 12, Exp. 7a",
    summary="feature ablation: operators only, with placement, with hardware",
    tables={
        "features": CaseTable(
            title="End-to-end latency (Le) of held-out runs of the simulated corpus, by what the network sees",
            columns=f"seen: the network sees | {ERRORS} | paper_q50: paper: median",
            cases=grid(features=SEEN),
            measure=seeing,
            published={features: {"paper_q50": median} for features, median in FIGURE_12.items()},
            by=("features",),
            shapes=feature_shapes,
        )
    },
    figures={
        "features": bars(
            "median q-error of Le (log scale)",
            group=lambda row: row["seen"].replace(" ", "\n", 1),
            value={"q50": "paper's architecture, simulated corpus", "paper_q50": "paper (Storm)"},
            factors=True,
        )
    },
    recipes=lambda sizes, seed: [main_corpus(sizes, seed)],
)
FIG13 = Experiment(
    name="costream.fig13",
    source="Costream, Fig. 13, Exp. 7b",
    summary="message passing ablation: Costream's three phases against traditional rounds",
    tables={
        "schemes": CaseTable(
            title="Held-out runs of the simulated corpus, by the scheme of message passing",
            columns=f"scheme: message passing | metric | {ERRORS}",
            cases=grid(scheme=SCHEMES),
            measure=passing,
            shapes=scheme_shapes,
        )
    },
    figures={"schemes": bars("median q-error (log scale)", group="metric", series="scheme", value="q50", factors=True)},
    notes="""
- The paper shows its Fig. 13 as bars without figures: Costream's scheme is better for all three metrics.
""",
    recipes=lambda sizes, seed: [main_corpus(sizes, seed)],
)
