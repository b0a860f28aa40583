"""Boosted trees: the same seed gives the same trees, and every scale comes back to units."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from models import trees
from models.trees import TreeRows, TreeScale, TreeSettings, train_trees
from twin.errors import BadInput

SMALL = TreeSettings(rounds=60, patience=20, leaf_rows=5)


def rows(count: int, seed: int) -> TreeRows:
    """The cost is a step function of two entries, times what the rate model says; a tenth have no label."""
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
    """5 % of yes, which half of the rows with x > 0.9 are: as likely as not once classes are balanced, so found."""
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
