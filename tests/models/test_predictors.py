"""Tests of predictors: all have one protocol, come back from their folders, and know their limits."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from models import pipeline, predictors, trees
from models.checkpoint import coverage_of
from models.dataset import Dataset, of_deployments, split
from models.evaluation import evaluate
from models.predictors import PREDICTORS, BoostedTrees, Networks, Predictor, RateModelAlone
from models.settings import NetworkConfig, TrainingSettings
from models.trees import TreeRows, TreeScale, TreeSettings, train_trees
from models.vectors import DERIVED
from tests.models.deployments import random_deployment
from tests.models.untrained import begun
from twin.errors import BadInput
from twin.metrics import CHECKPOINTS, ESTIMATED, METRICS

FEW = TreeSettings(rounds=80, patience=20, leaf_rows=5)
SOME: dict[str, Predictor] = {
    "networks": Networks("networks", TrainingSettings(members=1, network=NetworkConfig(hidden=8))),
    "trees": BoostedTrees("trees", "derived", "ratio", FEW),
    "flat": BoostedTrees("flat", "flat", "log", FEW),
    "rates": RateModelAlone(),
}


@cache
def dataset() -> Dataset:
    """Dataset whose labels are the rate model's answers, twice as slow where two hosts and more are in use."""
    one = of_deployments([random_deployment(seed) for seed in range(240)], np.ones((240, 5)))
    labels = one.rates_GxA.copy()
    labels[:, :3] = np.maximum(labels[:, :3], 1e-3) * np.where(one.about["hosts"] > 2, 2.0, 1.0)[:, None]
    labels[:, 3] = one.about["utilisation"] > 1
    labels[:, 4] = one.about["joins"] == 0
    return Dataset(one.encoded, labels, one.config_hash, one.records_out, one.horizon_s)


@pytest.mark.parametrize("share", [0.02, 0.5, 0.9])
def test_probabilities_of_rows_of_which_few_are_yes_are_those_of_as_many_of_both(share: float) -> None:
    """Balancing turns a probability among rows of `share` yes into that among as many of both, as Bayes says."""
    of_yes, of_no = np.array([0.5, 0.3, 0.2]), np.array([0.1, 0.3, 0.6])
    as_frequent = share * of_yes / (share * of_yes + (1.0 - share) * of_no)
    assert predictors.balanced(as_frequent, share) == pytest.approx(of_yes / (of_yes + of_no))


@pytest.mark.parametrize("name", SOME)
def test_a_contestant_predicts_every_row_and_comes_back_from_its_folder(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every contestant predicts all rows and can be loaded again; networks are untrained, as weights do not matter."""
    monkeypatch.setattr(pipeline, "train_member", begun)
    parts = split(dataset(), 0)
    fitted = SOME[name].fit(dataset(), parts, 0)
    found = fitted.predict(dataset().take(parts.test))
    assert set(METRICS) <= set(found) <= set(ESTIMATED)
    for metric, values in found.items():
        assert values.shape == parts.test.shape
        assert np.isfinite(values).all() or metric in CHECKPOINTS  # of which there are none
        assert not (values < 0).any()
        assert metric not in METRICS[3:] or (values <= 1).all()
    seen = coverage_of(dataset().graphs, parts.train)
    for held in [each.seen for each in getattr(getattr(fitted, "model", None), "ensembles", ())]:
        assert held == seen
    fitted.save(tmp_path)
    again = SOME[name].load(tmp_path).predict(dataset().take(parts.test))
    for metric, values in found.items():
        np.testing.assert_array_equal(values, again[metric])


def test_trees_learn_what_the_rate_model_does_not_know() -> None:
    parts = split(dataset(), 0)
    test = dataset().take(parts.test)
    rows = {each: evaluate(SOME[each].fit(dataset(), parts, 0), test) for each in ("trees", "rates")}
    q95 = {name: rows[name][0].q95 or 0 for name in rows}
    assert q95["trees"] < 1.2 < q95["rates"]
    assert rows["trees"][3].accuracy == 1


def test_only_the_wanted_metrics_are_learned_and_progress_is_told() -> None:
    told: list[tuple[int, int]] = []
    fitted = SOME["trees"].fit(
        dataset(), split(dataset(), 0), 0, METRICS[1:3], lambda done, total: told.append((done, total))
    )
    assert set(fitted.predict(dataset())) == set(METRICS[1:3])
    assert told == [(1, 2), (2, 2)]
    with pytest.raises(BadInput, match="unknown metric 'sucess'"):
        SOME["trees"].fit(dataset(), split(dataset(), 0), 0, ["sucess"])


def test_a_folder_without_or_with_other_trees_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(BadInput, match="holds no trees"):
        SOME["trees"].load(tmp_path)
    SOME["trees"].fit(dataset(), split(dataset(), 0), 0, ["e2e_latency_s"]).save(tmp_path)
    monkeypatch.setattr(predictors, "VERSIONS", {"derived": "another"})
    with pytest.raises(BadInput, match="this version computes another"):
        SOME["trees"].load(tmp_path)


def test_trees_refuse_a_kind_of_operator_that_they_never_saw() -> None:
    without = np.flatnonzero(dataset().derived_GxD[:, 2] == 0)
    assert DERIVED[2].name == "maps"
    part = dataset().take(without)
    fitted = SOME["trees"].fit(part, split(part, 0), 0, ["e2e_latency_s"])
    assert len(fitted.predict(part)["e2e_latency_s"]) == len(part)
    with pytest.raises(BadInput, match="model 'trees' never saw 'map'"):
        fitted.predict(dataset())


def test_names_in_tables_differ() -> None:
    assert len({each.name for each in PREDICTORS.values()}) == len(PREDICTORS)


def test_taking_rows_is_the_same_as_making_them_alone() -> None:
    rows = np.array([5, 2, 9])
    part, alone = dataset().take(rows), of_deployments([random_deployment(int(row)) for row in rows], np.ones((3, 5)))
    for ours, theirs in zip(part.graphs.nodes, alone.graphs.nodes, strict=True):
        np.testing.assert_array_equal(ours.rows, theirs.rows)
        np.testing.assert_array_equal(ours.start, theirs.start)
    for name in ("streams", "updates", "placements"):
        np.testing.assert_array_equal(getattr(part.graphs, name).rows, getattr(alone.graphs, name).rows)
    np.testing.assert_array_equal(part.graphs.context_GxC, alone.graphs.context_GxC)
    np.testing.assert_array_equal(part.derived_GxD, alone.derived_GxD)
    np.testing.assert_array_equal(part.labels_GxA, dataset().labels_GxA[rows])


SMALL = TreeSettings(rounds=60, patience=20, leaf_rows=5)


def rows(count: int, seed: int) -> TreeRows:
    """Rows whose cost is a step function of two entries, times the rate model's; a tenth have no label."""
    rng = np.random.default_rng(seed)
    x = rng.uniform(size=(count, 4))
    rates = rng.lognormal(sigma=2, size=count)
    label = rates * np.where(x[:, 0] > 0.5, 3.0, 1.0) * np.where(x[:, 1] > 0.3, 1.0, 0.2)
    label[rng.random(count) < 0.1] = np.nan
    return TreeRows(x, label, rates)


TRAIN, VALID, TEST = rows(600, 0), rows(100, 1), rows(200, 2).known()


def test_the_ratio_scale_learns_what_the_rate_model_misses() -> None:
    found = train_trees("e2e_latency_s", "ratio", TRAIN, VALID, SMALL.model_copy(update={"rate": 0.2}))
    off = np.abs(np.log(found.predict(TEST.x_NxF, TEST.rates_N) / TEST.label_N))
    assert np.median(off) < 0.02
    assert np.median(np.abs(np.log(TEST.rates_N / TEST.label_N))) > 0.5


@pytest.mark.parametrize("scale", ["raw", "log", "ratio"])
def test_costs_are_in_units_and_positive(scale: TreeScale) -> None:
    found = train_trees("throughput_per_s", scale, TRAIN, VALID, SMALL).predict(TEST.x_NxF, TEST.rates_N)
    assert (found > 0).all()
    assert np.corrcoef(found, TEST.label_N)[0, 1] > (0.9 if scale == "ratio" else 0.0)


@pytest.mark.parametrize("sampled", [SMALL, SMALL.model_copy(update={"rows": 0.7, "columns": 0.5, "members": 2})])
def test_the_seed_decides(sampled: TreeSettings) -> None:
    def texts(seed: int) -> list[str]:
        found = train_trees("e2e_latency_s", "log", TRAIN, VALID, sampled, seed)
        return [each.model_to_string().partition("parameters:")[0] for each in found.boosters]

    assert texts(1) == texts(1)
    assert (texts(1) != texts(2)) == (sampled.rows < 1)


def test_both_classes_weigh_the_same() -> None:
    """Classes weigh the same: half of the rows with x > 0.9 are yes, 5 % of all, and as all of these are found."""
    rng = np.random.default_rng(3)
    x = rng.uniform(size=(4000, 1))
    yes = (x[:, 0] > 0.9) & (rng.random(4000) < 0.5)
    part = TreeRows(x, yes.astype(float), np.ones(4000))
    found = train_trees("success", "log", part, part, SMALL).predict(x, np.ones(4000))
    assert ((found > 0.5) == (x[:, 0] > 0.9)).mean() > 0.98


def test_labels_without_information_are_refused() -> None:
    one_class = TreeRows(TRAIN.x_NxF, np.ones(600), TRAIN.rates_N)
    with pytest.raises(BadInput, match="success is True in all 600 training rows, so it cannot be learned"):
        train_trees("success", "log", one_class, one_class, SMALL)
    nothing = TreeRows(VALID.x_NxF, np.full(100, np.nan), VALID.rates_N)
    with pytest.raises(BadInput, match="throughput_per_s has no label in the training rows"):
        train_trees("throughput_per_s", "log", nothing, VALID, SMALL)
    with pytest.raises(BadInput, match="throughput_per_s has no label in the validation rows"):
        train_trees("throughput_per_s", "log", TRAIN, nothing, SMALL)


def test_files_give_back_the_trees_or_say_why_not(tmp_path: Path) -> None:
    before = train_trees("e2e_latency_s", "ratio", TRAIN, VALID, SMALL.model_copy(update={"members": 2}))
    trees.save(before, tmp_path, "v1", {"sink": 3})
    path = tmp_path / "e2e_latency_s.trees.json"
    after, seen = trees.load(path, "v1")
    assert seen == {"sink": 3}
    np.testing.assert_array_equal(before.predict(TEST.x_NxF, TEST.rates_N), after.predict(TEST.x_NxF, TEST.rates_N))
    with pytest.raises(BadInput, match="was trained on features v1, this version computes v2"):
        trees.load(path, "v2")
    text = path.read_text()
    for damage in ("", text[: len(text) // 2], json.dumps({**json.loads(text), "members": ["x"]}), "[]"):
        path.write_text(damage)
        with pytest.raises(BadInput, match="holds no trees, or is damaged"):
            trees.load(path, "v1")
