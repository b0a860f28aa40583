"""Trains and evaluates models for the command line and the demo: folders in, folders or tables out."""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from models import dataset as datasets
from models import encoded_file, evaluation
from models.checkpoint import Ensemble, save
from models.dataset import Dataset, RowSplit, split
from models.encoding import PARALLEL_FROM, Reprofiled
from models.error_breakdown import BreakdownRow, error_breakdown
from models.features import FEATURE_VERSION
from models.member_checkpoints import MemberCheckpoints
from models.prediction import LearnedCostModel
from models.predictors import PREDICTORS, Fitted, FittedNetworks, RateModelAlone
from models.settings import TrainingSettings
from scenarios.executing.progress import Progress
from scenarios.files.documents import CLOSED
from scenarios.files.pictures import png
from scenarios.files.traces import check_free
from twin.atomic import new_folder
from twin.errors import BadInput
from twin.metrics import BINARY_METRICS, METRICS
from twin.version import VERSION

CURVE = "learning_curve.png"
RIVALS = ("trees-ratio", "flat-log", "flat-raw", "rates")
"""Predictors (of models.predictors.PREDICTORS) that a model is compared with; all train within two minutes."""


@CLOSED
@dataclass(frozen=True, slots=True)
class EvaluationTable:
    """The answer of `twin evaluate`. rows: as Costream's Table III. part: `test` (held out of training) or `all`; runs:
    in that part. strata: errors of the model by stratum. notes: metrics that could not be judged, and why."""

    rows: tuple[evaluation.ErrorRow, ...]
    part: str
    runs: int
    strata: tuple[BreakdownRow, ...] = ()
    notes: tuple[str, ...] = ()


def rows_of(folder: Path, report: Progress | None = None, reprofiled: Reprofiled | None = None) -> Dataset:
    """Reads the dataset in a folder, as models see it. Its encoding, if it took long, is kept there for the next time.

    Raises BadInput as `models.dataset.read`.
    """
    found = datasets.read(folder, report, reprofiled=reprofiled)
    if folder.is_dir() and len(found) >= PARALLEL_FROM and not encoded_file.path_in(folder, reprofiled).exists():
        with suppress(OSError):  # a folder that cannot be written to only costs the time again
            encoded_file.write(folder, found.encoded, found.config_hash, reprofiled)
    return found


def steps(members: Mapping[str, int], report: Progress) -> Callable[[str, int, int, int, float], None]:
    """Function that receives the progress of training and reports steps done, of the steps of all networks.

    members: number of networks of each ensemble, in the order of their training.
    """
    before = dict(zip(members, itertools.accumulate(members.values(), initial=0), strict=False))

    def told(name: str, member: int, step: int, steps_each: int, _loss: float) -> None:
        report((before[name] + member) * steps_each + step, sum(members.values()) * steps_each)

    return told


def networks(settings: TrainingSettings, metrics: Sequence[str]) -> dict[str, int]:
    """Number of networks of each ensemble that a training makes, by name."""
    names = ["all"] if settings.heads == "all" and len(metrics) > 1 else metrics
    return dict.fromkeys(names, settings.members)


def under_way(
    out: Path, dataset: Dataset, settings: TrainingSettings, metrics: Sequence[str], seed: int
) -> MemberCheckpoints:
    """Checkpoints that keep the networks of a training in a hidden folder beside `out` until the model is written."""
    rows = hashlib.sha256(dataset.labels_GxA.tobytes() + "".join(dataset.config_hash.tolist()).encode()).hexdigest()
    training: dict[str, Any] = {"version": VERSION, "features": FEATURE_VERSION, "rows": rows}
    training |= {"encoding": encoded_file.code_version(), "settings": settings.model_dump(mode="json")}
    training |= {"metrics": list(metrics), "seed": seed}
    return MemberCheckpoints(out.with_name(f".{out.name}.training"), training)


def write_model(ensembles: Sequence[Ensemble], out: Path) -> None:
    """Writes a model folder and a picture of its learning curve, whole or not at all. Raises BadInput if it exists."""
    from figures.learning_curve import learning_curve as drawn

    check_free(out)
    with new_folder(out) as aside:
        for ensemble in ensembles:
            save(ensemble, aside)
        (aside / CURVE).write_bytes(png(drawn(learning_curve(ensembles))))


def learning_curve(ensembles: Sequence[Ensemble]) -> dict[str, list[Any]]:
    """Table that `figures.learning_curve` draws, from the manifests of the ensembles."""
    table: dict[str, list[Any]] = {"member": [], "step": [], "training_loss": [], "validation_loss": []}
    for ensemble in ensembles:
        for number, member in enumerate(ensemble.manifest["members"]):
            for step, training, validation in member["curve"]:
                table["member"].append(f"{ensemble.name} {number}")
                table["step"].append(step)
                table["training_loss"].append(training)
                table["validation_loss"].append(validation)
    return table


def predictions(model: LearnedCostModel, dataset: Dataset, metric: str) -> dict[str, list[Any]]:
    """Table that `figures.predicted_vs_simulated` draws: the test rows that have the metric."""
    rows = training_split(model, dataset).test
    simulated = dataset.label_G(metric)[rows]
    predicted = model.predict_graphs(dataset.graphs).cost(metric)[rows]
    known = ~np.isnan(simulated)
    return {"simulated": simulated[known].tolist(), "predicted": predicted[known].tolist()}


def training_split(model: LearnedCostModel, dataset: Dataset) -> RowSplit:
    """Split of the rows that the model was trained with. Raises BadInput if it was trained on another dataset."""
    manifest = model.ensembles[0].manifest
    parts = split(dataset, int(manifest["seed"]))
    sizes = {name: len(rows) for name, rows in parts._asdict().items()}
    if sizes != dict(manifest["rows"]):
        raise BadInput(
            f"model {model.name!r} was trained on a dataset of {sum(manifest['rows'].values())} rows, this one has "
            f"{len(dataset)}, so its test rows are unknown; add --all to evaluate on every row"
        )
    return parts


def evaluate(
    model: LearnedCostModel, dataset: Dataset, *, every_row: bool, seed: int, by_stratum: bool = False
) -> EvaluationTable:
    """Evaluates a model and its rivals on the test rows of its own dataset, or it and the rate model on every row.

    The rivals are trained on the same rows as the model. Raises BadInput as `training_split` and
    `LearnedCostModel.predict_graphs`.
    """
    metrics = [metric for metric in METRICS if any(metric in ensemble.metrics for ensemble in model.ensembles)]
    fitted: list[Fitted] = [FittedNetworks(model.name, model)]
    if every_row:
        rows = np.arange(len(dataset))
        fitted.append(RateModelAlone())
    else:
        parts = training_split(model, dataset)
        rows = parts.test
        fitted += [PREDICTORS[key].fit(dataset, parts, seed, metrics) for key in RIVALS]
    part = dataset.take(rows)
    found = [row for each in fitted for row in evaluation.evaluate(each, part) if row.metric in metrics]
    found += evaluation.replicate_rows(dataset, metrics)
    return EvaluationTable(
        rows=tuple(sorted(found, key=lambda row: metrics.index(row.metric))),
        part="all" if every_row else "test",
        runs=len(rows),
        strata=tuple(error_breakdown(fitted[0], dataset, rows)) if by_stratum else (),
        notes=tuple(_without_accuracy(part, metrics)),
    )


def _without_accuracy(dataset: Dataset, metrics: Sequence[str]) -> Iterator[str]:
    for metric in metrics:
        truth = dataset.label_G(metric)
        if metric in BINARY_METRICS and not evaluation.has_both(truth):
            yield f"{metric} is {bool(truth[0])} in all {len(truth)} rows, so it has no accuracy; evaluate on more rows"
