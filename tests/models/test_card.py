"""The card of a model says what it learned from, how long, and what `evaluate` finds on rows that it never saw."""

from __future__ import annotations

import numpy as np
import pytest

from models import pipeline
from models.dataset import Dataset, split
from models.evaluation import card, evaluate
from models.prediction import LearnedCostModel
from models.predictors import FittedNetworks, RateModelAlone
from models.settings import RESIDUAL
from tests.models.test_training import dataset, trained
from tests.models.untrained import begun


def cells(text: str, title: str) -> dict[str, list[str]]:
    """Cells of the first table below a line that begins with `title`, by the first cell of each row."""
    lines = text[text.index(title) :].splitlines()
    begin = next(number for number, line in enumerate(lines) if line.startswith("|"))
    rows = []
    for line in lines[begin:]:
        if not line.startswith("|"):
            break
        rows.append([cell.strip() for cell in line.strip("|").split("|")])
    return {row[0]: row[1:] for row in rows}


def held() -> Dataset:
    return dataset().take(split(dataset(), 0).test)


def test_errors_are_those_of_evaluate_beside_the_rate_model() -> None:
    model = LearnedCostModel("mine", trained())
    text = card(model, (RateModelAlone(),), {"rows kept apart": held()}, {"dataset": "rows"})
    assert text.startswith("# Cost model `mine`") and "- dataset: rows" in text and "- seed: 1" in text
    table = cells(text, "## Held-out error: rows kept apart")
    assert table["metric"][:2] == ["learned", "rate model"]
    found = [evaluate(each, held())[0] for each in (FittedNetworks("m", model), RateModelAlone())]
    assert table["throughput_per_s"][:2] == [f"{row.q50:.3f} / {row.q95:.2f}" for row in found]
    assert set(table) == {"metric", "---", "throughput_per_s"}, "of metrics that it predicts"


def test_each_network_is_named_with_the_step_that_it_was_kept_at() -> None:
    model = LearnedCostModel("mine", trained())
    curve = model.ensembles[0].manifest["members"][0]["curve"]
    best = curve[int(np.argmin([point[2] for point in curve]))]
    text = card(model, (), {"rows kept apart": held()}, {})
    assert cells(text, "## Training")[f"{model.ensembles[0].name} 1"] == [
        f"{best[0]:,}",
        f"{curve[-1][0]:,}",
        f"{best[2]:.4f}",
    ]
    (seen,) = (line for line in text.splitlines() if line.startswith("aggregate ("))
    assert f"source ({model.ensembles[0].seen['source']:,})" in seen


def test_a_model_with_gates_and_intervals_shows_both(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pipeline, "train_member", begun)
    network = RESIDUAL.network.model_copy(update={"hidden": 4})
    small = RESIDUAL.model_copy(update={"members": 1, "network": network})
    model = LearnedCostModel("mine", pipeline.train(dataset(), split(dataset(), 0), small, 1))
    text = card(model, (RateModelAlone(),), {"rows kept apart": held()}, {})
    assert cells(text, "## Gates")["processing_latency_s"]
    low, high = model.around(model.predict_graphs(held().graphs), "processing_latency_s")
    truth = held().label_G("processing_latency_s")
    inside = ((low <= truth) & (truth <= high))[~np.isnan(truth)].mean()
    assert cells(text, "## Intervals")["processing_latency_s"][0].startswith(f"{inside:.1%}, ")
