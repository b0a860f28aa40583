"""Costream, Figs. 12 and 13: latency predictions by what the model sees, and by its order of messages."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from math import hypot

from papers.costream.judging import FIGURE_12, LEVELS, SHORT, judged
from papers.drawing import bars
from papers.interface import CaseTable, Experiment, Row, Rows, apart, grid, shape
from papers.sizes import main_corpus
from papers.workspace import Workspace
from twin.metrics import REGRESSION_METRICS

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
