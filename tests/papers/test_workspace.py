"""What was made is found again, under a name that changes with all that decides it; interruptions lose nothing."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pyarrow.parquet as pq
import pytest

from papers.recipes import evaluation_corpus, label, main_corpus
from papers.simulating import in_process
from papers.sizes import PAPER
from papers.workspace import Workspace
from scenarios.learning import corpora
from scenarios.learning.corpora import CorpusRecipe
from tests.papers.conftest import SEED, TINY, silent
from twin.corpus.manifest import CHUNKS
from twin.simulation import simulate
from twin.trace import TRAINING_ROWS

RECIPE = CorpusRecipe(runs=6, seed=3, replicates=2, horizon_s=20.0)


def test_the_papers_corpus_is_what_its_command_makes():
    recipe = main_corpus(PAPER, 1)
    assert recipe.command == "twin corpus OUT --runs 43281 --replicates 1000 --seed 1"
    made = corpora.CorpusRecipe(43281, seed=1, replicates=1000).plan()[1]
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
