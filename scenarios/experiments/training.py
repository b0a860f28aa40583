"""Trains what is missing and finds what is there: a folder a contestant and training set, in it one a model."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from scenarios.progress import Audience, Progress
from spark.manifest import content_hash
from twin.version import VERSION

if TYPE_CHECKING:
    import numpy as np

    from models.dataset import Dataset, Split


class Fitted(Protocol):
    """Something that predicts."""

    @property
    def name(self) -> str:
        """As in the tables."""

    def predict(self, dataset: Dataset) -> Mapping[str, np.ndarray]:
        """For each metric [G]: cost in its unit, or probability."""

    def save(self, folder: Path) -> None:
        """Writes a new folder."""


class Contestant(Protocol):
    """Something that learns to predict. Its repr tells all its settings."""

    @property
    def name(self) -> str:
        """As in the tables."""

    @property
    def together(self) -> bool:
        """Whether one model learns all metrics; else each metric has its own."""

    def fit(
        self, dataset: Dataset, parts: Split, seed: int, metrics: Sequence[str], progress: Progress | None = None
    ) -> Fitted:
        """Learns from the training rows."""

    def load(self, folder: Path) -> Fitted:
        """What `Fitted.save` wrote."""


@dataclass(frozen=True)
class Joined:
    """Models of one contestant for different metrics, as one."""

    name: str
    parts: tuple[Fitted, ...]

    def predict(self, dataset: Dataset) -> Mapping[str, np.ndarray]:
        """What each says about its own metrics."""
        return {metric: values for part in self.parts for metric, values in part.predict(dataset).items()}

    def save(self, folder: Path) -> None:
        """Each in a folder of its own."""
        for number, part in enumerate(self.parts):
            part.save(folder / str(number))


def folder_of(root: Path, contestant: Contestant, training_set: str, seed: int) -> Path:
    """Contestant and training set in words, and a hash over everything that decides the models."""
    key = {"version": VERSION, "contestant": repr(contestant), "rows": training_set, "seed": seed}
    words = re.sub(r"[^a-z0-9]+", "-", contestant.name.lower()).strip("-")
    return root / f"{words}-on-{training_set}-{content_hash(key)[:6]}"


def fitted(
    folder: Path,
    contestant: Contestant,
    data: Callable[[], tuple[Dataset, Split]],
    seed: int,
    metrics: Sequence[str],
    audience: Audience,
) -> Fitted:
    """Every model that `folder` lacks is trained, and kept before the next one begins. data: asked for if needed."""
    groups = [tuple(metrics)] if contestant.together else [(metric,) for metric in metrics]
    return Joined(contestant.name, tuple(_one(folder, contestant, data, seed, group, audience) for group in groups))


def _one(
    folder: Path,
    contestant: Contestant,
    data: Callable[[], tuple[Dataset, Split]],
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
    partial = place.with_name(f".{place.name}.{os.getpid()}.partial")
    shutil.rmtree(partial, ignore_errors=True)
    try:
        found.save(partial)
        partial.rename(place)
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    return found
