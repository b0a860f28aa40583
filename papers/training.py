"""Trains models that are missing and loads the others: a folder a contestant and training set, in it one a model."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from scenarios.executing.progress import Audience
from twin.atomic import new_folder
from twin.corpus.manifest import content_hash
from twin.version import VERSION

if TYPE_CHECKING:
    import numpy as np

    from models.dataset import Dataset, RowSplit
    from models.predictors import Fitted, Predictor


@dataclass(frozen=True)
class Joined:
    """Several models of one contestant, for different metrics, as one model."""

    name: str
    parts: tuple[Fitted, ...]

    def predict(self, dataset: Dataset) -> Mapping[str, np.ndarray]:
        """Predictions of each part for its own metrics."""
        return {metric: values for part in self.parts for metric, values in part.predict(dataset).items()}

    def save(self, folder: Path) -> None:
        """Saves each part in a folder of its own."""
        for number, part in enumerate(self.parts):
            part.save(folder / str(number))


def folder_of(root: Path, contestant: Predictor, training_set: str, seed: int) -> Path:
    """Folder named after contestant and training set, and a hash over everything that decides the models."""
    from models.encoded_file import code_version

    key: dict[str, Any] = {"version": VERSION, "encoding": code_version(), "contestant": repr(contestant)}
    key |= {"rows": training_set, "seed": seed}
    words = re.sub(r"[^a-z0-9]+", "-", contestant.name.lower()).strip("-")
    return root / f"{words}-on-{training_set}-{content_hash(key)[:6]}"


def fitted(
    folder: Path,
    contestant: Predictor,
    data: Callable[[], tuple[Dataset, RowSplit]],
    seed: int,
    metrics: Sequence[str],
    audience: Audience,
) -> Fitted:
    """Contestant's models; each that `folder` lacks is trained, and kept before the next. data: called if needed."""
    groups = [(metric,) for metric in metrics] if _apart(contestant) else [tuple(metrics)]
    return Joined(contestant.name, tuple(_one(folder, contestant, data, seed, group, audience) for group in groups))


def _apart(contestant: Predictor) -> bool:
    """Whether each metric has a network of its own, so that each can be kept as soon as it is trained."""
    from models.predictors import Networks

    return isinstance(contestant, Networks) and contestant.settings.heads == "one"


def _one(
    folder: Path,
    contestant: Predictor,
    data: Callable[[], tuple[Dataset, RowSplit]],
    seed: int,
    metrics: tuple[str, ...],
    audience: Audience,
) -> Fitted:
    place = folder / "+".join(metrics)
    if place.exists():
        return contestant.load(place)
    dataset, parts = data()
    audience.stage(f"training {contestant.name} for {', '.join(metrics)} on {len(parts.train)} rows")
    with audience.progress("steps at most; training stops early") as report:
        found = contestant.fit(dataset, parts, seed, metrics, report)
    with new_folder(place) as aside:
        found.save(aside)
    return found
