"""Costream, Fig. 12: what the model must see to predict the end-to-end latency."""

from __future__ import annotations

from typing import Any

from papers.costream import against
from papers.costream.judging import judged
from papers.costream.published import FIGURE_12
from papers.interface import Experiment, Result, Table
from papers.recipes import main_corpus
from papers.shapes import against as compared
from papers.sizes import Sizes
from papers.workspace import Workspace

METRIC = "e2e_latency_s"
SEEN = {
    "operators": "operators only",
    "placement": "operators and placement",
    "table1": "operators, placement and hardware",
}
"""Feature set -> what the network sees."""


def run(workspace: Workspace, sizes: Sizes) -> Result:
    """The paper's architecture with ever more features; each network is trained and judged on the same rows."""
    from figures.bars import grouped_bars
    from papers.costream import rivals

    recipe = main_corpus(sizes, workspace.seed)
    dataset, parts = workspace.dataset(recipe), workspace.split(recipe)
    rows = list[dict[str, Any]]()
    for features, meaning in SEEN.items():
        model = workspace.fitted(rivals.paper(sizes, features=features), recipe, metrics=[METRIC])
        (found,) = judged(model, dataset, workspace.seed, parts.test)
        row = {"seen": meaning, "features": features, "runs": found.rows, "q50": found.q50, "q95": found.q95}
        row |= {"q50_se": found.q50_se, "q95_se": found.q95_se}
        rows.append({**row, "paper_q50": FIGURE_12[features]})
    columns = {
        "seen": "the network sees",
        "runs": "runs",
        "q50": "q-error median",
        "q50_se": "its standard error",
        "q95": "q-error 95 %",
        "q95_se": "its standard error",
        "paper_q50": "paper: median",
    }
    drawn: dict[str, list[Any]] = {
        "group": [row["seen"].replace(" ", "\n", 1) for _ in range(2) for row in rows],
        "series": ["paper's architecture, simulated corpus"] * len(rows) + ["paper (Storm)"] * len(rows),
        "value": [row[key] for key in ("q50", "paper_q50") for row in rows],
    }
    title = "End-to-end latency (Le) of held-out runs of the simulated corpus, by what the network sees"
    figures = {"features": lambda: grouped_bars(drawn, "median q-error of Le (log scale)")}
    tables = {"features": Table(title, columns, tuple(rows)), "against": compared(against.features(rows))}
    return Result(tables, figures)


FIG12 = Experiment(
    name="costream.fig12",
    source="Costream, Fig. 12, Exp. 7a",
    summary="feature ablation: operators only, with placement, with hardware",
    run=run,
    recipes=lambda sizes, seed: [main_corpus(sizes, seed)],
)
