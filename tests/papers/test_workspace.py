"""Tests that results and models are found again, under a name that changes with all that decides them."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from models.predictors import Networks
from models.settings import TrainingSettings
from papers.workspace import (
    PAPER,
    Within,
    Workspace,
    evaluation_corpus,
    fitted,
    folder_of,
    in_process,
    label,
    main_corpus,
)
from scenarios import learning
from scenarios.learning import CorpusRecipe
from tests.papers.conftest import SEED, TINY, silent
from twin.corpus.manifest import CHUNKS
from twin.metrics import METRICS
from twin.simulation import simulate
from twin.trace import TRAINING_ROWS

RECIPE = CorpusRecipe(runs=6, seed=3, replicates=2, horizon_s=20.0)


def test_the_papers_corpus_is_what_its_command_makes():
    recipe = main_corpus(PAPER, 1)
    assert recipe.command == "twin corpus OUT --runs 43281 --replicates 1000 --seed 1"
    made = learning.CorpusRecipe(43281, seed=1, replicates=1000).plan()[1]
    assert recipe.plan()[1].manifest() == made.manifest()


def test_names_differ_with_everything_that_decides_a_corpus():
    changes = [{"runs": 7}, {"seed": 4}, {"replicates": 1}, {"horizon_s": 30.0}, {"space": "costream-between"}]
    names = {label(RECIPE), *(label(replace(RECIPE, **change)) for change in changes)}
    assert len(names) == 1 + len(changes)
    assert label(RECIPE) == label(replace(RECIPE))


def test_evaluation_repeats_no_query_of_the_training_corpus():
    one, other = main_corpus(TINY, SEED), evaluation_corpus(TINY, SEED, "costream")
    drawn = [{make(index).query.model_dump_json() for index in range(20)} for make, _ in (one.plan(), other.plan())]
    assert not drawn[0] & drawn[1]


def test_a_dataset_is_made_once(fresh: Workspace, monkeypatch: pytest.MonkeyPatch):
    first = fresh.dataset(RECIPE)
    assert len(first) == 8
    rows = pq.read_table(fresh.folder / "datasets" / label(RECIPE) / "rows.parquet")
    assert rows.schema.names == TRAINING_ROWS.names

    def never(*_) -> None:
        raise AssertionError("simulated again")

    again = Workspace(fresh.folder, TINY, SEED, silent(), never).dataset(RECIPE)
    np.testing.assert_array_equal(first.labels_GxA, again.labels_GxA)


def test_an_interrupted_corpus_goes_on_where_it_was(fresh: Workspace):
    calls = []

    def stops(scenario):
        calls.append(scenario.run.seed)
        if len(calls) == 6:
            raise KeyboardInterrupt
        return simulate(scenario)

    interrupted = Workspace(fresh.folder, TINY, SEED, silent(), lambda jobs, who: in_process(jobs, who, stops))
    with pytest.raises(KeyboardInterrupt):
        interrupted.dataset(RECIPE)
    corpus = fresh.folder / "corpora" / label(RECIPE)
    assert len(list((corpus / CHUNKS).glob("chunk-*"))) == 1
    assert not (fresh.folder / "datasets" / label(RECIPE)).exists()
    kept = fresh.dataset(RECIPE)
    whole = Workspace(fresh.folder / "other", TINY, SEED, silent(), in_process).dataset(RECIPE)
    np.testing.assert_array_equal(kept.labels_GxA, whole.labels_GxA)


def test_a_judged_query_is_kept_until_its_key_changes(fresh: Workspace):
    asked = []

    def compute() -> dict[str, list[float]]:
        asked.append(1)
        return {"costs": [1.5, 2.0]}

    key = {"query": 3, "model": "a"}
    assert fresh.cached("fig", key, compute) == fresh.cached("fig", key, compute) == {"costs": [1.5, 2.0]}
    assert len(asked) == 1
    fresh.cached("fig", {**key, "model": "b"}, compute)
    Workspace(fresh.folder, TINY, SEED + 1, silent(), in_process).cached("fig", key, compute)
    Workspace(fresh.folder, replace(TINY, horizon_s=30.0), SEED, silent(), in_process).cached("fig", key, compute)
    assert len(asked) == 4
    files = list((fresh.folder / "judged" / "fig").iterdir())
    assert len(files) == 4
    assert any(json.loads(path.read_text())["key"]["model"] == "b" for path in files)


def test_nothing_is_kept_of_a_failed_computation(fresh: Workspace):
    with pytest.raises(ZeroDivisionError):
        fresh.cached("fig", {}, lambda: 1 / 0)
    with pytest.raises(ValueError, match="not JSON compliant"):
        fresh.cached("fig", {}, lambda: float("nan"))
    assert fresh.cached("fig", {}, lambda: 1) == 1


TRAINED: list[str] = []


class Constant(Networks):
    """Contestant that learns a number, and is interrupted when it has learned two metrics."""

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
