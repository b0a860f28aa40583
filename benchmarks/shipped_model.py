"""The model that is shipped: its card and its file, from a corpus over the wide space.

    twin corpus corpus --runs 3000 --seed 1 --space wide
    twin dataset corpus rows
    twin train rows model --preset residual
    python -m benchmarks.shipped_model rows model

writes models/shipped/all.msgpack and models/shipped/card.md. All figures are over the tenth of the runs that no
network saw, and all of them are of simulated runs. The curves of the training are left out of the file.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from models import checkpoint, evaluation, prediction
from models.calibration import SHARE, half_width
from models.checkpoint import Ensemble
from models.dataset import Dataset
from models.labels import KINDS, kinds_of_plans
from models.predictors import FittedNetworks, RateModelAlone
from models.shipped import FOLDER
from scenarios.learning.learner import rows_of, training_split
from twin.atomic import write_text
from twin.metrics import METRICS, REGRESSION_METRICS, TABLE

HEAD = """# The shipped cost model

Every number here is of **simulated** runs; nothing was measured on a real cluster.

A graph neural network ({members} members, {size:,.0f} kB) that corrects the analytic rate model, for
`--cost-model learned`. Regressions are learned as ratios to the rate model's answer, backpressure and success as
offsets of its logits; the networks begin at no correction, and a gate a metric, fitted on validation rows, holds back
what does not help.

Trained on {train:,} runs of the space `wide` ({valid:,} more to stop and to calibrate, {test:,} held out): engines
whose costs lie in three decades below `storm`'s, variability, credits, batches, context switches and memory laws drawn
beside them; one to three sources, filters, maps, joins by selectivity or as measured, keyed and plain aggregates; one
to four replicas; 2 to 8 hosts of half a core to 32, a quarter of them with sockets; utilisations of 0.02 to 3; runs of
{shortest:.2g} to {longest:.3g} s. Not in it: events, policies, links, skewed keys, broadcasts and other partitionings,
pauses of a collector. `twin optimize` says what of a job a model does not see.
"""


def card(model: prediction.LearnedCostModel, rows: Dataset) -> str:
    """The text of card.md."""
    (ensemble,) = model.ensembles
    parts = training_split(model, rows)
    held = rows.take(parts.test)
    low_s, high_s = ensemble.manifest["horizons_s"]
    sizes = {name: len(part) for name, part in parts._asdict().items()}
    size = sum(leaf.size for member in ensemble.members for leaf in _leaves(member)) * 4 / 1000
    head = HEAD.format(members=len(ensemble.members), size=size, shortest=low_s, longest=high_s, **sizes)
    return "\n".join(
        [head, *_gates(ensemble), *_errors(model, held), *_kinds(model, held), *_coverage(model, held), ""]
    )


def _leaves(node: Any) -> Iterator[np.ndarray]:
    if isinstance(node, dict):
        for child in node.values():
            yield from _leaves(child)
    else:
        yield np.asarray(node)


def _gates(ensemble: Ensemble) -> list[str]:
    """A table: how much of the correction counts."""
    lines = ["## Gates", "", "Share of the correction that counts.", ""]
    lines += ["| plans | " + " | ".join(TABLE[name].symbol for name in ensemble.metrics) + " |"]
    lines += ["|---" * (1 + len(ensemble.metrics)) + "|"]
    rows = zip(KINDS, ensemble.scaling.gate, strict=True)
    return [*lines, *(f"| {kind} | " + " | ".join(f"{gate:g}" for gate in gates) + " |" for kind, gates in rows), ""]


def _errors(model: prediction.LearnedCostModel, held: Dataset) -> list[str]:
    fitted = (FittedNetworks("learned", model), RateModelAlone())
    found = {(row.metric, row.model): row for each in fitted for row in evaluation.evaluate(each, held)}
    lines = ["## Held-out error", "", "q-error, median / 95 %; of yes or no, balanced accuracy.", ""]
    lines += ["| metric | learned | rate model alone |", "|---|---|---|"]
    return lines + [
        f"| {metric} | " + " | ".join(_words(found[metric, each.name]) for each in fitted) + " |" for metric in METRICS
    ]


def _words(row: evaluation.ErrorRow) -> str:
    if row.accuracy is not None:
        return f"{row.accuracy:.1%}"
    return f"{row.q50:.3f} / {row.q95:.2f}"


def _kinds(model: prediction.LearnedCostModel, held: Dataset) -> list[str]:
    """The 95 % of the processing latency's q-error, by what the rate model says of a plan."""
    name, kinds = "processing_latency_s", kinds_of_plans(held.rates_GxA)
    found = model.predict_graphs(held.graphs).cost(name)
    truth = held.label_G(name)
    lines = [
        "",
        "## Processing latency, by kind of plan",
        "",
        "| plans | runs | learned | rate model |",
        "|---|---|---|---|",
    ]
    for kind, words in enumerate(KINDS):
        rows = (kinds == kind) & ~np.isnan(truth)
        if rows.any():
            errors = [evaluation.q_error(truth[rows], each[rows]) for each in (found, held.rates_G(name))]
            shown = " | ".join(f"{np.median(each):.3f} / {np.quantile(each, 0.95):.2f}" for each in errors)
            lines.append(f"| {words} | {int(rows.sum())} | {shown} |")
    return lines


def _coverage(model: prediction.LearnedCostModel, held: Dataset) -> list[str]:
    """How often the simulated value lies in the interval, and how wide that is."""
    found = model.predict_graphs(held.graphs)
    interval = model.ensembles[0].manifest["interval"]
    lines = [
        "",
        f"## Intervals of {SHARE:.0%}",
        "",
        "| metric | held-out runs inside | median factor up and down |",
        "|---|---|---|",
    ]
    for metric in REGRESSION_METRICS:
        half = half_width(interval, metric, found.spread(metric), found.rates_NxA)
        errors = np.abs(np.log(np.maximum(held.label_G(metric), 1e-6)) - np.log(found.cost(metric)))
        known = ~np.isnan(errors)
        inside = float((errors <= half)[known].mean())
        lines.append(f"| {metric} | {inside:.1%} | {float(np.exp(np.median(half[known]))):.3f} |")
    return lines


def slim(ensemble: Ensemble) -> Ensemble:
    """Without the curves of its training."""
    members = [{**each, "curve": []} for each in ensemble.manifest["members"]]
    return replace(ensemble, manifest={**ensemble.manifest, "members": members})


def main(arguments: Sequence[str] | None = None) -> None:
    """See the module's documentation."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("rows", type=Path)
    parser.add_argument("model", type=Path)
    given = parser.parse_args(arguments)
    model, rows = prediction.load(given.model), rows_of(given.rows)
    text = card(model, rows)
    for ensemble in model.ensembles:
        checkpoint.save(slim(ensemble), FOLDER)
    write_text(FOLDER / "card.md", text)
    print(text)


if __name__ == "__main__":
    main()
