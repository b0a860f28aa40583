"""Card of a trained model: what it learned from, how its training went, and how far off it is on runs that it never
saw. Every figure of it is of simulated runs, unless its rows were measured."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from models import evaluation
from models.checkpoint import Ensemble
from models.dataset import Dataset
from models.labels import KINDS
from models.prediction import SHARE, LearnedCostModel
from models.predictors import Fitted, FittedNetworks
from twin.metrics import BINARY_METRICS, ESTIMATED, METRICS

TAIL = "e2e_latency_s.p99"
"""The quantile whose errors are shown by stratum."""


def card(
    model: LearnedCostModel, rivals: Sequence[Fitted], held: Mapping[str, Dataset], about: Mapping[str, object]
) -> str:
    """Text of the card. rivals: what the model is compared with. held: rows that no network saw, by the words for them.
    about: facts of the training that the model's files do not know, by their names."""
    trained = [*_facts(model.ensembles, about), *_members(model.ensembles), *_seen(model.ensembles)]
    lines = [f"# Cost model `{model.name}`", "", "Made by `twin train`; errors are on runs that it never saw.", ""]
    return "\n".join([*lines, *trained, *errors(model, rivals, held)])


def errors(model: LearnedCostModel, rivals: Sequence[Fitted], held: Mapping[str, Dataset]) -> list[str]:
    """Lines with the errors of a model beside its rivals and the replicate limit, by metric, kind of plan and stratum,
    and with what its intervals hold."""
    fitted = (FittedNetworks("learned", model), *rivals)
    lines = [line for each in model.ensembles if each.scaling.gate for line in gates(each)]
    for title, rows in held.items():
        lines += [*_errors(title, fitted, rows), *_kinds(fitted, rows), *_strata(fitted[:2], rows)]
    return [*lines, *_coverage(model, held), ""]


def table(header: Iterable[str], rows: Iterable[Iterable[str]]) -> list[str]:
    """Lines of a Markdown table, and an empty one."""
    cells = [list(header), *map(list, rows)]
    return ["| " + " | ".join(row) + " |" for row in (cells[0], ["---"] * len(cells[0]), *cells[1:])] + [""]


def gates(ensemble: Ensemble) -> list[str]:
    """Lines with the gates: the share of the correction that counts."""
    gate_MxK = zip(*ensemble.scaling.gate, strict=True)
    rows = ([name, *(f"{gate:g}" for gate in each)] for name, each in zip(ensemble.metrics, gate_MxK, strict=True))
    return [
        "## Gates",
        "",
        "Share of the correction that counts, by kind of plan.",
        "",
        *table(["metric", *KINDS], rows),
    ]


# training ------------------------------------------------------------------------------------------------------------


def _facts(ensembles: Sequence[Ensemble], about: Mapping[str, object]) -> list[str]:
    """Data and settings. All ensembles of a model are of one training."""
    manifest = ensembles[0].manifest
    low_s, high_s = manifest["horizons_s"]
    rows = ", ".join(f"{count:,} to {use}" for use, count in zip(USES, manifest["rows"].values(), strict=True))
    facts: dict[str, Any] = {**about, "rows": rows, "simulated time": f"{low_s:g} to {high_s:g} s a run"}
    facts |= {key: manifest[key] for key in ("version", "feature_version", "seed", "cores")}
    facts |= {"settings": ", ".join(f"{key} {value}" for key, value in _flat(manifest["settings"]))}
    return ["## Training", "", *(f"- {key.replace('_', ' ')}: {value}" for key, value in facts.items()), ""]


USES = ("learn from", "stop and calibrate by", "judge by")
"""Uses of the parts of a dataset, in the order of `RowSplit`."""


def _flat(settings: Mapping[str, Any]) -> list[tuple[str, Any]]:
    inner = [(key, value) for key, value in settings.items() if not isinstance(value, Mapping)]
    return inner + [each for value in settings.values() if isinstance(value, Mapping) for each in _flat(value)]


def _members(ensembles: Sequence[Ensemble]) -> list[str]:
    """Each network: its steps, and the loss that it was kept at. The curve is drawn beside the card."""
    rows = []
    for ensemble in ensembles:
        for number, member in enumerate(ensemble.manifest["members"], start=1):
            if not member["curve"]:  # of a model whose curves were left out
                continue
            step, _, loss = min(member["curve"], key=lambda point: point[2])
            rows.append([f"{ensemble.name} {number}", f"{step:,}", f"{member['curve'][-1][0]:,}", f"{loss:.4f}"])
    return [*table(["network", "kept at step", "of", "validation loss"], rows), "![Learning curve](learning_curve.png)"]


def _seen(ensembles: Sequence[Ensemble]) -> list[str]:
    """What was in the training rows: a query with a kind, or a word of one, that is not here is refused."""
    seen = ensembles[0].seen or {}
    if not seen:
        return []
    kinds = ", ".join(f"{name} ({count:,})" for name, count in sorted(seen.items()) if " " not in name)
    demands = ", ".join(ensembles[0].manifest["demands"])
    words = f" It learned from {demands} that vary." if demands else ""
    return ["", "## Seen in training", "", f"{kinds}.{words}", ""]


# errors --------------------------------------------------------------------------------------------------------------


def _errors(title: str, fitted: Sequence[Fitted], held: Dataset) -> list[str]:
    found = {(row.metric, row.model): row for each in fitted for row in evaluation.evaluate(each, held)}
    found |= {(row.metric, row.model): row for row in evaluation.replicate_rows(held)}
    names = list(dict.fromkeys(name for _, name in found))
    metrics = [metric for metric in ESTIMATED if (metric, fitted[0].name) in found]
    rows = ([metric, *(_words(found.get((metric, name))) for name in names)] for metric in metrics)
    heading = f"## Held-out error: {title}, {len(np.unique(held.config_hash))} jobs"
    explained = "q-error, median / 95 %; of yes or no, balanced accuracy."
    return [heading, "", explained, "", *table(["metric", *names], rows)]


def _words(row: evaluation.ErrorRow | None) -> str:
    if row is not None and row.accuracy is not None:
        return f"{row.accuracy:.1%}"
    return "-" if row is None or row.q50 is None else f"{row.q50:.3f} / {row.q95:.2f}"


def _kinds(fitted: Sequence[Fitted], held: Dataset) -> list[str]:
    """Table of the processing latency's q-error, median and 95 %, by kind of plan."""
    name, kinds = "processing_latency_s", held.graphs.kind_G
    predicted = [each.predict(held) for each in fitted]
    if name not in predicted[0]:
        return []
    truth, rows = held.label_G(name), []
    for kind, words in enumerate(KINDS):
        mask = (kinds == kind) & ~np.isnan(truth)
        found = [evaluation.q_error(truth[mask], each[name][mask]) for each in predicted] if mask.any() else []
        shown = [f"{np.median(each):.3f} / {np.quantile(each, 0.95):.2f}" for each in found]
        rows += [[words, str(int(mask.sum())), *shown]] if found else []
    return table(["processing latency of plans", "runs", *(each.name for each in fitted)], rows)


def _strata(fitted: Sequence[Fitted], held: Dataset) -> list[str]:
    """Table of the errors of the model and one more by stratum, with that of a second run where there are any."""
    each = [evaluation.error_breakdown(one, held, np.arange(len(held))) for one in fitted]
    metrics = [name for name in (*METRICS, TAIL) if any(row.metric == name for row in each[0])]
    of = [{(row.stratum, row.metric): row for row in found} for found in each]
    strata = [name for name in dict.fromkeys(row.stratum for row in each[0]) if of[0][name, metrics[0]].rows]

    def cell(name: str, metric: str) -> str:
        first, *others = (_stratum(found.get((name, metric))) for found in of)
        limit = of[0][name, metric]
        return " / ".join([first, *others]) + _limit(limit)

    rows = ([name, str(of[0][name, metrics[0]].rows), *(cell(name, metric) for metric in metrics)] for name in strata)
    names = " / ".join(one.name for one in fitted)
    explained = (
        f"Where errors sit: q-error at 95 % of {names}, and in brackets a second run's; of yes or no, accuracies."
    )
    return [explained, "", *table(["runs with", "runs", *metrics], rows)]


def _form(metric: str) -> str:
    return "{:.1%}" if metric in BINARY_METRICS else "{:.2f}"


def _stratum(row: evaluation.BreakdownRow | None) -> str:
    if row is None:
        return "-"
    own = row.accuracy if row.metric in BINARY_METRICS else row.q95
    return "-" if own is None else _form(row.metric).format(own)


def _limit(row: evaluation.BreakdownRow) -> str:
    limit = row.limit_accuracy if row.metric in BINARY_METRICS else row.limit_q95
    return "" if limit is None else f" ({_form(row.metric).format(limit)})"


def _coverage(model: LearnedCostModel, held: Mapping[str, Dataset]) -> list[str]:
    """Table of the share of simulated values that lie in their intervals, and of the intervals' width."""
    rows = []
    for metric in ESTIMATED:
        cells = [_inside(model, metric, part) for part in held.values()]
        rows += [[metric, *cells]] if any(cells) else []
    if not rows:
        return ["No intervals: it does not know the rate model's answers."]
    lines = [f"## Intervals of {SHARE:.0%}", "", "Held-out runs inside, and the median factor up and down.", ""]
    return [*lines, *table(["metric", *held], rows)]


def _inside(model: LearnedCostModel, metric: str, part: Dataset) -> str:
    between = model.around(model.predict_graphs(part.graphs), metric)
    truth = part.label_G(metric)
    known = ~np.isnan(truth)
    if between is None or not known.any():
        return ""
    low, high = between[:, known]
    inside = float(((low <= truth[known]) & (truth[known] <= high)).mean())
    return f"{inside:.1%}, {float(np.median(np.sqrt(high / low))):.3f}"
