"""Training and evaluation as the command line and the demo use them: folders in, folders or tables out."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from models import dataset as datasets
from models import encoded_file, evaluation
from models.checkpoint import Ensemble, save
from models.dataset import Dataset, Split, split
from models.encoding import PARALLEL_FROM
from models.misjudged import Misjudged
from models.prediction import LearnedCostModel
from models.settings import TrainingSettings
from scenarios.progress import Progress
from scenarios.traces import check_free
from twin.errors import BadInput
from twin.metrics import METRICS


@dataclass(frozen=True, slots=True)
class Table:
    """rows: as Costream's Table III. part: `test` (held out of training) or `all`, and how many runs it is over."""

    rows: tuple[evaluation.Row, ...]
    part: str
    runs: int

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {"part": self.part, "runs": self.runs, "rows": [row._asdict() for row in self.rows]}


def rows_of(folder: Path, report: Progress | None = None, misjudged: Misjudged | None = None) -> Dataset:
    """The dataset in a folder, as models see it. Its encoding, if it took long, is kept there for the next time.

    Raises BadInput as `models.dataset.read`.
    """
    found = datasets.read(folder, report, misjudged=misjudged)
    if folder.is_dir() and len(found) >= PARALLEL_FROM and not encoded_file.path_in(folder, misjudged).exists():
        with suppress(OSError):  # a folder that cannot be written to only costs the time again
            encoded_file.write(folder, found.encoded, found.config_hash, misjudged)
    return found


def steps(
    settings: TrainingSettings, metrics: Sequence[str], report: Progress
) -> Callable[[str, int, int, int, float], None]:
    """What training tells (ensemble's name, member, step, steps, loss), as steps done of all networks' steps."""
    names = ["all"] if settings.heads == "all" and len(metrics) > 1 else list(metrics)

    def told(name: str, member: int, step: int, each: int, _loss: float) -> None:
        before = names.index(name) * settings.members + member
        report(before * each + step, len(names) * settings.members * each)

    return told


def write_model(ensembles: Sequence[Ensemble], out: Path) -> None:
    """A model directory, whole or not at all. Raises BadInput if `out` exists."""
    check_free(out)
    partial = out.with_name(f".{out.name}.{os.getpid()}.partial")
    shutil.rmtree(partial, ignore_errors=True)
    try:
        for ensemble in ensembles:
            save(ensemble, partial)
        partial.rename(out)
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def learning_curve(ensembles: Sequence[Ensemble]) -> dict[str, list[Any]]:
    """The table that `figures.learning_curve` draws, from the manifests of the ensembles."""
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
    """The table that `figures.predicted_vs_simulated` draws: the test rows that have the metric."""
    rows = training_split(model, dataset).test
    simulated = dataset.labels_Gx5[rows, METRICS.index(metric)]
    predicted = model.predict_graphs(dataset.graphs).cost(metric)[rows]
    known = ~np.isnan(simulated)
    return {"simulated": simulated[known].tolist(), "predicted": predicted[known].tolist()}


def training_split(model: LearnedCostModel, dataset: Dataset) -> Split:
    """The split that the model was trained with. Raises BadInput if the dataset is not the one it was trained on."""
    manifest = model.ensembles[0].manifest
    parts = split(dataset, int(manifest["seed"]))
    sizes = {name: len(rows) for name, rows in parts._asdict().items()}
    if sizes != dict(manifest["rows"]):
        raise BadInput(
            f"model {model.name!r} was trained on a dataset of {sum(manifest['rows'].values())} rows, this one has "
            f"{len(dataset)}, so its test rows are unknown; add --all to evaluate on every row"
        )
    return parts


def evaluate(model: LearnedCostModel, dataset: Dataset, *, every_row: bool, seed: int) -> Table:
    """The model on the test rows of its own dataset beside the Flat Vector baseline, or on every row of another."""
    if every_row:
        rows = np.arange(len(dataset))
        found = evaluation.evaluate(model, dataset, rows, seed)
        return Table((*found, *evaluation.replicate_rows(dataset)), "all", len(dataset))
    parts = training_split(model, dataset)
    found = evaluation.evaluate(model, dataset, parts.test, seed)
    metrics = [row.metric for row in found]
    baseline = evaluation.flat_vector_rows(dataset, parts, metrics, seed)
    limit = evaluation.replicate_rows(dataset)
    ordered = sorted((*found, *baseline, *limit), key=lambda row: metrics.index(row.metric))
    return Table(tuple(ordered), "test", len(parts.test))
