"""Errors of predictions, over all rows and by group, beside the noise of the simulator; and the card of a model, which
tells them.

For `twin evaluate` and `twin train`. Nothing here is trained.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from models.checkpoint import Ensemble
from models.dataset import Dataset
from models.labels import KINDS, LABEL_FLOOR
from models.prediction import SHARE, LearnedCostModel
from models.predictors import Fitted, FittedNetworks
from twin.errors import BadInput
from twin.metrics import BINARY_METRICS, ESTIMATED, METRICS
from twin.randomness import random_stream

# errors --------------------------------------------------------------------------------------------------------------
# They are q-errors, balanced accuracies, and the replicate limit, which is the error of one run as a prediction of
# another (Costream, Table III).


LIMIT = "replicate limit"
"""What stands in place of a model's name where the error is that of a second run."""
BELOW_ALL = 0.1
"""Share of the smallest label that is the least an estimate counts as."""


@dataclass(frozen=True, slots=True)
class ErrorRow:
    """Errors of one model and metric. rows: number of runs. q50, q95: quantiles of the q-error (regressions). accuracy:
    balanced accuracy (binaries), as on a test set of equally frequent classes. *_se: bootstrap standard errors, if
    asked for. None where a value does not apply."""

    metric: str
    model: str
    rows: int
    q50: float | None = None
    q95: float | None = None
    accuracy: float | None = None
    q50_se: float | None = None
    q95_se: float | None = None
    accuracy_se: float | None = None


def q_error(truth: np.ndarray, estimate: np.ndarray) -> np.ndarray:
    """q-error max(c / c', c' / c) >= 1 of each estimate, with both at least LABEL_FLOOR."""
    ratio = np.maximum(truth, LABEL_FLOOR) / np.maximum(estimate, LABEL_FLOOR)
    return np.maximum(ratio, 1 / ratio)


def balanced_accuracy(truth: np.ndarray, probability: np.ndarray) -> float:
    """Balanced accuracy: mean of the true positive and true negative rates, the accuracy on equally frequent classes.

    Raises BadInput if a class is missing.
    """
    yes, said = truth > 0.5, probability > 0.5
    if yes.all() or not yes.any():
        raise BadInput(f"all {len(truth)} test rows have the same label; balanced accuracy needs both, take more rows")
    return float((said[yes].mean() + (~said[~yes]).mean()) / 2)


def row(
    metric: str, model: str, truth: np.ndarray, estimate: np.ndarray, bootstrap: int = 0, seed: int = 0
) -> ErrorRow:
    """Errors of one model and metric; rows without a label (NaN) are left out.

    An estimate below a tenth of every label counts as that tenth, as a run cannot show anything so small (half a
    result, a negative latency). bootstrap: number of resamples for the standard errors, 0 for none. A binary metric
    with a single class has no accuracy.
    """
    truth, estimate = truth[~np.isnan(truth)], estimate[~np.isnan(truth)]
    measures = _binary if metric in BINARY_METRICS else _regression
    if metric not in BINARY_METRICS and len(truth):
        estimate = np.maximum(estimate, BELOW_ALL * truth.min())
    found = measures(truth, estimate)
    spread = _standard_errors(measures, truth, estimate, bootstrap, seed) if bootstrap and found else {}
    return ErrorRow(metric, model, len(truth), **found, **{f"{name}_se": value for name, value in spread.items()})


Measures = Callable[[np.ndarray, np.ndarray], dict[str, float]]


def _regression(truth: np.ndarray, estimate: np.ndarray) -> dict[str, float]:
    if not len(truth):
        return {}
    q50, q95 = np.quantile(q_error(truth, estimate), [0.5, 0.95])
    return {"q50": float(q50), "q95": float(q95)}


def _binary(truth: np.ndarray, estimate: np.ndarray) -> dict[str, float]:
    return {"accuracy": balanced_accuracy(truth, estimate)} if has_both(truth) else {}


def has_both(truth: np.ndarray) -> bool:
    """Whether both classes of a binary metric occur."""
    return 0 < int((truth > 0.5).sum()) < len(truth)


def _standard_errors(
    measures: Measures, truth: np.ndarray, estimate: np.ndarray, resamples: int, seed: int
) -> dict[str, float]:
    """Bootstrap standard errors: standard deviations over resamples of the rows, drawn with replacement."""
    rng = random_stream(seed, "bootstrap")
    found = []
    for _ in range(resamples):
        drawn = rng.integers(len(truth), size=len(truth))
        found.append(measures(truth[drawn], estimate[drawn]))
    found = [each for each in found if each]  # a resample may lack a class
    return {name: float(np.std([each[name] for each in found])) for name in (found[0] if found else {})}


def rows_of(
    name: str, estimates: Mapping[str, np.ndarray], dataset: Dataset, bootstrap: int = 0, seed: int = 0
) -> list[ErrorRow]:
    """Errors of each estimated metric. estimates: by metric, for every row of the dataset [G]."""
    return [
        row(metric, name, dataset.label_G(metric), estimates[metric], bootstrap, seed)
        for metric in ESTIMATED
        if metric in estimates
    ]


def evaluate(fitted: Fitted, dataset: Dataset, bootstrap: int = 0, seed: int = 0) -> list[ErrorRow]:
    """Errors of a fitted model on every row of a dataset (`Dataset.take` gives a part of one)."""
    return rows_of(fitted.name, fitted.predict(dataset), dataset, bootstrap, seed)


def replicate_rows(
    dataset: Dataset, metrics: Sequence[str] = ESTIMATED, bootstrap: int = 0, seed: int = 0
) -> list[ErrorRow]:
    """Errors of a run as a prediction of another run that differs only in the seed; empty without such pairs.

    No model can be much better. A perfect model has the noise of one run, a pair that of two, so the model's q-errors
    are about the power 0.71 of these.
    """
    first, second = pairs(dataset)
    if not len(first):
        return []
    found = []
    for metric in metrics:
        one, other = dataset.label_G(metric)[first], dataset.label_G(metric)[second]
        known = ~np.isnan(one) & ~np.isnan(other)
        found.append(row(metric, LIMIT, one[known], other[known], bootstrap, seed))
    return found


def pairs(dataset: Dataset) -> tuple[np.ndarray, np.ndarray]:
    """Row indices of the first and second run of every configuration that has two."""
    seen: dict[str, list[int]] = {}
    for index, value in enumerate(dataset.config_hash):
        seen.setdefault(value, []).append(index)
    found = np.array([(rows[0], rows[1]) for rows in seen.values() if len(rows) > 1], dtype=int).reshape(-1, 2)
    return found[:, 0], found[:, 1]


# errors by group -----------------------------------------------------------------------------------------------------
# A model's errors by query type, results, load and joins, each with the part of it that is the simulator's noise.
#
# The error of a regression is the squared logarithm of the q-error. Two runs of one configuration differ by the noise
# of both, so half their mean squared log difference is the variance of one run: no model's mean squared log error is
# below.


Stratum = Callable[[Mapping[str, np.ndarray]], np.ndarray]

STRATA: Mapping[str, Stratum] = {
    "all": lambda about: np.ones(len(about["sources"]), bool),
    "1 source": lambda about: about["sources"] == 1,
    "2 sources": lambda about: about["sources"] == 2,
    "3 sources": lambda about: about["sources"] >= 3,
    "no join": lambda about: about["joins"] == 0,
    "joins": lambda about: about["joins"] > 0,
    "< 20 results": lambda about: about["records_out"] < 20,
    "20 to 200 results": lambda about: (about["records_out"] >= 20) & (about["records_out"] < 200),
    ">= 200 results": lambda about: about["records_out"] >= 200,
    "utilisation < 0.8": lambda about: about["utilisation"] < 0.8,
    "utilisation 0.8 to 1.25": lambda about: (about["utilisation"] >= 0.8) & (about["utilisation"] <= 1.25),
    "utilisation > 1.25": lambda about: about["utilisation"] > 1.25,
    "steady arrivals": lambda about: about["peak"] <= 1.0,
    "bursts": lambda about: about["peak"] > 1.0,
    "windows over event time": lambda about: about["event_time"] > 0,
    "rows kept by key": lambda about: about["rows"] > 0,
    "calls": lambda about: about["calls"] > 0,
    "checkpoints": lambda about: about["checkpoints"] > 0,
    "pauses of a collector": lambda about: about["pauses"] > 0,
}
"""Masks over the rows, from Dataset.about. Strata of different kinds overlap."""
OF_EACH = 20
"""Runs of each class that a stratum needs for a balanced accuracy: with fewer, single runs would decide it."""


@dataclass(frozen=True, slots=True)
class BreakdownRow:
    """Errors of one model, metric and stratum. q50, q95, accuracy: as in `ErrorRow`. limit_q95,
    limit_accuracy: of a run as the prediction of another with a different seed; no model can be much better.

    error: mean squared log error; of a binary metric, the share of wrong answers. share: of the model's summed error
    over all rows, the part from this stratum. noise: the least possible error by the replicates of the stratum (of a
    binary metric: how often two runs disagree, halved). noise_share: noise over error. pairs: replicates they rest on.
    """

    metric: str
    model: str
    stratum: str
    rows: int
    q50: float | None
    q95: float | None
    accuracy: float | None
    limit_q95: float | None
    limit_accuracy: float | None
    error: float | None
    share: float | None
    noise: float | None
    noise_share: float | None
    pairs: int


def error_breakdown(fitted: Fitted, dataset: Dataset, rows: np.ndarray) -> list[BreakdownRow]:
    """Breakdown of errors on some rows of a dataset; all of its replicates count for the noise."""
    part = dataset.take(rows)
    estimates = fitted.predict(part)
    first, second = pairs(dataset)
    repeated = dataset.take(first)
    found = []
    for metric in ESTIMATED:
        if metric not in estimates:
            continue
        truth, one, other = part.label_G(metric), repeated.label_G(metric), dataset.label_G(metric)[second]
        squares, noises = _squared(metric, truth, estimates[metric]), _squared(metric, one, other) / 2
        for stratum, mask in STRATA.items():
            here, there = mask(part.about), mask(repeated.about) & ~np.isnan(noises)
            line = row(metric, fitted.name, truth[here], estimates[metric][here])
            limit = row(metric, LIMIT, one[there], other[there])
            error, noise = _mean(squares[here]), _mean(noises[there])
            found.append(
                BreakdownRow(
                    metric=metric,
                    model=fitted.name,
                    stratum=stratum,
                    rows=line.rows,
                    q50=line.q50,
                    q95=line.q95,
                    accuracy=line.accuracy if _enough_of_both(truth[here]) else None,
                    limit_q95=limit.q95,
                    limit_accuracy=limit.accuracy if _enough_of_both(one[there]) else None,
                    error=error,
                    share=_ratio(float(np.nansum(squares[here])), float(np.nansum(squares))),
                    noise=noise,
                    noise_share=_ratio(noise, error),
                    pairs=int(there.sum()),
                )
            )
    return found


def _squared(metric: str, truth: np.ndarray, estimate: np.ndarray) -> np.ndarray:
    """[N] squared log error of each row, or 1 for a wrong answer; NaN where a label is missing."""
    if metric in BINARY_METRICS:
        return np.where(np.isnan(truth) | np.isnan(estimate), np.nan, (truth > 0.5) != (estimate > 0.5))
    return np.asarray((np.log(np.maximum(truth, LABEL_FLOOR)) - np.log(np.maximum(estimate, LABEL_FLOOR))) ** 2)


def _enough_of_both(truth: np.ndarray) -> bool:
    """Whether there are enough rows of each class for a balanced accuracy."""
    return min(int((truth > 0.5).sum()), int((truth <= 0.5).sum())) >= OF_EACH


def _mean(values: np.ndarray) -> float | None:
    known = values[~np.isnan(values)]
    return float(known.mean()) if len(known) else None


def _ratio(part: float | None, whole: float | None) -> float | None:
    return None if part is None or not whole else part / whole


# the card ------------------------------------------------------------------------------------------------------------
# It says what a trained model learned from, how its training went, and how far off it is on runs that it never saw.
# Every figure of it is of simulated runs, unless its rows were measured.


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


# the card: training --------------------------------------------------------------------------------------------------


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


# the card: errors on runs that it never saw --------------------------------------------------------------------------


def _errors(title: str, fitted: Sequence[Fitted], held: Dataset) -> list[str]:
    found = {(row.metric, row.model): row for each in fitted for row in evaluate(each, held)}
    found |= {(row.metric, row.model): row for row in replicate_rows(held)}
    names = list(dict.fromkeys(name for _, name in found))
    metrics = [metric for metric in ESTIMATED if (metric, fitted[0].name) in found]
    rows = ([metric, *(_words(found.get((metric, name))) for name in names)] for metric in metrics)
    heading = f"## Held-out error: {title}, {len(np.unique(held.config_hash))} jobs"
    explained = "q-error, median / 95 %; of yes or no, balanced accuracy."
    return [heading, "", explained, "", *table(["metric", *names], rows)]


def _words(row: ErrorRow | None) -> str:
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
        found = [q_error(truth[mask], each[name][mask]) for each in predicted] if mask.any() else []
        shown = [f"{np.median(each):.3f} / {np.quantile(each, 0.95):.2f}" for each in found]
        rows += [[words, str(int(mask.sum())), *shown]] if found else []
    return table(["processing latency of plans", "runs", *(each.name for each in fitted)], rows)


def _strata(fitted: Sequence[Fitted], held: Dataset) -> list[str]:
    """Table of the errors of the model and one more by stratum, with that of a second run where there are any."""
    each = [error_breakdown(one, held, np.arange(len(held))) for one in fitted]
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


def _stratum(row: BreakdownRow | None) -> str:
    if row is None:
        return "-"
    own = row.accuracy if row.metric in BINARY_METRICS else row.q95
    return "-" if own is None else _form(row.metric).format(own)


def _limit(row: BreakdownRow) -> str:
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
