"""A network a metric is kept as soon as it is trained, and trained once."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from models.predictors import Networks
from models.settings import TrainingSettings
from papers.rows import Within
from papers.training import fitted, folder_of
from tests.papers.conftest import silent
from twin.metrics import METRICS

TRAINED: list[str] = []


class Constant(Networks):
    """Learns a number, and is interrupted when it has learned two metrics."""

    def fit(self, dataset, parts, seed, metrics=METRICS, progress=None):
        if len(TRAINED) == 2:
            TRAINED.append("interrupted")
            raise KeyboardInterrupt
        TRAINED.extend(metrics)
        return Answer(self.name, dict.fromkeys(metrics, 1.0))

    def load(self, folder):
        return Answer(self.name, dict.fromkeys((folder / "metrics").read_text().split(), 1.0))


class Answer:
    def __init__(self, name, values) -> None:
        self.name, self.values = name, values

    def predict(self, dataset):
        return {metric: np.full(len(dataset), value) for metric, value in self.values.items()}

    def save(self, folder: Path) -> None:
        (folder / "metrics").write_text(" ".join(self.values))


def test_an_interrupted_training_keeps_the_networks_it_has(tmp_path):
    TRAINED.clear()
    contestant = Constant("constant", TrainingSettings(heads="one"))
    data = lambda: ([0, 0], type("Parts", (), {"train": [0]}))  # noqa: E731

    def train():
        return fitted(tmp_path / "model", contestant, data, 1, METRICS, silent())

    with pytest.raises(KeyboardInterrupt):
        train()
    assert {path.name for path in (tmp_path / "model").iterdir()} == set(METRICS[:2])
    found = train()
    assert list(TRAINED) == [*METRICS[:2], "interrupted", *METRICS[2:]]
    assert set(found.predict([0, 0])) == set(METRICS)
    train()
    assert len(TRAINED) == len(METRICS) + 1


def test_one_network_for_all_metrics_is_one_folder(tmp_path):
    TRAINED.clear()
    contestant = Constant("constant", TrainingSettings(heads="all"))
    fitted(tmp_path / "model", contestant, lambda: ([0], type("Parts", (), {"train": [0]})), 1, METRICS, silent())
    assert [path.name for path in (tmp_path / "model").iterdir()] == ["+".join(METRICS)]


def test_folders_differ_with_settings_rows_and_seed(tmp_path):
    rows = ["corpus", f"corpus-{Within('ram_mb', 1000, 16000).name}"]
    settings = [TrainingSettings(), TrainingSettings(rate=1e-3)]
    names = {
        folder_of(tmp_path, Networks("A (b)", each), row, seed).name
        for each in settings
        for row in rows
        for seed in (1, 2)
    }
    assert len(names) == 8
    assert all(name.startswith("a-b-on-corpus") for name in names)
