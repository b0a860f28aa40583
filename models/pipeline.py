"""Makes a cost model from a dataset: trains its networks, and fine-tunes them."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from functools import partial
from typing import Annotated, Any

import numpy as np
from pydantic import Field

from models.checkpoint import Ensemble, coverage_of, demands_of, ranges_of, together
from models.dataset import Dataset, RowSplit, join
from models.features import FEATURE_VERSION
from models.labels import LabelScale, Scaling, binary, scaled, scaling_of, targets, yes_of
from models.prediction import Judged, forward, gated, intervals
from models.settings import TrainingSettings
from models.training import TrainedNetwork, TrainingData, train_member
from twin import VERSION
from twin.errors import BadInput, suggest
from twin.metrics import BINARY_METRICS, ESTIMATED, METRICS
from twin.randomness import child_seed, random_stream
from twin.spec import Spec, parse

Progress = Callable[[str, int, int, int, float], None]
"""Reports training: metric (or `all`), member, step, steps in all, and the latest validation loss."""
Keep = Callable[[str, int, Callable[[], TrainedNetwork]], TrainedNetwork]
"""Returns the network of a metric (or `all`) and member, kept from an earlier attempt or trained by the function
given."""


def check_metrics(metrics: Sequence[str]) -> None:
    """Raises BadInput for none, an unknown one, or one that is named twice."""
    if not metrics:
        raise BadInput(f"no metric is named; {suggest('', ESTIMATED)}")
    for metric in metrics:
        if metric not in ESTIMATED:
            raise BadInput(f"unknown metric {metric!r}; {suggest(metric, ESTIMATED)}")
        if list(metrics).count(metric) > 1:
            raise BadInput(f"metric {metric!r} is named twice; name it once")


def train(
    dataset: Dataset,
    parts: RowSplit,
    settings: TrainingSettings,
    seed: int,
    metrics: Sequence[str] = METRICS,
    progress: Progress | None = None,
    keep: Keep | None = None,
) -> tuple[Ensemble, ...]:
    """Trains an ensemble a metric (`heads: one`), or one for all (`heads: all`).

    Raises BadInput for an unknown metric, or one whose labels cannot be learned from.
    """
    check_metrics(metrics)
    groups = [tuple(metrics)] if settings.heads == "all" else [(metric,) for metric in metrics]
    values = [_scaled(group, dataset, settings.scale)[parts.train] for group in groups]
    scalings = [scaling_of(*each, settings.scale) for each in zip(groups, values, strict=True)]  # fail before training
    return tuple(
        _ensemble(dataset, parts, settings, seed, group, scaling, None, progress, keep)
        for group, scaling in zip(groups, scalings, strict=True)
    )


def _ensemble(
    dataset: Dataset,
    parts: RowSplit,
    settings: TrainingSettings,
    seed: int,
    metrics: tuple[str, ...],
    scaling: Scaling,
    start: Ensemble | None,
    progress: Progress | None,
    keep: Keep | None = None,
) -> Ensemble:
    data = TrainingData(
        graphs=dataset.graphs,
        targets=targets(metrics, _scaled(metrics, dataset, scaling.scale), dataset.rates_GxA, scaling, parts.train),
        binary_M=binary(metrics),
        train=parts.train,
        valid=parts.valid,
    )
    name = metrics[0] if len(metrics) == 1 else "all"
    trainings = [
        partial(
            train_member,
            data,
            settings,
            child_seed(seed, index),
            None if start is None else start.members[index],
            None if progress is None else partial(progress, name, index),
        )
        for index in range(settings.members)
    ]
    members = [each() if keep is None else keep(name, index, each) for index, each in enumerate(trainings)]
    config = settings.network.model_copy(update={"outputs": len(metrics)})
    seen = coverage_of(dataset.graphs, parts.train)
    if start is not None:
        seen = together(seen, start.seen or {})
    parameters = tuple(member.parameters for member in members)
    held, learned = dataset.take(parts.valid), dataset.take(parts.train)
    outputs_KxGxM = np.stack([forward(config, each, held.graphs) for each in parameters])
    judged = Judged(held.labels_GxA, held.rates_GxA, held.graphs.kind_G, outputs_KxGxM)
    no_outputs = np.zeros((1, len(learned), len(metrics)))
    uncorrected = Judged(learned.labels_GxA, learned.rates_GxA, learned.graphs.kind_G, no_outputs)
    scaling = gated(metrics, scaling, judged)
    about = {
        "horizon_s": float(np.median(dataset.horizon_s)),
        "horizons_s": [float(dataset.horizon_s.min()), float(dataset.horizon_s.max())],
        "seen": dict(seen),
        "demands": demands_of(dataset.about, parts.train, config),
        "ranges": _wider(ranges_of(dataset.graphs, parts.train), start),
        "interval": intervals(metrics, scaling, judged, uncorrected),
        "yes": yes_of(metrics, learned.labels_GxA) if scaling.scale == "residual" else {},
    }
    manifest = {**_manifest(parts, settings, seed, members, start), **about}
    return Ensemble(metrics, config, scaling, parameters, manifest)


def _wider(ranges: dict[str, list[float]], start: Ensemble | None) -> dict[str, list[float]]:
    """Ranges of a training and of the one before it together."""
    before = {} if start is None else start.manifest.get("ranges", {})
    both = {
        name: [each[name] for each in (ranges, before) if name in each] for name in dict.fromkeys([*ranges, *before])
    }
    return {name: [min(low for low, _ in each), max(high for _, high in each)] for name, each in both.items()}


def _scaled(metrics: Sequence[str], dataset: Dataset, scale: LabelScale) -> np.ndarray:
    return scaled(metrics, dataset.labels_GxA, dataset.rates_GxA, scale)


def _manifest(
    parts: RowSplit,
    settings: TrainingSettings,
    seed: int,
    members: Sequence[TrainedNetwork],
    start: Ensemble | None,
) -> dict[str, Any]:
    return {
        "version": VERSION,
        "feature_version": FEATURE_VERSION,
        "seed": seed,
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "rows": {name: len(rows) for name, rows in parts._asdict().items()},
        "settings": settings.model_dump(mode="json"),
        "members": [{"seed": member.seed, "curve": [list(point) for point in member.curve]} for member in members],
        "fine_tuned_from": None if start is None else dict(start.manifest),
    }


class FineTuning(Spec):
    """Length and speed of fine-tuning; everything else is as the model was trained.

    epochs: passes over the rows. rate: highest learning rate, a quarter of training's.
    """

    epochs: Annotated[int, Field(ge=0, le=10**6)] = 20
    rate: Annotated[float, Field(gt=0, le=1)] = 5e-4


def fine_tune(
    ensembles: Sequence[Ensemble],
    dataset: Dataset,
    parts: RowSplit,
    how: FineTuning,
    seed: int,
    progress: Progress | None = None,
) -> tuple[Ensemble, ...]:
    """Trains each member further, unless the rows have nothing to teach it, and never to a higher validation loss than
    it started from. Label scalings stay.

    Raises BadInput if no row has a label that the model predicts.
    """
    taught = [_teaches(dataset, parts, each) for each in ensembles]
    if not any(taught):
        metrics = ", ".join(metric for each in ensembles for metric in each.metrics)
        raise BadInput(f"the rows cannot teach {metrics}: every label is missing, or the same; simulate others")
    if how.epochs == 0:
        return tuple(ensembles)
    return tuple(
        _ensemble(dataset, parts, _settings(old, how), seed, old.metrics, old.scaling, old, progress)
        if teaches
        else old
        for old, teaches in zip(ensembles, taught, strict=True)
    )


def rehearsing(
    dataset: Dataset, parts: RowSplit, old: Dataset, old_parts: RowSplit, seed: int
) -> tuple[Dataset, RowSplit]:
    """New rows mixed with as many old training and validation rows (or all old ones, if there are fewer).

    The test rows are the new ones.
    """
    rng = random_stream(seed, "rehearsal")

    def among(new: np.ndarray, known: np.ndarray) -> np.ndarray:
        return np.concatenate([new, len(dataset) + np.sort(rng.permutation(known)[: len(new)])])

    mixed = RowSplit(among(parts.train, old_parts.train), among(parts.valid, old_parts.valid), parts.test)
    return join(dataset, old), mixed


def _settings(ensemble: Ensemble, how: FineTuning) -> TrainingSettings:
    trained = parse(TrainingSettings, ensemble.manifest["settings"], "settings of the model")
    network = {"network": ensemble.config, "members": len(ensemble.members)}
    return trained.model_copy(update={**how.model_dump(), **network})


def _teaches(dataset: Dataset, parts: RowSplit, ensemble: Ensemble) -> bool:
    """Whether some metric has labels to learn from: any of a regression, both classes of a binary metric."""
    needed = (2 if metric in BINARY_METRICS else 1 for metric in ensemble.metrics)
    columns = (dataset.label_G(metric)[parts.train] for metric in ensemble.metrics)
    return any(len(set(column[~np.isnan(column)])) >= least for column, least in zip(columns, needed, strict=True))
