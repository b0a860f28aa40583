"""Costream, Fig. 13: Costream's order of messages against rounds in which all neighbours speak at once."""

from __future__ import annotations

from typing import Any

from papers.costream import against
from papers.costream.judging import SHORT, judged
from papers.interface import Experiment, Result, Table
from papers.recipes import main_corpus
from papers.shapes import against as compared
from papers.sizes import Sizes
from papers.workspace import Workspace
from twin.metrics import REGRESSION_METRICS

SCHEMES = {"traditional": "traditional: all neighbours, in rounds", "costream": "Costream: three phases"}


def run(workspace: Workspace, sizes: Sizes) -> Result:
    """The paper's architecture with either scheme, on the same rows."""
    from figures.bars import grouped_bars
    from papers.costream import rivals

    recipe = main_corpus(sizes, workspace.seed)
    dataset, parts = workspace.dataset(recipe), workspace.split(recipe)
    rows = []
    for scheme, meaning in SCHEMES.items():
        model = workspace.fitted(rivals.paper(sizes, scheme=scheme), recipe, metrics=REGRESSION_METRICS)
        for found in judged(model, dataset, workspace.seed, parts.test):
            row: dict[str, Any] = {"scheme": meaning, "metric": SHORT[found.metric], "runs": found.rows}
            errors = {"q50_se": found.q50_se, "q95_se": found.q95_se}
            rows.append({**row, "q50": found.q50, "q95": found.q95, **errors})
    columns = {
        "scheme": "message passing",
        "metric": "metric",
        "runs": "runs",
        "q50": "q-error median",
        "q50_se": "its standard error",
        "q95": "q-error 95 %",
        "q95_se": "its standard error",
    }
    drawn = {
        name: [row[key] for row in rows] for name, key in (("group", "metric"), ("series", "scheme"), ("value", "q50"))
    }
    title = "Held-out runs of the simulated corpus, by the scheme of message passing"
    figures = {"schemes": lambda: grouped_bars(drawn, "median q-error (log scale)")}
    notes = ("The paper shows its Fig. 13 as bars without figures: Costream's scheme is better for all three metrics.",)
    tables = {"schemes": Table(title, columns, tuple(rows)), "against": compared(against.schemes(rows))}
    return Result(tables, figures, notes)


FIG13 = Experiment(
    name="costream.fig13",
    source="Costream, Fig. 13, Exp. 7b",
    summary="message passing ablation: Costream's three phases against traditional rounds",
    run=run,
    recipes=lambda sizes, seed: [main_corpus(sizes, seed)],
)
